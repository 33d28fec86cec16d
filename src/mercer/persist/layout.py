"""The table of tensors in the header: where each one lies, every claim checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mercer.persist.errors import ModelFileError

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


class Tensor(NamedTuple):
    """One line of the table of tensors; ``begin`` and ``end`` count from the start of the data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def tensor_of(name: str, entry: Any) -> Tensor:
    """Return one line of the table from its JSON entry."""
    where = f"tensor {name[:80]!r}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"{where} is not described by dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        raise ModelFileError(f"{where} has a dtype other than {', '.join(DTYPES)}")
    if not (_counts(shape) and len(shape) <= 8 and _counts(offsets) and len(offsets) == 2):
        raise ModelFileError(f"{where} has a shape or offsets that are not counts")
    if math.prod(shape) * DTYPES[kind].itemsize != offsets[1] - offsets[0]:
        raise ModelFileError(f"{where} has a shape that does not fit its number of bytes")
    return Tensor(DTYPES[kind], tuple(shape), offsets[0], offsets[1])


def _counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in values)


def check_layout(table: Mapping[str, Tensor], available: int) -> None:
    """The tensors lie end to end and fill the rest of the file exactly."""
    position = 0
    for name, row in sorted(table.items(), key=lambda item: (item[1].begin, item[1].end)):
        if row.begin != position:
            raise ModelFileError(f"tensor {name[:80]!r} overlaps another one or leaves a gap")
        position = row.end
    if position != available:
        raise ModelFileError(
            f"its tensors need {position} bytes, but {available} follow the header: "
            "the file is truncated or something was added to it"
        )
