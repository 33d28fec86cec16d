"""Posteriors that are conditioned again with every batch."""
