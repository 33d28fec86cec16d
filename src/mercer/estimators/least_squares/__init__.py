"""Least-squares classifiers."""
