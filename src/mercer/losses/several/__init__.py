"""Losses of several latent functions, each with a kernel of its own."""
