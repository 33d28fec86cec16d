"""Value: a number, vector or matrix that is not known yet. Arithmetic on it writes ONNX nodes.

A formula written for arrays is evaluated on values instead; what it leaves behind in the
:class:`OnnxGraph` is the formula in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.core.errors import ExportError

# by the name of a NumPy or SciPy function: an operator of ONNX, or what else writes the nodes
FUNCTIONS: dict[str, str | Callable[..., Any]] = {}


class Value(NDArrayOperatorsMixin):
    """What a node puts out. Numbers and arrays that meet it become constants; shapes broadcast.

    NumPy's functions take it as they take an array; what ONNX cannot say is refused by name.
    """

    __hash__ = None  # type: ignore[assignment]  # == compares elementwise, as for arrays

    def __init__(self, graph: OnnxGraph, name: str, boolean: bool = False) -> None:
        self.graph, self.name, self.boolean = graph, name, boolean
        # this is factor * base; and of a product of matrices, its multiples: see times
        self.base, self.factor = self, 1.0
        self.multiple: Callable[[float], Value] | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        chosen, (out,) = options.pop("where", True), options.pop("out", (None,))
        if options or not (out is None or isinstance(out, Value)):
            refused = ", ".join(options) or "out"
            raise ExportError(f"{name} with the option {refused} cannot be written in ONNX")
        value = _called(name, *inputs)
        if chosen is not True:
            value = where(chosen, value, out)
        if out is None:
            return value
        vars(out).update(vars(value) | ({"base": out} if value.base is value else {}))
        return out

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return _called(function.__name__, *inputs, **options)

    def __bool__(self) -> bool:
        raise ExportError(
            "a formula that decides by the value of its argument (if, while) cannot be written in "
            "ONNX; numpy.where can"
        )

    def times(self, number: float, op: str = "Mul") -> Value:
        """Return this times a number, or over it.

        onnxruntime (1.31) takes a number beside a product of matrices into the product, rounded to
        single precision. So a number never stands there: it goes into the array of the product.
        """
        factor = number if op == "Mul" else 1.0 / number
        if self.multiple is not None:
            return self.multiple(factor)
        value = self.graph.add(op, self, np.float64(number))
        value.base, value.factor = self.base, self.factor * factor
        return value

    @property
    def T(self) -> Value:
        """The transpose of a matrix."""
        value = self.graph.add("Transpose", self)
        if self.base is not self:
            value.base, value.factor = self.base.T, self.factor
        if self.multiple is not None:
            multiple = self.multiple
            value.multiple = lambda number: multiple(number).T
        return value

    @property
    def shape(self) -> tuple[int, ...]:
        """Nothing: it is not known, and a constant of this shape broadcasts to any."""
        return ()

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

        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.graph.add("Cast", self, to=int(code))


def _called(name: str, *inputs: Any, **options: Any) -> Any:
    """Return what the function of this name makes of values, numbers and arrays."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise ExportError(f"it uses the function {name}, which cannot be written in ONNX")
    inputs = tuple(value_of(each) for each in inputs)
    if callable(function):
        return function(*inputs, **options)
    return graph_of(*inputs).add(function, *inputs)


def graph_of(*inputs: Any) -> OnnxGraph:
    """Return the graph of the values among the inputs."""
    return next(each.graph for each in inputs if isinstance(each, Value))


def _number(operand: Any) -> float | None:
    """Return a number, or an array of one, as a float; None for anything else."""
    array = np.asarray(operand)
    if array.dtype == object:  # a Value
        return None
    return float(array.reshape(())) if array.size == 1 and array.ndim <= 2 else None


def multiply(a: Any, b: Any) -> Value:
    """Return a b."""
    for value, other in ((a, b), (b, a)):
        number = _number(other)
        if number is not None and not value.boolean:
            return value.times(number)
    return graph_of(a, b).add("Mul", a, b)


def divide(a: Any, b: Any) -> Value:
    """Return a / b."""
    number = _number(b)
    if number is not None and not a.boolean:
        return a.times(number, "Div")
    return graph_of(a, b).add("Div", a, b)


