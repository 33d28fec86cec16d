"""Export: fitted estimators as ONNX graphs, which run without mercer, Python or a GPU.

A :class:`~mercer.export.expression.Value` stands for numbers that are not known yet; arithmetic on
it writes nodes. So a kernel is written by its own formula, and estimators by formulas (1) and (2).
"""

from mercer.core.errors import ExportError
from mercer.export import functions as functions  # enters what a formula may use
from mercer.export.model import to_onnx

__all__ = ["ExportError", "to_onnx"]
