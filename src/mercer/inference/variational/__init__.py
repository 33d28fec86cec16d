"""Variational Gaussian posteriors."""
