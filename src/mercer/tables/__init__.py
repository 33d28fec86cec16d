"""From a table to the best machine for it: :func:`mercer.fit` and what it returns."""

from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.ranking import Row
from mercer.tables.data.columns import Column, infer_columns
from mercer.tables.data.frame import Frame, as_frame
from mercer.tables.estimators import TableClassifier, TableRegressor
from mercer.tables.fit import fit
from mercer.tables.model import TableModel

__all__ = [
    "Column",
    "Frame",
    "LeftOutTable",
    "Row",
    "TableClassifier",
    "TableModel",
    "TableRegressor",
    "as_frame",
    "fit",
    "infer_columns",
]
