"""State of a stream on graphs for model files: it continues bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from mercer.core.arrays import Array
from mercer.estimators.graph.schema import NAMES, check_lap_state
from mercer.estimators.support_vector.state import SupportState
from mercer.inference.graph.exact import Manifold, Whole
from mercer.inference.graph.landmarks import Landmarked

STREAM = ("stream_", "waiting_", "waiting_rows_")


class LapState(SupportState):
    """The memory as further arrays of a support vector machine, under the names of both forms.

    Those of the form that it has not are empty.
    """

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        twin = copy(cast(Any, self))
        twin.__dict__ = dict(vars(self))
        given = cast(Any, self).memory_.arrays()
        for name in NAMES:
            setattr(twin, f"_memory_{name}", given.get(name, np.zeros(0)))
        return SupportState._state(twin)

    @classmethod
    def _extra_names(cls) -> tuple[str, ...]:
        return (*STREAM, *(f"_memory_{name}" for name in NAMES))

    @classmethod
    def _check_state(cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        super()._check_state(manifest, arrays)
        check_lap_state(manifest, arrays)

    def _check_kernel(self) -> None:
        """Put the memory together from its arrays, then see whether it fits."""
        machine = cast(Any, self)
        given = {name: vars(machine).pop(f"_memory_{name}") for name in NAMES}
        machine.memory_ = self._built(given)
        super()._check_kernel()

    def _built(self, given: Mapping[str, Array]) -> Manifold:
        machine = cast(Any, self)
        weights = np.ascontiguousarray(machine.dual_coef_.T)
        points = machine.support_vectors_
        start = (machine.kernel_, points, machine.support_, given["coef"], weights)
        if given["R"].ndim == 2:
            (residual, gone), place = given["state"], given["place"].astype(np.intp)
            own = (place, given["R"], given["G"], given["h"], given["phi"])
            limits = (machine.landmarks, machine.max_landmarks, machine.max_support)
            return Landmarked(*start, *own, bool(residual), *limits, int(gone))
        p, kinds = len(points), (np.float64, np.int32, np.int32)
        table = zip(("data", "indices", "indptr"), kinds, strict=True)
        graph = csr_array(tuple(given[name].astype(kind) for name, kind in table), shape=(p, p))
        root = given["root"] if given["root"].shape[1] == p else None
        return Whole(*start, graph, root, given["extent"].astype(np.intp))
