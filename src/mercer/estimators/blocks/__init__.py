"""Fits and predictions on tables that come in blocks: files, mapped arrays, Dask collections."""
