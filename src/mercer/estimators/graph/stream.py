"""Streams of partly labelled batches: sequential LapMED, its memory, rows that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_memory
from mercer.estimators.graph.base import GraphMachine
from mercer.estimators.graph.report import told
from mercer.estimators.shared.labels import Vertices, merge_vertices, row_weights, split_labels
from mercer.estimators.shared.stream import first_classes, freeze, known_codes, require_frozen
from mercer.estimators.shared.table import check_weights, read_inputs, restored_on_error
from mercer.inference.graph.exact import Manifold, Whole
from mercer.inference.graph.landmarks import Landmarked, landmarked
from mercer.process.process import Posterior, Prior


class GraphStream(GraphMachine):
    """``partial_fit`` of :class:`LapMEDClassifier`.

    ``memory_`` is the :class:`mercer.inference.graph.exact.Manifold`; ``waiting_`` (u, d) and
    ``waiting_rows_`` (u,) are unlabelled rows that are still too few for a graph.
    """

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "amplitude")
    memory_: Manifold
    stream_: Array
    waiting_: Array
    waiting_rows_: Array

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from one more batch X (n, d), y (n,), in which None or NaN stands for no label.

        Without y, or without any label in it, a batch changes the kernel only; if it has fewer
        rows than ``merge`` it waits for more. Rows of one class only are fine. ``classes`` are all
        labels that will ever occur, for the first call: without them they are those of its batch.
        ``kernel`` and ``amplitude`` are frozen by it: a stream in which one of them is changed is
        refused. If anything fails, the machine stays as it was.
        """
        with restored_on_error(self):
            self._check_params()
            require_frozen(self)
            first = not hasattr(self, "classes_")
            X = read_inputs(self, X, fitted=not first)
            weights = check_weights(sample_weight, len(X))
            known, labels = split_labels(y, len(X), cast(Any, self).unlabelled)
            if first and classes is None and not known.any():
                raise ValueError(
                    "the first batch has no label: give all labels of the stream as "
                    "classes=[...] at the first call of partial_fit"
                )
            self.classes_ = first_classes(labels, classes, getattr(self, "classes_", None))
            if cast(Any, self).unlabelled in self.classes_.tolist():
                raise ValueError(
                    f"classes name {cast(Any, self).unlabelled!r}, which unlabelled= says is no "
                    "label: leave it out of classes"
                )
            codes = known_codes(labels, self.classes_)
            counts = weights[known] * self._shares(codes)
            if first:
                self._begin(X, weights)
                self._begin_stream()
            batch = self._gathered(X, weights, known, codes, counts)
            if batch is not None:
                self._absorb(batch)
            self.stream_ = self.stream_ + np.array([0.0, len(X)])
            return self

    def _shares(self, codes: Index) -> Array:
        """Class weights of the labelled rows."""
        class_weight = cast(Any, self).class_weight
        if isinstance(class_weight, str):
            raise ValueError(f"class_weight={class_weight!r} needs all rows at once: give a dict")
        return row_weights(class_weight, self.classes_, codes) if len(codes) else np.zeros(0)

    def _begin_stream(self) -> None:
        """The state before the first batch: f = 0."""
        freeze(self)
        d, k = self.n_features_in_, 1 if len(self.classes_) == 2 else len(self.classes_)
        self.intercept_, self.stream_ = np.zeros(k), np.zeros(2)
        self.waiting_, self.waiting_rows_ = np.zeros((0, d)), np.zeros(0)
        self._remember(Whole.empty(self.kernel_, d, k))

    def _gathered(
        self, X: Array, weights: Array, known: NDArray[np.bool_], codes: Index, counts: Array
    ) -> Vertices | None:
        """Return the batch together with the rows that waited, or None: it waits, too."""
        u, use = len(self.waiting_), weights > 0.0
        rows = np.append(self.waiting_rows_, np.flatnonzero(use) + self.stream_[1])
        points = np.concatenate([self.waiting_, X[use]])
        if not np.any(counts > 0.0) and len(points) < self._enough():
            self.waiting_, self.waiting_rows_ = points, rows
            nothing = {"converged": True, "iterations": 0, "precision": "float64"}
            self.report_ = getattr(self, "report_", nothing) | {"waiting": len(points)}
            self.n_iter_ = getattr(self, "n_iter_", 1)
            return None
        labelled = np.append(np.zeros(u, dtype=bool), known[use])
        kept = use[known]
        batch = merge_vertices(points, np.ones(len(points)), labelled, codes[kept], counts[kept])
        self.waiting_, self.waiting_rows_ = self.waiting_[:0], self.waiting_rows_[:0]
        return replace(batch, rows=rows[batch.rows].astype(np.intp))

    def _enough(self) -> int:
        """Rows that a batch without labels must have, those that wait included."""
        machine = cast(Any, self)
        return int(machine.n_neighbors + 1 if machine.merge == "auto" else machine.merge)

    def _absorb(self, batch: Vertices) -> None:
        """Theorem 2: first the kernel, with all rows of the batch, then the labels."""
        graph, C, beta = self._graph_of(batch)
        start = self._memory_for(len(batch.points))
        step = start.smooth(batch.points, batch.rows, 2.0 * beta * graph.laplacian)
        at, k = batch.at, len(self.intercept_)
        c, told_of = np.zeros((0, k)), {"converged": True, "iterations": 0, "C": None}
        if len(at):
            require_memory(len(at), 3, "a batch", "learn, batch by batch,")
            K, f0 = step.covariance(at), step.latent(at)
            found = [
                cast(Any, self)._machine(K, y, batch.weights, C, f, float(b))
                for y, f, b in zip(
                    np.ascontiguousarray(self._targets(batch).T), f0.T, self.intercept_, strict=True
                )
            ]
            c = np.column_stack([one.coefficients for one in found])
            self.intercept_ = np.array([one.bias for one in found])
            told_of = self._joined([one.report for one in found]) | {"C": C}
        self._remember(step.learn(at, c))
        self.stream_ = self.stream_ + np.array([1.0, 0.0])
        self.report_ = told_of | {
            "precision": "float64",
            "beta": beta,
            "labelled": len(at),
            "graph": told(graph, len(batch.points)),
            **self._kept(),
        }
        self.n_iter_ = max(1, int(self.report_["iterations"]))

    def _memory_for(self, n: int) -> Manifold:
        """The memory that takes n more rows: exact within the budget, landmarks beyond it."""
        machine, memory = cast(Any, self), self.memory_
        limits = {
            "per_batch": machine.landmarks,
            "most": machine.max_landmarks,
            "support": machine.max_support,
        }
        if isinstance(memory, Landmarked):
            return replace(memory, **limits)
        assert isinstance(memory, Whole)
        if machine.budget is None or len(memory.points) + n <= machine.budget:
            return memory
        count = max(machine.landmarks * int(self.stream_[0]), machine.max_landmarks // 2)
        return landmarked(memory, residual=bool(machine.residual), count=count, **limits)

    def _remember(self, memory: Manifold) -> None:
        self.memory_ = memory
        self.support_, self.support_vectors_ = memory.rows, memory.points
        self.dual_coef_ = np.ascontiguousarray(memory.weights.T)

    def _keep(self, vertices: Vertices, M: Any, coef: Array, expansion: Array, n: int) -> None:
        """After a fit all points are kept: a stream may go on from there."""
        bias = self.intercept_
        self._begin_stream()
        self.intercept_, self.stream_ = bias, np.array([1.0, n])
        start = (self.kernel_, vertices.points, vertices.rows, coef, expansion)
        self._remember(Whole(*start, M, None, np.zeros(0, dtype=np.intp)))

    def _kept(self) -> dict[str, Any]:
        return {"memory": self.memory_.told(), "batches": int(self.stream_[0]), "waiting": 0}

    @property
    def process_(self) -> Posterior:
        """The prior of the next batch: mean f without bias, covariance k_new."""
        memory = self.memory_
        prior = Prior(self.kernel_, memory.weights.shape[1])
        try:
            operator = memory.operator()
        except ValueError as error:
            raise AttributeError(str(error)) from error  # a property that this memory has not
        return Posterior(prior, memory.points, memory.weights, operator)
