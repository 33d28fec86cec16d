"""What :func:`mercer.to_onnx` raises."""

from __future__ import annotations


class ExportError(ValueError):
    """A model, or a part of one, that has no form in ONNX; the sentence says which and why."""
