"""Basis functions without a penalty beside the kernel: the public name of ``core.basis``."""

from mercer.core.basis import Basis, FunctionBasis, PolynomialBasis, as_basis

__all__ = ["Basis", "FunctionBasis", "PolynomialBasis", "as_basis"]
