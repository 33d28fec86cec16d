"""Losses of two classes."""
