"""Smoothing splines."""
