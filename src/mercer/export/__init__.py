"""Export: fitted machines as ONNX graphs, which run without mercer, Python or a GPU.

A :class:`~mercer.export.expression.Value` stands for numbers that are not known yet; arithmetic on
it writes nodes. So each kernel is written in the two or three lines of its formula, and estimators
in those of formulas (1) and (2).
"""

from __future__ import annotations

from mercer.core.errors import ExportError
from mercer.export.kernels import composed as _composed
from mercer.export.kernels import forms as _stationary
from mercer.export.kernels import inner_products as _inner_products
from mercer.export.model import to_onnx

__all__ = ["ExportError", "to_onnx"]

_FORMS = (_composed, _inner_products, _stationary)  # imported for the kernels they enter
