"""Exact solutions by products with K alone, and how far they are from the end."""
