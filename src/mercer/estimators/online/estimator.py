"""OnlineLogisticClassifier: Bayesian logistic regression with a kernel, learned from a stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import inference as inferences
from mercer.core.arrays import Array, location_scale
from mercer.core.memory import require_memory
from mercer.estimators.online.bound import bounds
from mercer.estimators.online.record import OnlineRecord
from mercer.estimators.shared import labels
from mercer.estimators.shared.labels import class_logs, signs, unseen
from mercer.estimators.shared.parts import positional, resolve_kernel, standardizes, start_length
from mercer.estimators.shared.stream import (
    Prequential,
    Sharpening,
    check_stream,
    first_classes,
    is_plain,
    known_codes,
    new_classes,
    require_moderate,
)
from mercer.estimators.shared.table import (
    build_table,
    check_weights,
    read_inputs,
    read_rows,
    restored_on_error,
)
from mercer.estimators.shared.units import Units, no_units
from mercer.inference.sites.bound import Bound
from mercer.inference.sites.laplace import Laplace
from mercer.inference.sites.sequential import absorb_by_laplace
from mercer.inference.stream import Rule, absorb
from mercer.kernels import Constant
from mercer.kernels.stationary.base import tied_scales
from mercer.linalg.reduced.weights import FROM
from mercer.losses import Logistic
from mercer.process.stream import (
    StreamPosterior,
    likely_length,
    likely_share,
    prior_means,
)
from mercer.process.weights import WeightStream, weighed

AMPLITUDE, BIAS = 4.0, 1.0  # prior variances of a kernel given by name, and of its constant
BLOCK = 128  # examples that are absorbed together, at most
SMALL = 1000  # points whose matrices (8 MB each) fit anywhere: asking the system takes longer
LOGISTIC = Logistic()


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineLogisticClassifier(OnlineRecord, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Bayesian kernel logistic regression, one example or one batch at a time.

    The posterior of the latent function is a Gaussian process, and the prior for what comes next.
    Each example becomes a Gaussian observation by the best quadratic bound on the logistic given
    all examples before it: one pass, no step size. The result depends slightly on the order of the
    examples; :meth:`fit` and :meth:`refine` find the bounds of all together, which do not.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None (default, "rbf"). A kernel given by
        name gets a variance of 4, plus a constant of variance 1, on columns standardised by the
        first batch. Its length scale is the total standard deviation of these columns, or a half, a
        quarter or an eighth of that, whichever has the largest evidence there
        (``report_["scales"]``). All of this is then frozen. A kernel object is used unchanged.
    rho : in (0, 1], default 1, which forgets nothing. Before each batch the posterior precision
        becomes rho times itself plus (1 - rho) times that of the prior; the mean follows.
    drift : in [0, 1), default 0, or "auto". The share of the latent function that is renewed before
        each batch: f becomes sqrt(1 - drift) f + sqrt(drift) g, with g drawn from the prior, which
        has correlation (1 - drift)^(t/2) over t batches. "auto" chooses for each batch the most
        probable of a few shares given its labels (of its first 128 rows), with a prior probability
        of 5% that there is any change before it.
    budget : >= 1, or None (default), which keeps all points. Beyond it the posterior is projected:
        it stays the same on the kept points, with the prior's law of everything else given those.
        ``report_["budget"]`` sums the divergence this costs, in nats. After small batches it is
        projected to as much as a tenth below the budget: not each needs a projection.
    inference : None (default, ``Bound()``), :class:`mercer.inference.Bound` or ``Laplace``, with
        tolerance and number of steps of :meth:`fit` and :meth:`refine`. With Laplace each example
        is a Gaussian about the mode given those before it: wider than that of the bound, and
        ``log_evidence_`` is no bound.
    standardize : bool or "auto" (default). Whether to standardise the columns by the first batch;
        "auto" for a kernel given by name. A kernel object is in your units: True is refused for it.
    mean : float, default 0, or one for each class of several: the prior mean of f, log odds.
    calibration : "prequential" (default) or None. Probabilities of several classes, one function
        each, are raised to the power (1/4 ... 32) that would have foreseen the rows so far best,
        ``sharpening_.power``; None leaves them as they are, too cautious.

    Attributes
    ----------
    posteriors_ : list of one process, the posterior of the latent functions in standardised units;
        with ``classes="grow"`` the last one is that of any class not seen yet.
    log_evidence_ : float, a lower bound on log p(labels | inputs) in nats: the sum of the bounds on
        each label given those before it, over the latent functions.
    prequential_ : ``log_loss`` (nats per row) and ``accuracy`` of each row predicted before the
        batch (or the block of 128 rows) with which it was learned.
    classes_, kernel_ : (k,) the labels, sorted; and the kernel in your units.
    report_ : dict, what was done.
    left_out_ : None; ``report_["left_out"]`` is the reason. ``loo_`` is an alias.
    n_features_in_, feature_names_in_ : number and names of the columns.

    Notes
    -----
    Several classes have one latent function each, against the rest; their probabilities are
    normalised. A row of weight w counts as w rows that share one bound, which is not quite the same
    as one each. A kernel with m <= 500 explicit features (Linear, Polynomial, RandomFourier, ...;
    m <= budget, if there is one) is kept by their weights from 256 rows and 4 m on, or at once
    where the stream forgets, drifts or has a budget: O(m^2) a row, O(m^3) a batch that forgets or
    drifts, nothing to project. Any other costs O(n^2) a row, and forgetting or drift without a
    budget O(n^3) per batch.

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

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "standardize", "mean")
    kernel: Any = field(default=None, kw_only=False)
    rho: float = 1.0
    drift: float | str = 0.0
    budget: int | None = None
    inference: Any = None
    standardize: bool | str = "auto"
    mean: Any = 0.0
    calibration: str | None = "prequential"

    # ------------------------------------------------------------------ learning
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch X (b, d), y (b,), in the order of its rows; b may be one.

        ``classes`` lists all labels of the stream; it is needed at the first call unless that batch
        has all of them. With ``classes="grow"`` there, labels may come that were not seen before:
        a class that is new is learned as if it had been known, and never seen, from the beginning
        ``sample_weight`` (b,) is 1 if None; rows of weight
        zero are skipped. ``kernel``, ``standardize`` and ``mean`` are frozen by the first batch:
        changing one of them later is an error. After any error the learner is as it was before the
        call.
        """
        with restored_on_error(self):
            begun = hasattr(self, "posteriors_")
            self._require_frozen()
            self._check_calibration()
            rho, drift, budget = check_stream(self.rho, self.drift, self.budget)
            if not (begun and is_plain(self, X, y)):
                X, y = read_rows(self, X, y, reset=not begun)
            w = check_weights(sample_weight, len(X))
            grow, seen = isinstance(classes, str) and classes == "grow", None
            if begun and self.grows_:
                grow, classes = True, None if grow else classes
                seen = self._grow(new_classes(y, self.classes_))
            elif begun and grow:
                raise ValueError(
                    f"this learner began with the classes {self.classes_.tolist()} and keeps them: "
                    'start another one with classes="grow"'
                )
            known = first_classes(y, None if grow else classes, self.classes_ if begun else None)
            codes = known_codes(y, known)
            use = w > 0.0
            X, codes, w = X[use], codes[use], w[use]
            S, rule = signs(codes, len(known), grow), self._rule()
            if not begun:
                self._begin(known, X, S, w, rows=len(X), grow=grow)
            n = len(self.stream_.points)
            size = n + len(X) if budget is None else min(n + len(X), max(n, budget) + BLOCK)
            if size > SMALL and not self.stream_.weighs:
                require_memory(size, 2 * len(self.stream_.latents))
            inside = self.units_.standardised(X)
            require_moderate(self.stream_.kernel, inside)
            eager = budget is not None or rho < 1.0 or drift != 0.0
            before, first = self.stream_, slice(0, BLOCK)
            if eager or n >= FROM:
                before = weighed(before, n, eager, budget, rule)
            before = before.forget(rho)
            share, surprise = drift, 0.0
            if share is None:
                share, surprise = likely_share(before, inside[first], S[first], w[first], rule)
            stream, figures = before.drift(share), self.prequential_
            sharp = self.sharpening_ or Sharpening()
            value, projections = self.log_evidence_ + surprise, 0
            for i in range(0, len(X), BLOCK):
                part = slice(i, i + BLOCK)
                if eager or len(stream.points) >= FROM:
                    stream = weighed(stream, len(stream.points), eager, budget, rule)
                size = len(stream.points) + len(X[part])
                after, blocks = stream.absorb(inside[part], S[part], w[part], budget, rule)
                value += sum(block.log_q for block in blocks[: len(blocks) - grow])
                mean = np.column_stack([block.mean for block in blocks])
                var = np.maximum(np.column_stack([block.var for block in blocks]), 0.0)
                if drift is None and share and i == 0:  # a change that was not foreseen
                    mean, var = before.marginals(inside[part])
                own = mean.shape[1] - grow  # the last is of no class
                log_p = class_logs(mean[:, :own], var[:, :own])
                if grow and seen is not None:  # a class that is new had what no class had
                    log_p = unseen(class_logs(mean, var), log_p, seen, codes[part])
                figures = figures.add(sharp.applied(log_p), codes[part], w[part])
                if len(known) > 2 and self.calibration is not None:
                    sharp = sharp.given(log_p, codes[part], w[part])
                projections += not after.weighs and len(after.points) < size
                stream = after
            self.posteriors_, self.prequential_, self.log_evidence_ = [stream], figures, value
            self.sharpening_ = sharp if len(known) > 2 or grow else None
            self._count(len(X), float(w.sum()), projections, share)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn X (n, d), y (n,) together, from scratch; the order of the rows has no effect.

        ``rho`` and ``drift`` are not used: the rows of one batch have the same age.
        ``sample_weight`` (n,) is 1 if None. :meth:`partial_fit` may follow.
        """
        with restored_on_error(self):
            _, _, budget = check_stream(self.rho, self.drift, self.budget)
            self._check_calibration()
            X, y = read_rows(self, X, y)
            given = labels.read_labels(y, None, sample_weight)
            given.check_two()
            S = signs(given.codes, len(given.classes))
            table = build_table(X, S, given.weights, by_row=False, flat=S.shape[1] == 1, alike=True)
            rows = given.rows[table.keep]
            self._begin(given.classes, table.points, table.mean, table.total, rows=len(rows))
            n, eager = len(table.points), budget is not None
            self.posteriors_ = [weighed(self.stream_, n, eager, budget, self._rule())]
            self._solve_together(self.units_.standardised(table.points), table.mean, table.total)
            size = len(self.stream_.points)
            if budget is not None:
                self.posteriors_ = [self.stream_.within(budget)]
            projected = not self.stream_.weighs and len(self.stream_.points) < size
            self._count(len(rows), float(rows.sum()), int(projected))
        return self

    def refine(self) -> Self:
        """Improve the bounds of all examples so far, together, until they no longer change.

        The result is that of :meth:`fit` in the units of the first batch. It needs all examples:
        after forgetting, drift or a projection onto the budget this is an error.
        """
        check_is_fitted(self, "posteriors_")
        stream = self.stream_
        if stream.S is None or stream.w is None:
            raise ValueError(
                "a second pass needs all examples, and this learner has forgotten some (rho < 1, "
                "drift) or dropped points (budget); use rho=1, drift=0 and a larger budget, or "
                "fit on stored data"
            )
        with restored_on_error(self):
            self._solve_together(stream.points, stream.S, stream.w)
        return self

    def _begin(
        self, classes: NDArray[Any], X: Array, S: Array, w: Array, *, rows: int, grow: bool = False
    ) -> None:
        """Freeze units and kernel by the first batch X (b, d), labels S (b, m), of so many rows."""
        d, m = X.shape[1], S.shape[1]
        self._rule()  # refuse another inference before any work
        offset = prior_means(self.mean, m)
        kernel, named = resolve_kernel(self.kernel, getattr(self, "feature_names_in_", None), d)
        if positional(kernel):
            raise ValueError(
                "a stream needs a kernel of the inputs: precomputed values and noise parts depend "
                "on which row it is; give a kernel without them"
            )
        standardize = standardizes(self.standardize, named)
        units, factor = no_units(d, m), 1.0
        if standardize and len(X) > 1:
            units = Units(*location_scale(X, w), units.y_shift, units.y_scale)
        inside = units.standardised(X)
        kernel = kernel.frozen(inside, w)
        if named:
            start_length(kernel, inside, w)
            if len(X) == 1:  # no spread to measure: unit scale for each column
                for owner in tied_scales(kernel):
                    owner.set_params(length_scale=float(np.sqrt(d)))
            kernel.set_params(variance=AMPLITUDE)
            own = S[:, : m - grow]  # the last is of no class, and says nothing of the kernel
            kernel, factor = likely_length(kernel + Constant(BIAS), inside, own, w)
        self._freeze()
        self.classes_, self.units_, self.loss_ = classes, units, LOGISTIC
        self.kernel_ = units.kernel_in_user_units(kernel)
        self.posteriors_ = [StreamPosterior.empty(kernel, d, m, offset)]
        self.prequential_, self.log_evidence_, self.sharpening_ = Prequential(), 0.0, None
        scales = {"rows": rows, "standardize": standardize, "x_shift": units.x_shift.tolist()}
        scales |= {"x_scale": units.x_scale.tolist(), "length_factor": factor}
        if named and rows == 1:
            scales["message"] = (
                "the first batch had one row, which has no spread: every column counts as one of "
                "unit scale; give more rows first, or a kernel object"
            )
        self._report = {
            "scales": scales,
            "rows": {"seen": 0, "weight": 0.0, "batches": 0},
            "budget": {"points": 0, "projections": 0},
            "drift": {"share": 0.0, "changes": 0, "rows": []},
            "inference": {"name": f"sequential {type(self._together()).__name__}".lower()},
        }

    def _count(self, rows: int, weight: float, projections: int, share: float = 0.0) -> None:
        """Add one batch to the figures of the report, in a copy."""
        before, kept, drift = (self._report[key] for key in ("rows", "budget", "drift"))
        seen, batches = before["seen"] + rows, before["batches"] + 1
        projections += kept["projections"]
        self._report = self._report | {
            "rows": {"seen": seen, "weight": before["weight"] + weight, "batches": batches},
            "budget": {"points": len(self.stream_.points), "projections": projections},
            "drift": {
                "share": share,
                "changes": drift["changes"] + (share > 0.0),
                "rows": [*drift.get("rows", []), *([before["seen"]] if share > 0.0 else [])][-100:],
            },
        }

    def _check_calibration(self) -> None:
        if self.calibration not in (None, "prequential"):
            raise ValueError(f'calibration must be "prequential" or None, not {self.calibration!r}')

    @property
    def grows_(self) -> bool:
        """Whether classes may come that were not seen before."""
        k = len(self.classes_)
        return len(self.stream_.latents) == (2 if k == 2 else k + 1)

    def _grow(self, fresh: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Take up classes that are new: each begins as what no row was so far.

        Return which of all had been there; None: there is no new one.
        """
        if not len(fresh):
            return None
        classes = np.unique(np.concatenate([self.classes_, fresh]))
        seen = ~np.isin(classes, fresh)
        old = len(self.classes_)
        order, turned = np.full(len(classes) + 1, old), np.ones(len(classes) + 1)
        order[:-1][seen] = np.arange(old)
        if old == 2:  # the one function of two classes is that of the second, and less the first's
            order, turned[np.flatnonzero(seen)[0]] = np.where(order == 2, 1, 0), -1.0
        units, k = self.units_, len(order)
        self.units_ = replace(units, y_shift=np.zeros(k), y_scale=np.ones(k))
        self.posteriors_, self.classes_ = [self.stream_.reordered(order, turned)], classes
        grown = self._report.get("classes", {}).get("grown", [])
        told = {"grown": [*grown, *fresh.tolist()], "last": self._report["rows"]["seen"]}
        self._report = self._report | {"classes": told}
        return np.asarray(seen)

    def _together(self) -> Bound | Laplace:
        """Return the inference for all examples together."""
        found = Bound() if self.inference is None else inferences.by_name(self.inference, LOGISTIC)
        if not isinstance(found, (Bound, Laplace)):
            raise ValueError(
                "an online learner works by the quadratic bound or by Laplace's method: inference "
                f"must be None, a Bound() or a Laplace(), not {self.inference!r}; GPClassifier "
                "takes the others"
            )
        found.check(LOGISTIC)
        return found

    def _rule(self) -> Rule:
        """Return how one example after the other is absorbed."""
        if self.inference is None:  # for each batch: nothing to ask
            return absorb
        return absorb if isinstance(self._together(), Bound) else absorb_by_laplace

    def _solve_together(self, points: Array, S: Array, w: Array) -> None:
        """Find the bounds of all points (n, d) together, labels S (n, m), weights w (n,)."""
        inference, stream = self._together(), self.stream_
        require_moderate(stream.kernel, points)
        if not stream.weighs:
            require_memory(len(points), 4 + 2 * S.shape[1])
        gram = stream.gram(points)
        mean = np.broadcast_to(stream.level, S.shape)
        solution = inference.solve(gram, S, LOGISTIC, weights=w, mean=mean)
        inference.warn(solution.report)
        self.posteriors_ = [stream.given_sites(points, S, solution)]
        self.log_evidence_ = float(inference.evidence(gram, S, LOGISTIC, solution).value)
        ended = {k: v for k, v in solution.report.plain().items() if k != "columns"}
        self._report = self._report | {"inference": {"name": type(inference).__name__, **ended}}

    # ------------------------------------------------------------------ what was learned
    @property
    def stream_(self) -> StreamPosterior | WeightStream:
        """The posterior of the latent functions, given all rows so far: ``posteriors_[0]``."""
        return self.posteriors_[0]

    # ------------------------------------------------------------------ predictions
    def _marginals(self, X: Any) -> tuple[Array, Array]:
        check_is_fitted(self, "posteriors_")
        mean, var = self.stream_.marginals(self.units_.standardised(read_inputs(self, X)))
        k = mean.shape[1] - self.grows_  # the last is of no class
        return mean[:, :k], var[:, :k]

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation of f at X: (q,), or (q, k) for several classes."""
        mean, var = self._marginals(X)
        std = np.sqrt(var)
        return (mean[:, 0], std[:, 0]) if mean.shape[1] == 1 else (mean, std)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`; finite."""
        log_p = class_logs(*self._marginals(X))
        return log_p if self.sharpening_ is None else self.sharpening_.applied(log_p)

    def predict_log_bound(self, X: Any) -> Array:
        """Return lower bounds (q, k) on the logarithms of what each class has as the next label.

        Those of :meth:`predict_log_proba` are averages over the posterior; these are its bounds by
        the best xi of each label, which do not sum to one: what ``log_evidence_`` would grow by.
        Of several classes each is against the rest. Reference: Jaakkola & Haussler (1999), (14).
        """
        return bounds(*self._marginals(X))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), averaged over the posterior of f."""
        p = np.exp(self.predict_log_proba(X))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (q,); for several classes log probabilities."""
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X: (q,)."""
        check_is_fitted(self, "posteriors_")
        return labels.decided(self.classes_, self.predict_proba(X))
