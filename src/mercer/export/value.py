"""Value: a number, vector or matrix that is not known yet. Arithmetic on it writes ONNX nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array

if TYPE_CHECKING:
    from mercer.export.graph import Graph


class Value:
    """What a node puts out. Numbers and arrays that meet it become constants; shapes broadcast."""

    __array_ufunc__ = None  # array + value is value.__radd__(array), not an array of values
    __hash__ = None  # type: ignore[assignment]  # == compares elementwise, as for arrays

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        # this is factor * base; and this is left @ array: see _times
        self.base, self.factor = self, 1.0
        self.product: tuple[Value, Array] | None = None

    # ------------------------------------------------------------------ arithmetic
    def __add__(self, other: Any) -> Value:
        return self.graph.add("Add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.graph.add("Add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.graph.add("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.graph.add("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        number = _number(other)
        return self.graph.add("Mul", self, other) if number is None else self._times(number)

    def __rmul__(self, other: Any) -> Value:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Value:
        number = _number(other)
        return self.graph.add("Div", self, other) if number is None else self._times(number, "Div")

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.add("Div", other, self)

    def __neg__(self) -> Value:
        return self._times(-1.0)

    def __matmul__(self, other: Any) -> Value:
        if isinstance(other, Value):
            return self.graph.add("MatMul", self, other)
        array = np.asarray(other, dtype=np.float64)
        value = self.graph.add("MatMul", self.base, array * self.factor)
        value.product = (self.base, array * self.factor)
        return value

    def __rmatmul__(self, other: Any) -> Value:
        return self.graph.add("MatMul", np.asarray(other, dtype=np.float64), self)

    def _times(self, number: float, op: str = "Mul") -> Value:
        """Return this times a number, or over it.

        onnxruntime (1.31) takes a number beside a product of matrices into the product, rounded to
        single precision. So a number never stands there: it goes into the array of the product.
        """
        factor = number if op == "Mul" else 1.0 / number
        if self.product is not None:
            left, array = self.product
            return left @ (array * factor)
        value = self.graph.add(op, self, np.float64(number))
        value.base, value.factor = self.base, self.factor * factor
        return value

    def __pow__(self, exponent: int) -> Value:
        """Return a positive integer power, by repeated squares."""
        if exponent == 1:
            return self
        half = self ** (exponent // 2)
        return half * half * self if exponent % 2 else half * half

    def __lt__(self, other: Any) -> Value:
        return self.graph.add("Less", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.graph.add("Greater", self, other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]  # elementwise, as for arrays
        return self.graph.add("Equal", self, other)

    # ------------------------------------------------------------------ functions
    def apply(self, op: str) -> Value:
        """Return the value of an elementwise ONNX operator: Exp, Log, Sqrt, Sin, ..."""
        return self.graph.add(op, self)

    def exp(self) -> Value:
        """Return e to this."""
        return self.apply("Exp")

    def log(self) -> Value:
        """Return the natural logarithm."""
        return self.apply("Log")

    def sqrt(self) -> Value:
        """Return the square root."""
        return self.apply("Sqrt")

    def square(self) -> Value:
        """Return this times this."""
        return self * self

    def at_least(self, low: Any) -> Value:
        """Return the larger of this and ``low``."""
        return self.graph.add("Max", self, np.asarray(low, dtype=np.float64))

    def at_most(self, high: Any) -> Value:
        """Return the smaller of this and ``high``."""
        return self.graph.add("Min", self, np.asarray(high, dtype=np.float64))

    # ------------------------------------------------------------------ shapes
    def sum(self, axis: int = 1) -> Value:
        """Return the sum along an axis, which stays with length one."""
        return self.graph.add("ReduceSum", self, np.array([axis]), keepdims=1)

    def max(self, axis: int = 1) -> Value:
        """Return the largest along an axis, which stays with length one."""
        return self.graph.add("ReduceMax", self, np.array([axis]), keepdims=1)

    def take(self, indices: Sequence[int] | NDArray[np.int64], axis: int = 1) -> Value:
        """Return the chosen columns, or what else lies along ``axis``."""
        return self.graph.add("Gather", self, np.asarray(indices, dtype=np.int64), axis=axis)

    def expand(self, axis: int) -> Value:
        """Return this with a new axis of length one."""
        return self.graph.add("Unsqueeze", self, np.array([axis]))

    def squeeze(self, axis: int) -> Value:
        """Return this without an axis of length one."""
        return self.graph.add("Squeeze", self, np.array([axis]))

    def reshape(self, *shape: int) -> Value:
        """Return this in another shape; 0 keeps a length, -1 is what is left."""
        return self.graph.add("Reshape", self, np.array(shape, dtype=np.int64))

    def cast(self, dtype: Any) -> Value:
        """Return this as another type."""
        from onnx import helper

        return self.graph.add(
            "Cast", self, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        )


def _number(given: Any) -> float | None:
    """Return a number, or an array of one, as a float; None for anything else."""
    if isinstance(given, Value):
        return None
    array = np.asarray(given)
    return float(array.reshape(())) if array.size == 1 and array.ndim <= 2 else None


def where(condition: Value, yes: Any, no: Any) -> Value:
    """Return ``yes`` where the condition holds, else ``no``; both are computed everywhere."""
    graph = condition.graph
    both = [each if isinstance(each, Value) else np.asarray(each) for each in (yes, no)]
    return graph.add("Where", condition, *both)


def stack(values: Sequence[Value], axis: int = 1) -> Value:
    """Return the values side by side along an axis that they have."""
    return values[0] if len(values) == 1 else values[0].graph.add("Concat", *values, axis=axis)
