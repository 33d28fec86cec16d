"""LabelRegression: classes as numbers, learned by exact Gaussian regression. The shared machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index
from mercer.estimators.shared import machine as base
from mercer.estimators.shared.labels import read_labels
from mercer.estimators.shared.parameters import Draw
from mercer.estimators.shared.parts import Parts, resolve
from mercer.estimators.shared.summary import Summary, summarise
from mercer.estimators.shared.table import Table, build_table, read_rows
from mercer.kernels.base import Kernel
from mercer.left_out.figures import Loo
from mercer.losses.base import Loss
from mercer.losses.real.gaussian import Gaussian
from mercer.search import Problem

Targets = tuple[Array, Array]


class LabelRegression(ClassifierMixin, base.KernelMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Regression on one column of targets for two classes, on one per class for more.

    All columns share one kernel, one noise and one factorisation. A child states which targets
    stand for a class (``_targets``) and how kernel and loss are found (``_choose``).
    """

    classes_: Any
    loo_: Loo
    class_weight: Any

    def _targets(self, counts: Array) -> Targets:
        """Return (y+, y-), each (m,), for classes of ``counts`` (k,) rows."""
        m = 1 if len(counts) == 2 else len(counts)
        return np.ones(m), -np.ones(m)

    def _choose(
        self, parts: Parts, problem: Problem, codes: Index, counts: Array
    ) -> tuple[Kernel, Loss, dict[str, Any]]:
        """Return kernel, loss and report; ``codes`` (N,) are the classes of the problem's rows."""
        raise NotImplementedError

    def _score(self, table: Table, codes: Index) -> None:
        """Say in ``report_`` and ``loo_`` how well the left-out rows were predicted."""
        raise NotImplementedError

    def _parts(self) -> dict[str, Any]:
        """Return the loss and the search that :func:`resolve` is given."""
        raise NotImplementedError

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and labels y (n,).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        machine stays as it was.
        """
        return super().fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, y = read_rows(self, X, y)
        given = read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        classes, codes, seen, weights = given.classes, given.codes, given.rows, given.weights
        counts: Array = np.asarray(np.bincount(codes, seen, len(classes)), dtype=np.float64)
        parts = self._resolve(getattr(self, "feature_names_in_", None), X.shape[1])
        if parts.by_row and np.any(weights != 1.0):
            raise ValueError(
                "weights need rows that are their inputs: a noise part in the kernel or a "
                "precomputed matrix has no meaning for a weighted row"
            )
        plus, minus = self._targets(counts)
        wanted = np.arange(len(classes)) if len(plus) > 1 else np.array([1])
        Y = np.where(codes[:, None] == wanted, plus, minus)
        table = build_table(X, Y, weights, parts.by_row, len(plus) == 1, arrays=parts.arrays + 4)
        ones, zeros = np.ones(len(plus)), np.zeros(len(plus))
        # targets stay as they are: only the columns of X are standardised
        units = replace(base._units(parts, table), y_shift=zeros, y_scale=ones)
        # class weights say what a mistake costs, not how often a row was seen: a row that is left
        # out takes its class weight with it, whole
        with np.errstate(invalid="ignore", divide="ignore"):
            alone = np.where(seen > 1.0, weights / seen, weights)
        problem = replace(base._problem(parts, table, units), left_out=alone[table.keep])
        parts.start(problem.points, problem.y, problem.weights, units)
        kernel, loss, report = self._choose(parts, problem, codes[table.keep], counts)
        self.classes_ = classes
        # learning is Gaussian regression, whatever the loss says of new labels
        gaussian = Gaussian(noise=float(loss.get_params()["noise"]))
        self._finish(parts, table, units, problem, [Draw(kernel, gaussian)], report)
        self.losses_, self.loss_ = [loss], loss
        self._score(table, codes)
        return self

    def _resolve(self, names: Any, d: int) -> Parts:
        given = {k: getattr(self, k) for k in ("kernel", "gram", "basis", "standardize")}
        return resolve(names, d, **given, inference="exact", **self._parts())

    # ------------------------------------------------------------------ predictions
    def _mean(self, inside: Array) -> Array:
        """Return f (q, m), averaged over the posteriors."""
        return np.asarray(np.mean([p.mean(inside) for p in self.posteriors_], axis=0))

    def _variance(self, inside: Array) -> Array:
        """Return the variance (q, 1) of f, noise parts of the kernel included."""
        posterior = self.posteriors_[0]
        if not posterior.varies_known(inside):
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

    def decision_function(self, X: Any) -> Array:
        """Return (q,) for two classes, positive for the second; (q, k) for more."""
        raise NotImplementedError

    def predict(self, X: Any) -> Any:
        """Return the class of each row of X (q, d): shape (q,)."""
        scores = self.decision_function(X)
        best = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return summarise(self)


def loo_error(scores: Array, codes: Index, weights: Array) -> float:
    """Return the weighted share of rows whose left-out score (N, m) points to another class."""
    best = (scores[:, 0] > 0.0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float(weights @ (best != codes) / weights.sum())
