"""Reports: one HTML file that opens offline, for readers who did not fit the model."""

from mercer.tables.report.chapters import draw, table_report
from mercer.tables.report.page import write_report

__all__ = ["draw", "table_report", "write_report"]
