"""LabelRegression: classes as numbers, learned by exact Gaussian regression. The shared machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.estimators.kernel.classified import read_classes
from mercer.estimators.shared.machine import Fit, Given, KernelMachine, column_units
from mercer.estimators.shared.parameters import Draw
from mercer.estimators.shared.parts import Parts, resolve
from mercer.estimators.shared.predictions import Classifies
from mercer.estimators.shared.table import Table, build_table
from mercer.estimators.shared.units import Units
from mercer.inference.base import Problem
from mercer.kernels.base import Kernel
from mercer.losses.base import Loss
from mercer.losses.real.gaussian import Gaussian

Targets = tuple[Array, Array]


class LabelRegression(Classifies, KernelMachine):
    """Regression on one column of targets for two classes, on one per class for more.

    All columns share one kernel, one noise and one factorisation. A child states which targets
    stand for a class (``_label_targets``) and how kernel and loss are found (``_choose``).
    """

    class_weight: Any

    def _label_targets(self, counts: Array) -> Targets:
        """Return (y+, y-), each (m,), for classes of ``counts`` (k,) rows."""
        m = 1 if len(counts) == 2 else len(counts)
        return np.ones(m), -np.ones(m)

    def _choose(
        self, parts: Parts, problem: Problem, codes: Index, counts: Array
    ) -> tuple[Kernel, Loss, dict[str, Any]]:
        """Return kernel, loss and report; ``codes`` (N,) are the classes of the problem's rows."""
        raise NotImplementedError

    def _score(self, table: Table, codes: Index) -> None:
        """Say in ``report_`` and ``left_out_`` how well the left-out rows were predicted."""
        raise NotImplementedError

    def _parts(self) -> dict[str, Any]:
        """Return the loss and the search that :func:`resolve` is given."""
        raise NotImplementedError

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and labels y (n,).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        estimator stays as it was.
        """
        return super().fit(X, y, sample_weight)

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        given = read_classes(self, X, y, sample_weight)
        assert given.labels is not None
        given.labels.check_two()
        return given

    def _resolve(self, given: Given) -> Parts:
        own = {k: getattr(self, k) for k in ("kernel", "gram", "basis", "standardize")}
        d = given.X.shape[1]
        return resolve(given.names, d, **own, inference="exact", **self._parts())

    def _targets(self, given: Given, parts: Parts) -> Array:
        assert given.labels is not None
        plus, minus = self._label_targets(given.labels.counts)
        k = len(given.labels.classes)
        wanted = np.arange(k) if len(plus) > 1 else np.array([1])
        return np.where(given.labels.codes[:, None] == wanted, plus, minus)

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        flat, arrays = Y.shape[1] == 1, parts.arrays + 4
        return build_table(given.X, Y, given.weights, parts.by_row, flat, arrays)

    def _units(self, given: Given, parts: Parts, table: Table) -> Units:
        # targets stay as they are: only the columns of X are standardised
        return column_units(parts, table, table.Y.shape[1])

    def _pose(self, given: Given, parts: Parts, table: Table, units: Units) -> Problem:
        assert given.labels is not None
        seen, weights = given.labels.rows, given.weights
        # class weights say what a mistake costs, not how often a row was seen: a row that is left
        # out takes its class weight with it, whole
        with np.errstate(invalid="ignore", divide="ignore"):
            alone = np.where(seen > 1.0, weights / seen, weights)
        return replace(super()._pose(given, parts, table, units), left_out=alone[table.keep])

    def _search(self, fit: Fit) -> None:
        assert fit.given.labels is not None
        codes = fit.given.labels.codes[fit.table.keep]
        kernel, loss, fit.report = self._choose(
            fit.parts, fit.problem, codes, fit.given.labels.counts
        )
        fit.parts.loss = loss
        # learning is Gaussian regression, whatever the loss says of new labels
        fit.draws = [Draw(kernel, Gaussian(noise=float(loss.get_params()["noise"])))]

    def _calibrate(self, fit: Fit) -> None:
        assert fit.given.labels is not None
        self.classes_ = fit.given.labels.classes
        self.losses_, self.loss_ = [fit.parts.loss], fit.parts.loss
        self._score(fit.table, fit.given.labels.codes)

    # ------------------------------------------------------------------ predictions
    def _mean(self, inside: Array) -> Array:
        """Return f (q, m), averaged over the posteriors."""
        return np.asarray(np.mean([p.mean(inside) for p in self.posteriors_], axis=0))

    def _variance(self, inside: Array) -> Array:
        """Return the variance (q, 1) of f, noise parts of the kernel included."""
        posterior = self.posteriors_[0]
        if not posterior.variance_known_at(inside):
            raise ValueError(
                "a kernel Precomputed() does not say how new points vary: there is no deviation "
                "and no probability of them; give Precomputed(matrix), and row numbers of it as X"
            )
        return np.asarray((posterior.var(inside) + posterior.noise(inside))[:, None])

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean (q,) or (q, k) and standard deviation (q,) of the regression function."""
        inside = self._inputs(X)
        mean = self._mean(inside)
        return (mean[:, 0] if self.flat_ else mean), np.sqrt(self._variance(inside)[:, 0])


def loo_error(scores: Array, codes: Index, weights: Array) -> float:
    """Return the weighted share of rows whose left-out score (N, m) points to another class."""
    best = (scores[:, 0] > 0.0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float(weights @ (best != codes) / weights.sum())
