"""Grams held as n x n matrices, and their factors."""
