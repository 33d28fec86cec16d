"""Draws from densities: chains, slices, annealed paths, and whether they have mixed."""
