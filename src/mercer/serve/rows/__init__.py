"""Rows of requests: JSON, CSV and Arrow."""
