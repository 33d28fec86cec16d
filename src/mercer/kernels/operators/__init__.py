"""Kernels from differential operators."""
