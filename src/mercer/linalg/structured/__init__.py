"""Covariances with structure: sums of one-column kernels, complete grids."""
