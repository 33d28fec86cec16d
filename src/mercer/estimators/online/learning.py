"""Steps of an online learner: freezing its scales, sizing its memory, and all points at once.

How much of what was learned still holds: a share chosen by the evidence of each batch.

How smooth a named kernel is: a multiple of its length scale, chosen once, by the evidence.
"""

from __future__ import annotations

import copy
import numbers
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from mercer import inference as inferences
from mercer.core.arrays import Array
from mercer.core.memory import require_memory
from mercer.core.rows import location_scale
from mercer.estimators.shared import ard
from mercer.estimators.shared.parts import Parts, resolve
from mercer.estimators.shared.predictions import StreamPredictions
from mercer.estimators.shared.stream import Prequential, freeze, require_moderate
from mercer.estimators.shared.summary import warn_inference
from mercer.estimators.shared.units import Units, no_units
from mercer.inference.sites.bound import Bound
from mercer.inference.stream.stream import Stream, from_sites
from mercer.kernels import Constant
from mercer.kernels.base import Kernel
from mercer.linalg.dense.gram import DenseGram
from mercer.losses import Logistic

SHARES = np.array([0.0, 0.03, 0.1, 0.3, 0.6, 0.9])  # what "auto" chooses from
HAZARD = 0.05  # prior probability of any change before a batch, the same for each kind
LOG_PRIOR = np.log(np.r_[1.0 - HAZARD, np.full(len(SHARES) - 1, HAZARD / (len(SHARES) - 1))])


def check_drift(drift: Any) -> float | None:
    """Return the share if it is a number in [0, 1), and None for "auto"."""
    if isinstance(drift, str) and drift == "auto":
        return None
    real = isinstance(drift, numbers.Real) and not isinstance(drift, bool)
    if not real or not 0.0 <= float(drift) < 1.0:
        raise ValueError(
            f'drift must be a number in [0, 1), 0 for a law that stays, or "auto", not {drift!r}'
        )
    return float(drift)


def likely_share(stream: Stream, X: Array, S: Array, w: Array) -> tuple[float, float]:
    """Return the most probable share given the labels S (b, m) at X, and its log prior.

    p(share | labels) is proportional to p(labels | share) p(share), the first by its lower bound.
    The log prior, added to the bound on the labels, leaves a lower bound: the law of the labels is
    the sum over all shares, and this is one term.
    """
    value = stream.evidence(X, S, w, SHARES) + LOG_PRIOR
    best = int(value.argmax())
    return float(SHARES[best]), float(LOG_PRIOR[best])


FACTORS = (1.0, 0.5, 0.25, 0.125)
PRICE = 1.0  # nats that each halving must gain: few rows do not outvote the default
ROWS = 128  # that are asked, at most


def likely_length(kernel: Kernel, X: Array, S: Array, w: Array) -> tuple[Kernel, float]:
    """Return the kernel whose length scales suit the labels S (n, m) at X (n, d), and the factor.

    By the sequential evidence of at most 128 rows, evenly spread over those given. A kernel
    without tied length scales is returned as it is.
    """
    best, chosen = -np.inf, (kernel, 1.0)
    if not ard.tied_scales(kernel) or len(X) < 2:
        return chosen
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), ROWS)).astype(np.intp))
    for factor in FACTORS:
        other = copy.deepcopy(kernel)
        for owner in ard.tied_scales(other):
            owner.set_params(length_scale=factor * owner.get_params()["length_scale"])
        _, blocks = Stream.empty(other, X.shape[1], S.shape[1]).absorb(X[rows], S[rows], w[rows])
        value = sum(block.log_q for block in blocks) + PRICE * np.log2(factor)
        if value > best:
            best, chosen = value, (other, factor)
    return chosen


AMPLITUDE, BIAS = 4.0, 1.0  # prior variances of a kernel given by name, and of its constant
BLOCK = 128  # examples that are absorbed together, at most
SMALL = 1000  # points whose matrices (8 MB each) fit anywhere: asking the system takes longer
LOGISTIC = Logistic()


