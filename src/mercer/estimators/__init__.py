"""Estimators with scikit-learn's interface; presets of one machine."""
