"""Bayesian logistic classification of streams."""
