"""Streams of partly labelled batches: sequential LapMED, its memory, rows that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Numbers, Record
from mercer.estimators.graph.base import MEMORY, GraphMachine
from mercer.estimators.shared.labels import Vertices, merge_vertices, row_weights, split_labels
from mercer.estimators.shared.stream import first_classes, known_codes, require_frozen
from mercer.estimators.shared.table import check_weights, read_inputs, restored_on_error
from mercer.inference.base import Report
from mercer.inference.graph.exact import Manifold, ManifoldOperator, Whole
from mercer.inference.graph.landmarks import Landmarked, landmarked
from mercer.linalg.operators import PosteriorOperator
from mercer.process.process import Posterior, Prior


class GraphStream(GraphMachine):
    """``partial_fit`` of :class:`LapMEDClassifier`: the posterior of a batch is the next prior.

    ``memory_`` is the :class:`mercer.inference.graph.exact.Manifold`; ``waiting_`` (u, d) and
    ``waiting_rows_`` (u,) are unlabelled rows that are still too few for a graph.
    """

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "amplitude")
    memory_: Manifold
    stream_: Array
    waiting_: Array
    waiting_rows_: Array
    amplitude: float
    budget: int | None
    landmarks: int
    max_landmarks: int
    residual: bool
    max_support: int
    merge: int | str
    tol: float
    max_iter: int

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from one more batch X (n, d), y (n,), in which None or NaN stands for no label.

        Without y, or without any label in it, a batch changes the kernel only; if it has fewer
        rows than ``merge`` it waits for more. Rows of one class only are fine. ``classes`` are all
        labels that will ever occur, for the first call: without them they are those of its batch.
        ``kernel`` and ``amplitude`` are frozen by it: a stream in which one of them is changed is
        refused. If anything fails, the classifier stays as it was.
        """
        with restored_on_error(self):
            self._check_params()
            require_frozen(self)
            first = not hasattr(self, "classes_")
            X = read_inputs(self, X, fitted=not first)
            weights = check_weights(sample_weight, len(X))
            known, labels = split_labels(y, len(X), self.unlabelled)
            if first and classes is None and not known.any():
                raise ValueError(
                    "the first batch has no label: give all labels of the stream as "
                    "classes=[...] at the first call of partial_fit"
                )
            self.classes_ = first_classes(labels, classes, getattr(self, "classes_", None))
            if self.unlabelled in self.classes_.tolist():
                raise ValueError(
                    f"classes name {self.unlabelled!r}, which unlabelled= says is not a label: "
                    "leave it out of classes"
                )
            codes = known_codes(labels, self.classes_)
            counts = weights[known] * self._shares(codes)
            if first:
                self._begin(X, weights)
            batch = self._gathered(X, weights, known, codes, counts)
            if batch is None:
                self.stream_ = self.stream_ + np.array([0.0, len(X)])
            else:  # Theorem 2: condition once more
                self._learn(batch, self._memory_for(len(batch.points)).smooth, len(X))
            return self

    def _shares(self, codes: Index) -> Array:
        """Class weights of the labelled rows."""
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once: give a dict"
            )
        return row_weights(self.class_weight, self.classes_, codes) if len(codes) else np.zeros(0)

    def _begin(self, X: Array, weights: Array) -> None:
        super()._begin(X, weights)
        d, k = self.n_features_in_, len(self.intercept_)
        self.stream_ = np.zeros(2)
        self.waiting_, self.waiting_rows_ = np.zeros((0, d)), np.zeros(0)
        self._keep(Whole.empty(self.kernel_, d, k))

    def _gathered(
        self, X: Array, weights: Array, known: NDArray[np.bool_], codes: Index, counts: Array
    ) -> Vertices | None:
        """Return the batch together with the rows that waited, or None: it waits, too."""
        u, use = len(self.waiting_), weights > 0.0
        rows = np.append(self.waiting_rows_, np.flatnonzero(use) + self.stream_[1])
        points = np.concatenate([self.waiting_, X[use]])
        enough = self.n_neighbors + 1 if self.merge == "auto" else int(self.merge)
        if not np.any(counts > 0.0) and len(points) < enough:
            self.waiting_, self.waiting_rows_ = points, rows
            if not hasattr(self, "report_"):
                self._tell(None, Report(iterations=0), {"used": 0, "distinct": 0, "weight": 0.0})
            self.report_ = self.report_ | {"waiting": len(points)}
            return None
        labelled = np.append(np.zeros(u, dtype=bool), known[use])
        kept = use[known]
        batch = merge_vertices(points, np.ones(len(points)), labelled, codes[kept], counts[kept])
        self.waiting_, self.waiting_rows_ = self.waiting_[:0], self.waiting_rows_[:0]
        return replace(batch, rows=rows[batch.rows].astype(np.intp))

    def _memory_for(self, n: int) -> Manifold:
        """The memory that takes n more rows: exact within the budget, landmarks beyond it."""
        memory = self._limited(self.memory_)
        exact = self.budget is None or len(memory.points) + n <= self.budget
        if exact or not isinstance(memory, Whole):
            return memory
        count = max(self.landmarks * int(self.stream_[0]), self.max_landmarks // 2)
        limits = (self.landmarks, self.max_landmarks, self.max_support)
        return landmarked(memory, bool(self.residual), *limits, count)

    def _limited(self, memory: Manifold) -> Manifold:
        """Return the memory with the limits that the parameters set now."""
        if not isinstance(memory, Landmarked):
            return memory
        most, support = self.max_landmarks, self.max_support
        return replace(memory, per_batch=self.landmarks, most=most, support=support)

    def _remember(self, manifold: Manifold, rows: int) -> None:
        """Keep all points: the next batch needs them."""
        self._keep(manifold)
        self.stream_ = self.stream_ + np.array([1.0, rows])

    def _keep(self, manifold: Manifold) -> None:
        self.memory_ = manifold
        self.support_, self.support_vectors_ = manifold.rows, manifold.points
        self.dual_coef_ = np.ascontiguousarray(manifold.weights.T)

    def _remarks(self, K: Array | None, C: float) -> dict[str, Any]:
        kept = {"memory": self.memory_.describe(), "batches": int(self.stream_[0]), "waiting": 0}
        return super()._remarks(K, C) | kept

    # ------------------------------------------------------------------ what was learned
    def _operator(self) -> PosteriorOperator:
        return ManifoldOperator(self.memory_)

    @property
    def process_(self) -> Posterior:
        """The prior of the next batch: mean f without bias, covariance k_new."""
        memory, operator = self.memory_, ManifoldOperator(self.memory_)
        try:
            operator.root  # noqa: B018  # computed here, so that a memory without it is refused
        except ValueError as error:
            raise AttributeError(str(error)) from error
        prior = Prior(self.kernel_, memory.weights.shape[1])
        return Posterior(prior, memory.points, memory.weights, operator)

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        rows, report = super()._summary_rows(), self.report_
        if report.get("waiting"):
            rows.append(("Data", "rows that wait for a graph", str(report["waiting"])))
        if "memory" in report:
            rows.append(("Model", "memory", _memory(report["memory"])))
        if "slack" in report:
            rows.append(("Model", "slack", report["slack"]))
        return rows

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        inside = ("support_", "support_vectors_", "dual_coef_")  # the memory has them
        rest = {name: kind for name, kind in super()._record().items() if name not in inside}
        return {
            **rest,
            "memory_": MEMORY,
            "stream_": Numbers("2", 0.0, whole=True),
            "waiting_": Numbers("u d"),
            "waiting_rows_": Numbers("u", 0.0, whole=True),
        }

    def _restored(self) -> None:
        super()._restored()
        self._keep(self._limited(replace(self.memory_, kernel=self.kernel_)))

    # ------------------------------------------------------------------ parameters
    def _check_params(self) -> None:
        """Refuse parameters that no fit can have had."""
        super()._check_params()
        for name in ("landmarks", "max_landmarks", "max_support"):
            self._check_count(name, 0)
        if self.budget is not None:
            self._check_count("budget", 0)
        if self.merge != "auto":
            self._check_count("merge", 1)
        if not isinstance(self.residual, (bool, np.bool_)):
            raise ValueError(f"residual must be True or False, got {self.residual!r}")
        if not self.residual and not (self.landmarks and self.max_landmarks):
            raise ValueError("without residual and landmarks nothing would be kept: give landmarks")


def _memory(kept: dict[str, Any]) -> str:
    if kept["form"] == "exact":
        return f"exact, {kept['points']} rows"
    residual = f"{kept['support']} support vectors" if kept["residual"] else "no residual"
    dropped = kept["dropped_support_vectors"]
    gone = f", {dropped} more dropped" if dropped else ""
    return f"{kept['landmarks']} landmarks, {residual}{gone}"
