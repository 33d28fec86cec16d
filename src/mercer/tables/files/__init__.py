"""Tables in files: text of any dialect, parquet and spreadsheets, and what was taken for what."""

from mercer.tables.data.reading import Reading
from mercer.tables.files.binary import is_book, is_parquet, parquet_rows
from mercer.tables.files.dialect import FileOptions
from mercer.tables.files.numbers import MISSING, parse_number, read_number
from mercer.tables.files.read import frame_of, read_table
from mercer.tables.files.rows import STDIN, Misshapen, open_rows
from mercer.tables.files.table import FileTable, batches, read_file

__all__ = [
    "MISSING",
    "STDIN",
    "FileOptions",
    "FileTable",
    "Misshapen",
    "Reading",
    "batches",
    "frame_of",
    "is_book",
    "is_parquet",
    "open_rows",
    "parquet_rows",
    "parse_number",
    "read_file",
    "read_number",
    "read_table",
]
