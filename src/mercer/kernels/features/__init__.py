"""Kernels with few explicit features."""