def power(a: Any, exponent: Any) -> Any:
    """Return a power; one by a whole number is repeated squares."""
    number = _number(exponent)
    if number is None or not number.is_integer():
        return graph_of(a, exponent).add("Pow", a, exponent)
    if number < 1.0:
        return 1.0 / power(a, -number) if number else 0.0 * a + 1.0
    if number == 1.0:
        return a
    half = power(a, number // 2.0)
    return half * half * a if number % 2.0 else half * half


def matmul(a: Any, b: Any) -> Value:
    """Return the product of two matrices, of which one may be an array."""
    if isinstance(a, Value) and isinstance(b, Value):
        return a.graph.add("MatMul", a, b)
    value, array = (a, b) if isinstance(a, Value) else (b, a)
    base, array = value.base, np.asarray(array, dtype=np.float64) * value.factor
    pair = (base, array) if value is a else (array, base)
    result = value.graph.add("MatMul", *pair)
    result.multiple = lambda number: (
        matmul(base, array * number) if value is a else matmul(array * number, base)
    )
    return result


def value_of(result: Any) -> Any:
    """Return the Value in an array of one, which numpy.asarray makes of it; else the argument."""
    if isinstance(result, np.ndarray) and result.dtype == object and result.ndim == 0:
        return result.item()
    return result


def where(condition: Any, yes: Any, no: Any) -> Value:
    """Return ``yes`` where the condition holds, else ``no``; both are computed everywhere."""
    values = [each for each in (condition, yes, no) if isinstance(each, Value)]
    kind = None if len(values) == 1 and values[0] is condition else np.float64
    common = np.result_type(yes, no) if kind is None else kind
    both = [each if isinstance(each, Value) else np.asarray(each, common) for each in (yes, no)]
    return values[0].graph.add("Where", condition, *both)


def stack(values: Sequence[Value], axis: int = 1) -> Value:
    """Return the values side by side along an axis that they have."""
    return values[0] if len(values) == 1 else values[0].graph.add("Concat", *values, axis=axis)


LARGEST = 1_900_000_000  # bytes of constants; a protobuf message ends at 2 GiB
TRUTHS = {"Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "And", "Or", "Not", "IsNaN"}
ON_NUMBERS = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod"} | (
    TRUTHS - {"And", "Or", "Not"}
)


class OnnxGraph:
    """Nodes and constants in the order in which they were asked for, each of them once.

    All arithmetic is in double precision, whatever the type of the inputs.
    """

    def __init__(self, outer: OnnxGraph | None = None) -> None:
        self.outer, self.prefix = outer, ""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.bytes, self.inside = 0, 0  # of constants; bodies so far
        self._known: dict[Any, tuple[Any, ...]] = {}  # how to make the value again: it may change
        if outer is not None:
            outer.inside += 1
            self.prefix = f"{outer.prefix}/b{outer.inside}"

    def body(
        self, outputs: list[Value], inputs: Mapping[str, tuple[int, ...]] | None = None
    ) -> Any:
        """Return this as the body of a node of the outer graph, whose values it may use.

        All are doubles; ``inputs`` have names that begin with :attr:`prefix`, and a shape.
        """
        from onnx import helper

        ends = _doubles((inputs or {}).items()), _doubles((value.name, None) for value in outputs)
        return helper.make_graph(self.nodes, self.prefix, *ends)

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
        kinds = {"f": np.float64, "u": np.float64, "i": np.int64}
        array = np.ascontiguousarray(array, kinds.get(array.dtype.kind))
        key = (array.dtype.str, array.shape, tuple(array.flat) if _text(array) else array.tobytes())
        if key not in self._known:
            self.bytes += 0 if _text(array) else array.nbytes
            if self.bytes > LARGEST:
                raise ExportError(
                    "the graph needs more than 1.9 GB of constants, and an ONNX file ends at 2 GB; "
                    "for a regressor export the mean alone with std=False, or use an estimator "
                    "with fewer points (SVC, SVR, RVRegressor, RVClassifier)"
                )
            name = f"/c{len(self.constants)}"
            stored = array.astype(object) if _text(array) else array
            self.constants.append(numpy_helper.from_array(stored, name))
            self._known[key] = (name,)
        return Value(self, *self._known[key])

    def value(self, given: Any) -> Value:
        """Return a Value unchanged, and anything else as a constant."""
        return given if isinstance(given, Value) else self.constant(np.asarray(given))

    def add(self, op: str, *inputs: Any, unused: int = 0, **attributes: Any) -> Value:
        """Append a node, unless the same one is there, and return the first of its outputs.

        ``unused`` is the number of further outputs that the operator has.
        """
        from onnx import helper

        inputs = tuple(value_of(each) for each in inputs)
        if op in ON_NUMBERS:
            inputs = tuple(_as_double(each) for each in inputs)
        names = [self.value(each).name for each in inputs]
        key = (op, *names, *sorted((k, str(v)) for k, v in attributes.items()))
        if key not in self._known:
            name = f"{self.prefix}/v{len(self.nodes)}"
            outputs = [name, *(f"{name}_{i}" for i in range(unused))]
            self.nodes.append(helper.make_node(op, names, outputs, **attributes))
            self._known[key] = (outputs[0], op in TRUTHS)
        return Value(self, *self._known[key])


def _doubles(shapes: Iterable[tuple[str, tuple[int, ...] | None]]) -> list[Any]:
    """Return what ONNX is told of inputs or outputs by name."""
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    return [info(name, TensorProto.DOUBLE, shape) for name, shape in shapes]


def _as_double(operand: Any) -> Any:
    """Return an operand of arithmetic: whole numbers and truth values count as doubles."""
    if isinstance(operand, Value):
        return where(operand, 1.0, 0.0) if operand.boolean else operand
    array = np.asarray(operand)
    return array if _text(array) else array.astype(np.float64)


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


def evaluated(graph: OnnxGraph, values: Sequence[Any], feed: Mapping[str, Array]) -> list[Array]:
    """Return values of a graph for inputs by their name, found by the reference implementation."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    inputs = _doubles((name, array.shape) for name, array in feed.items())
    outputs = _doubles((graph.value(each).name, None) for each in values)
    body = helper.make_graph(graph.nodes, "check", inputs, outputs, graph.constants)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, dict(feed)))
