"""Tables in files: CSV and parquet read, outputs written."""
