"""``mercer export``: a model file becomes an ONNX graph."""

from __future__ import annotations

import os
from typing import Any

from mercer.app import terminal as console
from mercer.app.files.outputs import check_outputs
from mercer.app.terminal import AppError, progress, require

TYPES = {"FLOAT": "float32", "DOUBLE": "float64", "STRING": "text"}  # the others in small letters


def run(*, model: str, output: str, single: bool, no_std: bool, quiet: bool, as_json: bool) -> None:
    """Do the command; the parameters are its options."""
    check_outputs([output], [model])
    require("rich", "printing")
    require("onnx", "export")
    from mercer.export import ExportError, to_onnx
    from mercer.persist import load

    fitted = load(model)
    with progress(quiet or as_json) as advance:
        advance({"stage": f"writing {output}"})
        try:
            dtype = "float32" if single else "float64"
            graph = to_onnx(fitted, output, input_dtype=dtype, std=not no_std).graph
        except ExportError as error:
            raise AppError(f"{model}: {error}") from None
    inputs, outputs = ([_plain(v) for v in values] for values in (graph.input, graph.output))
    size = os.path.getsize(output)
    if as_json:
        console.print_json({"onnx": output, "bytes": size, "inputs": inputs, "outputs": outputs})
    elif not quiet:
        for title, values in (("Inputs", inputs), ("Outputs", outputs)):
            rows = [[v["name"], v["type"], _shape(v["shape"])] for v in values]
            console.print_table(title, ["name", "type", "shape"], rows)
        console.say(f"ONNX graph written to {output} ({size} bytes)")


def _plain(value: Any) -> dict[str, Any]:
    """Return name, type and shape of an input or output; None in the shape: any number."""
    from onnx import TensorProto

    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type)
    shape = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    return {"name": value.name, "type": TYPES.get(kind, kind.lower()), "shape": shape}


def _shape(shape: list[int | None]) -> str:
    return " x ".join("rows" if d is None else str(d) for d in shape)
