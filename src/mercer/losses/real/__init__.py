"""Losses of real targets: noise models and their robust relatives."""
