"""Kernels of sequences of symbols: strings, texts, proteins, paths."""
