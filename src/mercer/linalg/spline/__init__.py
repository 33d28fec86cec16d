"""Grams of smoothing splines on a line, in O(n)."""
