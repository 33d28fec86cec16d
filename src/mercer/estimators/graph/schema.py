"""Schema of what LapMEDClassifier keeps beyond a support vector machine.

The sizes are p points, k machines, m landmarks and r rows of the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.core.arrays import Array

WHOLE = ("root", "extent", "data", "indices", "indptr")
LANDMARKS = ("place", "R", "G", "h", "phi", "state")
NAMES = ("coef", *WHOLE, *LANDMARKS)
STREAM = ("stream_", "waiting_", "waiting_rows_")


def check_lap_state(manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Refuse a stream or a memory that no machine can have had."""
    wanted = (*STREAM, *(f"_memory_{name}" for name in NAMES))
    if any(f"extra.{name}" not in arrays for name in wanted):
        raise ValueError("the stream and its memory must be arrays")
    stream, waiting, rows = (arrays[f"extra.{name}"] for name in STREAM)
    if stream.shape != (2,) or not _whole(stream, 1e15):
        raise ValueError("stream_ must be the numbers of batches and rows")
    if waiting.shape != (len(rows), manifest["n_features"]) or not np.isfinite(waiting).all():
        raise ValueError("the rows that wait do not have the columns of the model")
    if rows.ndim != 1 or not _whole(rows, 1e15):
        raise ValueError("the rows that wait have no numbers")
    memory = {name: arrays[f"extra._memory_{name}"] for name in NAMES}
    if not all(np.isfinite(a).all() for a in memory.values()):
        raise ValueError("the memory of the stream holds values that are not finite")
    k, p = len(arrays["intercept_"]), len(arrays["support_vectors_"])
    if memory["coef"].shape != (p, k):
        raise ValueError("there is not one coefficient for each point and machine")
    whole = memory["R"].ndim == 1
    unused = LANDMARKS if whole else WHOLE
    if any(memory[name].shape != (0,) for name in unused):
        raise ValueError("the memory is neither exact nor one of landmarks")
    fits = _graph_fits(memory, p) if whole else _landmarks_fit(memory, p, k)
    if not fits:
        raise ValueError("the arrays of the memory do not belong together")


def _graph_fits(memory: Mapping[str, Array], p: int) -> bool:
    root, extent = memory["root"], memory["extent"]
    data, indices, indptr = (memory[name] for name in ("data", "indices", "indptr"))
    sparse = (
        indptr.shape == (p + 1,)
        and data.ndim == 1
        and indices.shape == data.shape
        and _whole(indices, p - 0.5)
        and _whole(indptr, len(data))
        and bool(np.all(np.diff(indptr) >= 0.0))
        and indptr[0] == 0.0
        and indptr[-1] == len(data)
    )
    rooted = root.ndim == 2 and (root.shape[1] == p or root.shape == (0, 0))
    ends = extent.shape == (len(root),) and _whole(extent, p)
    return bool(sparse and rooted and ends and np.all(np.diff(extent) >= 0.0))


def _landmarks_fit(memory: Mapping[str, Array], p: int, k: int) -> bool:
    m = len(memory["place"])
    return bool(
        memory["place"].shape == (m,)
        and _whole(memory["place"], p - 0.5)
        and len(np.unique(memory["place"])) == m
        and memory["R"].shape == memory["G"].shape == (m, m)
        and memory["h"].shape == (m, k)
        and memory["phi"].shape == (m, p)
        and memory["state"].shape == (2,)
        and memory["state"][0] in (0.0, 1.0)
        and _whole(memory["state"], 1e15)
        and np.all(memory["R"].diagonal() > 0.0)
        and np.all(memory["G"].diagonal() > 0.0)
    )


def _whole(values: Array, most: float) -> bool:
    """Whether all values are whole numbers from 0 to ``most``."""
    inside = np.all((values >= 0.0) & (values <= most))
    return bool(inside and np.array_equal(values, np.floor(values)))
