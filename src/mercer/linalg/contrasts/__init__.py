"""Grams of conditionally positive definite kernels, by contrasts."""
