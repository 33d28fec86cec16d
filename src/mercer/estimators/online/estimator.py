"""OnlineLogisticClassifier: Bayesian logistic regression with a kernel, learned from a stream."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.online.learning import BLOCK, OnlineLearning, check_drift, likely_share
from mercer.estimators.online.state import OnlineState
from mercer.estimators.shared import labels
from mercer.estimators.shared.machine import column_units
from mercer.estimators.shared.predictions import class_logs
from mercer.estimators.shared.stream import (
    check_budget,
    check_forgetting,
    first_classes,
    is_plain,
    known_codes,
    require_frozen,
    require_moderate,
)
from mercer.estimators.shared.table import (
    build_table,
    check_weights,
    read_rows,
    restored_on_error,
)
from mercer.inference.stream.stream import Stream


class OnlineLogisticClassifier(OnlineState, OnlineLearning, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Bayesian kernel logistic regression, one example or one batch at a time.

    The posterior of the latent function is Gaussian at any time, and the prior of what comes next.
    Each example becomes a Gaussian observation by the best quadratic bound on the logistic, given
    all before it: one pass, no step size. The result depends on the order of the examples, a
    little; :meth:`fit` and :meth:`refine` find the bound of all together, which does not.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        None or a name is 4 times that kernel plus a constant of variance 1, on columns
        standardised by the first batch, with a length scale of its total deviation or a half, a
        quarter or an eighth of that, whichever has the largest evidence there (``report_``); all
        is then frozen. A kernel object is taken as it is, in your units.
    rho : float in (0, 1]
        Forgetting: before each batch the posterior precision becomes rho times itself plus (1 -
        rho) times the prior's, and the mean follows by the same weights. 1 forgets nothing.
    drift : float in [0, 1), or "auto"
        The share of the latent function that is renewed before each batch: f becomes sqrt(1 -
        drift) f + sqrt(drift) g, g drawn from the prior. The learner is then that of a function
        that changes in time, with correlation (1 - drift)^(t/2) over t batches. "auto" chooses for
        each batch the most probable of a few shares given its labels (its first 128 rows), with 5%
        for any change before it.
    budget : int or None
        Points to keep at most; None keeps all. Beyond it the posterior is projected: it stays as
        it is on the kept points, with the prior's law of everything else given those. The
        divergence this costs is summed in ``report_``. Batches of less than a tenth of the budget
        are projected up to a tenth below it, so that not each of them needs to be.
    inference : None or :class:`mercer.inference.Bound`
        Tolerance and steps of the batch bound in :meth:`fit` and :meth:`refine`.
    standardize : see :class:`KernelRegressor`.

    Attributes
    ----------
    classes_ : the labels, sorted.
    log_evidence_ : float, a lower bound on log p(labels | inputs): the sum of the bounds on each
        label given those before it; with several classes, summed over one machine for each.
    prequential_ : ``log_loss`` and ``accuracy`` of each row predicted before the batch (or the 128
        rows of it) that it was learned with.
    kernel_ : the kernel in your units.
    n_features_in_, feature_names_in_

    Notes
    -----
    Several classes: one latent function of each against the rest on the same points, their
    probabilities normalised. A row of weight w counts as w rows that share one bound; the rows one
    by one have a bound each and differ a little. Forgetting or drift without a budget costs O(n^3)
    for each batch, everything else O(n^2) for each row.

    References
    ----------
    Jaakkola & Haussler, Probabilistic kernel regression models (1999), section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import OnlineLogisticClassifier
    >>> rng = np.random.default_rng(0)
    >>> model = OnlineLogisticClassifier(budget=50)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(20, 2))
    ...     y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    ...     model = model.partial_fit(X, y, classes=["same", "different"])
    >>> model.predict([[1.0, 1.0], [-1.0, 1.0]])
    array(['same', 'different'], dtype='<U9')
    >>> mean, std = model.predict_latent([[1.0, 1.0], [30.0, 30.0]])
    >>> bool(std[1] > std[0])
    True
    >>> model.prequential_.accuracy > 0.8
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        rho: float = 1.0,
        drift: float | str = 0.0,
        budget: int | None = None,
        inference: Any = None,
        standardize: bool | str = "auto",
    ) -> None:
        self.kernel = kernel
        self.rho = rho
        self.drift = drift
        self.budget = budget
        self.inference = inference
        self.standardize = standardize

    # ------------------------------------------------------------------ learning
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch X (b, d), y (b,), in the order of its rows; b may be one.

        ``classes`` lists all labels of the stream; it is needed at the first call if that batch
        does not show them all. ``kernel`` and ``standardize`` are frozen by the first batch: a
        stream in which one of them is changed is refused. After any error the learner is as it was.
        """
        return self._safely(lambda: self._partial_fit(X, y, classes, sample_weight))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn X (n, d), y (n,) all together, afresh: the batch bound, independent of the order.

        ``rho`` and ``drift`` play no part: a batch has no age. :meth:`partial_fit` may follow.
        """
        return self._safely(lambda: self._fit(X, y, sample_weight))

    def refine(self) -> Self:
        """Improve the bounds of all examples seen, together, until they no longer change.

        The result is that of :meth:`fit` in the units of the first batch. It needs all examples:
        a learner that has forgotten, or was projected onto its budget, refuses.
        """
        check_is_fitted(self, "stream_")
        if self.stream_.S is None:
            raise ValueError(
                "a second pass needs all examples, and this learner has forgotten some (rho < 1, "
                "drift) or dropped points (budget); use rho=1, drift=0 and a larger budget, or "
                "fit on stored data"
            )
        return self._safely(self._refine)

    def _safely(self, work: Any) -> Self:
        with restored_on_error(self):
            work()
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        begun = hasattr(self, "stream_")
        require_frozen(self)
        rho, drift = check_forgetting(self.rho), check_drift(self.drift)
        budget = check_budget(self.budget)
        if not (begun and is_plain(self, X, y)):
            X, y = read_rows(self, X, y, reset=not begun)
        w = check_weights(sample_weight, len(X))
        known = first_classes(y, classes, self.classes_ if begun else None)
        codes = known_codes(y, known)
        use = w > 0.0
        X, codes, w = X[use], codes[use], w[use]
        S = _signs(codes, len(known))
        if not begun:
            self.classes_ = known
            self._begin(X, S, w)
        self._require_room(len(X), budget)
        inside = self.units_.inside(X)
        require_moderate(self.stream_.kernel, inside)
        before, first = self.stream_.forget(rho), slice(0, BLOCK)
        share, surprise = drift, 0.0
        if share is None:
            share, surprise = likely_share(before, inside[first], S[first], w[first])
        stream, figures = before.drift(share), self.prequential_
        value, projections = self.log_evidence_ + surprise, 0
        for i in range(0, len(X), BLOCK):
            part = slice(i, i + BLOCK)
            size = len(stream.points) + len(X[part])
            after, blocks = stream.absorb(inside[part], S[part], w[part], budget)
            value += sum(block.log_q for block in blocks)
            mean = np.column_stack([block.mean for block in blocks])
            var = np.maximum(np.column_stack([block.var for block in blocks]), 0.0)
            if drift is None and share and i == 0:  # a change that was not foreseen
                mean, var = before.moments(inside[part])
            figures = figures.add(class_logs(mean, var), codes[part], w[part])
            stream, projections = after, projections + (len(after.points) < size)
        self.stream_, self.prequential_, self.log_evidence_ = stream, figures, value
        self._tell(rows=len(X), weight=float(w.sum()), projections=projections, share=share)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        check_forgetting(self.rho)
        check_drift(self.drift)
        budget = check_budget(self.budget)
        X, y = read_rows(self, X, y)
        given = labels.read_labels(y, None, sample_weight)
        given.check_two()
        parts = self._parts(X.shape[1])
        Y, w = _signs(given.codes, len(given.classes)), given.weights
        table = build_table(X, Y, w, parts.by_row, Y.shape[1] == 1, parts.arrays, alike=True)
        units = column_units(parts, table, Y.shape[1])
        given_rows = (units.inside(table.points), table.mean, table.total)
        parts.start(*given_rows, units)
        self.classes_ = given.classes
        self._freeze(parts, units, len(table.keep), *given_rows)
        stream = Stream.empty(parts.kernel, X.shape[1], Y.shape[1])
        self._together(stream, *given_rows)
        before = len(self.stream_.points)
        if budget is not None:
            self.stream_ = self.stream_.project(budget)
        self._tell(
            rows=len(table.keep),
            weight=float(w[table.keep].sum()),
            projections=int(len(self.stream_.points) < before),
        )

    def _refine(self) -> None:
        stream = self.stream_
        self._together(stream, stream.points, stream.S, stream.w)


def _signs(codes: Any, k: int) -> Array:
    """Return the labels (b, m) as -1 and +1, one column for each latent function."""
    return labels.binary_targets(codes)[:, None] if k == 2 else labels.one_vs_rest(codes, k)
