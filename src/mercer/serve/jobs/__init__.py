"""Fits of tables in processes of their own."""
