"""Graph: the ONNX nodes that an expression of :class:`~mercer.export.value.Value` leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mercer.export.errors import ExportError
from mercer.export.value import Value

LARGEST = 1_900_000_000  # bytes of constants; a protobuf message ends at 2 GiB


class Graph:
    """Nodes and constants in the order in which they were asked for, each of them once.

    All arithmetic is in double precision, whatever the type of the inputs.
    """

    def __init__(self, outer: Graph | None = None) -> None:
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
