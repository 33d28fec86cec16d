"""Classifiers of partly labelled data."""
