"""From a table to the best machine for it: :func:`mercer.fit` and what it returns."""

from mercer.tables.best import fit
from mercer.tables.columns import Column, infer_columns
from mercer.tables.fitted import TableModel
from mercer.tables.frame import Frame, as_frame
from mercer.tables.left_out import LeftOut
from mercer.tables.ranking import Row

__all__ = ["Column", "Frame", "LeftOut", "Row", "TableModel", "as_frame", "fit", "infer_columns"]
