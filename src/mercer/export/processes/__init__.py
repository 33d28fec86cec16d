"""Processes and predictive averages as ONNX expressions."""
