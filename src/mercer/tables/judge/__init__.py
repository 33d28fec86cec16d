"""Judgement: how much a model is worth beside the simplest ones, and beside another class."""
