"""Quantile regression at several levels."""
