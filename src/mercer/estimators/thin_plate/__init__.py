"""Thin-plate splines."""
