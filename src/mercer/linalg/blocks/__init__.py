"""Sums over rows that come in blocks: from memory, from files, from a cluster."""
