"""Stacking: several machines as one, by weights that their rows left out have found."""
