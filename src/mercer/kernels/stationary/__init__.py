"""Kernels of the distance of two points."""
