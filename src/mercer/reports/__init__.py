"""Reports: one HTML file that opens offline, for readers who did not fit the model."""

from mercer.reports.draw import draw
from mercer.reports.page import write_report
from mercer.reports.table import table_report, write_table_report

__all__ = ["draw", "table_report", "write_report", "write_table_report"]
