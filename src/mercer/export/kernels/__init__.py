"""Kernels as ONNX expressions."""
