"""The record of the memory of a stream on graphs: it continues bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Numbers, Plain, Record, Rows
from mercer.core.record import Fields, Maybe, One
from mercer.inference.graph.exact import Whole
from mercer.inference.graph.landmarks import Landmarked


def _sparse(data: Array, indices: Index, indptr: Index) -> Any:
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(np.diff(indptr) < 0):
        raise ValueError("the graph of the memory has places that do not belong to its entries")
    p, table = len(indptr) - 1, (data, indices.astype(np.int32), indptr.astype(np.int32))
    return csr_array(table, shape=(p, p))


def _whole(extent: Index, **given: Any) -> Whole:
    if np.any(np.diff(extent) < 0):
        raise ValueError("the extents of the memory do not rise")
    return Whole(None, **given, extent=extent)  # type: ignore[arg-type]  # set by GraphStream._restored


def _landmarked(place: Index, **given: Any) -> Landmarked:
    if len(np.unique(place)) != len(place):
        raise ValueError("a landmark of the memory is named twice")
    limits = dict.fromkeys(("per_batch", "most", "support"), 0)  # set by GraphStream._restored
    return Landmarked(None, **given, place=place, **limits)  # type: ignore[arg-type]  # and this


_POINTS: Record = {
    "points": Numbers("p d"),
    "rows": Rows("p"),
    "coef": Numbers("p k"),
    "weights": Numbers("p k"),
}
_GRAPH = {
    "data": Numbers("e"),
    "indices": Rows("e", rising=False, below="p"),
    "indptr": Rows("p+1", rising=False),
}
_FACTOR = Numbers("q q", diagonal="positive")
# p points, q landmarks, r rows of the root, e entries of the graph
MEMORY = One(
    {
        "Whole": Fields(
            _whole,
            {
                **_POINTS,
                "graph": Fields(_sparse, _GRAPH),
                "root": Maybe(Numbers("r p")),
                "extent": Rows("r", rising=False, below="p+1"),
            },
        ),
        "Landmarked": Fields(
            _landmarked,
            {
                **_POINTS,
                "place": Rows("q", rising=False, below="p"),
                "R": _FACTOR,
                "G": _FACTOR,
                "h": Numbers("q k"),
                "phi": Numbers("q p"),
                "residual": Plain(bool),
                "gone": Plain(int, 0),
            },
        ),
    }
)
