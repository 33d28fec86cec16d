"""Posteriors by one Gaussian site for each example: Laplace, EP, quadratic bound."""
