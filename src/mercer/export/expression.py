"""Value: a number, vector or matrix that is not known yet. Arithmetic on it writes ONNX nodes.

Graph: the ONNX nodes that an expression of :class:`~mercer.export.expression.Value` leaves behind.

Functions that onnxruntime has in single precision only, or not at all, for doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mercer.core.arrays import Array
from mercer.core.errors import ExportError


class Value:
    """What a node puts out. Numbers and arrays that meet it become constants; shapes broadcast."""

    __array_ufunc__ = None  # array + value is value.__radd__(array), not an array of values
    __hash__ = None  # type: ignore[assignment]  # == compares elementwise, as for arrays

    def __init__(self, graph: OnnxGraph, name: str) -> None:
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


LARGEST = 1_900_000_000  # bytes of constants; a protobuf message ends at 2 GiB


class OnnxGraph:
    """Nodes and constants in the order in which they were asked for, each of them once.

    All arithmetic is in double precision, whatever the type of the inputs.
    """

    def __init__(self, outer: OnnxGraph | None = None) -> None:
        self.outer = outer
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.bytes = 0
        self.inside = 0  # bodies so far
        self.prefix = ""
        self._known: dict[Any, Value] = {}
        if outer is not None:
            outer.inside += 1
            self.prefix = f"{outer.prefix}/b{outer.inside}"

    def body(
        self, outputs: list[Value], inputs: Mapping[str, tuple[int, ...]] | None = None
    ) -> Any:
        """Return this as the body of a node of the outer graph, whose values it may use.

        All are doubles; ``inputs`` have names that begin with :attr:`prefix`, and a shape.
        """
        from onnx import TensorProto, helper

        given = {} if inputs is None else inputs
        return helper.make_graph(
            self.nodes,
            self.prefix,
            [helper.make_tensor_value_info(k, TensorProto.DOUBLE, v) for k, v in given.items()],
            [helper.make_tensor_value_info(v.name, TensorProto.DOUBLE, None) for v in outputs],
        )

    def keep(self, names: list[str]) -> None:
        """Drop nodes and constants that no value of these names needs."""
        needed, kept = set(names), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(_read(node))
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = [c for c in self.constants if c.name in needed]

    def constant(self, array: Any) -> Value:
        """Return a constant: doubles, 64-bit integers, booleans or texts."""
        from onnx import numpy_helper

        if self.outer is not None:
            return Value(self, self.outer.constant(array).name)
        array = np.asarray(array)
        if array.dtype.kind == "f" or array.dtype.kind == "u":
            array = array.astype(np.float64)
        elif array.dtype.kind == "i":
            array = array.astype(np.int64)
        array = np.ascontiguousarray(array)
        key = (array.dtype.str, array.shape, tuple(array.flat) if _text(array) else array.tobytes())
        if key not in self._known:
            self.bytes += 0 if _text(array) else array.nbytes
            if self.bytes > LARGEST:
                raise ExportError(
                    "the graph needs more than 1.9 GB of constants, and an ONNX file ends at 2 GB; "
                    "for a regressor export the mean alone with std=False, or use a machine of "
                    "fewer points (SVC, SVR, RVRegressor, RVClassifier)"
                )
            name = f"/c{len(self.constants)}"
            stored = array.astype(object) if _text(array) else array
            self.constants.append(numpy_helper.from_array(stored, name))
            self._known[key] = Value(self, name)
        return self._known[key]

    def value(self, given: Any) -> Value:
        """Return a Value as it is, and anything else as a constant."""
        return given if isinstance(given, Value) else self.constant(np.asarray(given))

    def add(self, op: str, *inputs: Any, unused: int = 0, **attributes: Any) -> Value:
        """Append a node, unless the same one is there, and return the first of its outputs.

        ``unused`` is the number of further outputs that the operator has.
        """
        from onnx import helper

        names = [self.value(each).name for each in inputs]
        key = (op, *names, *sorted((k, str(v)) for k, v in attributes.items()))
        if key not in self._known:
            name = f"{self.prefix}/v{len(self.nodes)}"
            outputs = [name, *(f"{name}_{i}" for i in range(unused))]
            self.nodes.append(helper.make_node(op, names, outputs, **attributes))
            self._known[key] = Value(self, outputs[0])
        return self._known[key]


def _read(node: Any) -> Iterator[str]:
    """Yield the names that a node, or a node in one of its bodies, reads."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                yield from _read(inner)
            yield from (output.name for output in attribute.g.output)


def _text(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in "UO"


ANCHOR = 3.0  # of the map x -> (x - ANCHOR) / (x + ANCHOR) of the half line to [-1, 1]
DEGREE = 20  # of the series below: relative errors of 1e-14


def ndtr(z: Value, degree: int = DEGREE) -> Value:
    """Phi(z), the standard normal distribution function; relative errors of 1e-14 in both tails.

    A ``degree`` of 12 has errors of 2e-9.

    erfc(x) = e^{-x^2} g(u) / (x + 1), x >= 0, with g a Chebyshev series in
    u = (x - ANCHOR) / (x + ANCHOR), summed by Clenshaw's rule.
    """
    x = (z * float(np.sqrt(0.5))).apply("Abs")
    u2 = 2.0 * (x - ANCHOR) / (x + ANCHOR)
    coefficients = _tail_series(degree)
    after, last = 0.0 * u2, 0.0 * u2
    for c in coefficients[:0:-1]:
        after, last = u2 * after - last + float(c), after
    series = 0.5 * u2 * after - last + float(coefficients[0])
    half = 0.5 * (-(x * x)).exp() * series / (x + 1.0)
    return where(z < 0.0, half, 1.0 - half)


@cache
def _tail_series(degree: int) -> Array:
    """Chebyshev coefficients (degree + 1,) of (x + 1) e^{x^2} erfc(x) in u."""

    def scaled(u: Array) -> Array:
        x = ANCHOR * (1.0 + u) / (1.0 - u)
        return np.asarray((x + 1.0) * special.erfcx(x))

    nodes = np.polynomial.chebyshev.chebpts1(degree + 1)
    return np.asarray(np.polynomial.chebyshev.chebfit(nodes, scaled(nodes), degree))


def atan(t: Value) -> Value:
    """arctan(t), by three halvings of the angle and eleven terms of the series at tan(pi / 16)."""
    for _ in range(3):
        t = t / (1.0 + (1.0 + t * t).sqrt())
    t2, total = t * t, 0.0 * t
    for k in range(21, 0, -2):
        total = total * t2 + (-1.0) ** (k // 2) / k
    return 8.0 * t * total


def softmax(f: Value) -> Value:
    """Probabilities (q, k) of scores f (q, k)."""
    e = (f - f.max()).exp()
    return e / e.sum()


def log_sum_exp(f: Value, axis: int) -> Value:
    """Logarithm of the sum of exponentials along an axis."""
    top = f.max(axis)
    return top + (f - top).exp().sum(axis).log()


def polynomial(x: Value, coefficients: Array) -> Value:
    """sum_j coefficients_j x^j by Horner's rule."""
    total = 0.0 * x + float(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + float(c)
    return total


def log1p(x: Value) -> Value:
    """log(1 + x) without loss for small x: Kahan's log(w) x / (w - 1), w = 1 + x rounded."""
    w = 1.0 + x
    same = w == 1.0
    return where(same, x, w.log() * x / where(same, 1.0, w - 1.0))
