"""Kernels of smoothing splines: a line, a cycle, the plane."""