class OnlineLearning(StreamPredictions):
    """The steps behind ``partial_fit``, ``fit`` and ``refine``."""

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "standardize")
    kernel: Any
    inference: Any
    standardize: bool | str

    def _require_room(self, rows: int, budget: int | None) -> None:
        """Refuse a batch whose matrices do not fit into memory."""
        n = len(self.stream_.points)
        size = n + rows if budget is None else min(n + rows, max(n, budget) + BLOCK)
        if size > SMALL:
            require_memory(size, 2 * len(self.stream_.latents))

    def _bound(self) -> Bound:
        found = Bound() if self.inference is None else inferences.by_name(self.inference, LOGISTIC)
        if not isinstance(found, Bound):
            raise ValueError(
                f"the sequential learner is one of the quadratic bound; inference must be None or "
                f"a Bound(), not {self.inference!r}; GPClassifier takes the others"
            )
        return found

    def _parts(self, d: int) -> Parts:
        given = SimpleNamespace(
            kernel=self.kernel,
            loss="logistic",
            inference=self._bound(),
            search=None,
            gram="auto",
            basis=None,
            standardize=self.standardize,
        )
        parts = resolve(given, getattr(self, "feature_names_in_", None), d)
        if parts.by_row:
            raise ValueError(
                "a stream needs a kernel of the inputs: precomputed values and noise parts depend "
                "on which row it is; give a kernel without them"
            )
        return parts

    def _begin(self, X: Array, S: Array, w: Array) -> None:
        """Freeze units and kernel by the first batch X (b, d), in your units, labels S (b, m)."""
        d, m = X.shape[1], S.shape[1]
        parts = self._parts(d)
        units = no_units(d, m)
        if parts.standardize and len(X) > 1:
            units = Units(*location_scale(X, w), units.y_shift, units.y_scale)
        inside = units.inside(X)
        parts.start(inside, S, w, units)
        if parts.named_kernel and len(X) == 1:  # no spread to measure: unit scale for each column
            for owner in ard.tied_scales(parts.kernel):
                owner.set_params(length_scale=float(np.sqrt(d)))
        self._freeze(parts, units, len(X), inside, S, w)
        self.stream_ = Stream.empty(parts.kernel, d, m)
        self.log_evidence_ = 0.0

    def _freeze(self, parts: Parts, units: Units, rows: int, X: Array, S: Array, w: Array) -> None:
        freeze(self)
        factor = 1.0
        if parts.named_kernel:
            parts.kernel.set_params(variance=AMPLITUDE)
            parts.kernel, factor = likely_length(parts.kernel + Constant(BIAS), X, S, w)
        self.units_, self.loss_, self.prequential_ = units, LOGISTIC, Prequential()
        self.kernel_ = units.kernel_outside(parts.kernel)
        frozen: dict[str, Any] = {
            "rows": rows,
            "standardize": parts.standardize,
            "x_shift": units.x_shift.tolist(),
            "x_scale": units.x_scale.tolist(),
            "length_factor": factor,
        }
        if parts.named_kernel and rows == 1:
            frozen["message"] = (
                "the first batch had one row, which has no spread: every column counts as one of "
                "unit scale; give more rows first, or a kernel object"
            )
        self._report = {
            "scales": frozen,
            "rows": {"seen": 0, "weight": 0.0, "batches": 0},
            "budget": {"points": 0, "projections": 0},
            "drift": {"share": 0.0, "changes": 0},
            "inference": {"name": "sequential bound"},
        }

    def _tell(self, *, rows: int, weight: float, projections: int, share: float = 0.0) -> None:
        """Add one batch to the report, in a copy."""
        counts, kept, drift = (self._report[key] for key in ("rows", "budget", "drift"))
        self._report = self._report | {
            "rows": {
                "seen": counts["seen"] + rows,
                "weight": counts["weight"] + weight,
                "batches": counts["batches"] + 1,
            },
            "budget": {
                "points": len(self.stream_.points),
                "projections": kept["projections"] + projections,
            },
            "drift": {"share": share, "changes": drift["changes"] + (share > 0.0)},
        }

    def _together(self, stream: Stream, points: Array, S: Any, w: Any) -> None:
        """Find the sites of all points at once; S (n, m), w (n,)."""
        inference = self._bound()
        require_memory(len(points), 4 + 2 * S.shape[1])
        require_moderate(stream.kernel, points)
        gram = DenseGram(stream.kernel, points, keep=True)
        solution = inference.solve(gram, S, LOGISTIC, weights=w)
        warn_inference(inference, solution.report)
        W = solution.W.reshape(S.shape)
        targets = solution.z + solution.alpha / W  # C (target - 0) = alpha
        self.stream_ = from_sites(stream.kernel, points, S, w, W, targets)
        self.log_evidence_ = float(inference.evidence(gram, S, LOGISTIC, solution).value)
        told = {k: v for k, v in solution.report.plain().items() if k != "columns"}
        self._report = self._report | {"inference": {"name": "Bound", **told}}
