"""Additive models."""
