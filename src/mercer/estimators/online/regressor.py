"""OnlineRegressor: a Gaussian process learned from a stream, on a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.core.arrays import Array, Index, location_scale
from mercer.estimators.online.absorb import Foreseen, absorbed, likely_drift
from mercer.estimators.online.begin import Begin, begun, check_noise, moderate_targets, most_rows
from mercer.estimators.online.reservoir import DriftWatch, Latest
from mercer.estimators.online.scale import NoiseLevel, PrequentialValues
from mercer.estimators.online.spread import NoiseByLevel
from mercer.estimators.online.values import PredictsValues
from mercer.estimators.shared.parts import given_loss, positional, resolve_kernel, standardizes
from mercer.estimators.shared.stream import check_stream, is_plain, require_moderate
from mercer.estimators.shared.table import (
    build_table,
    check_target,
    check_weights,
    read_rows,
    restored_on_error,
)
from mercer.estimators.shared.units import Units, no_units, target_units
from mercer.losses import Gaussian
from mercer.process.inducing import InducedStream

BLOCK = 128  # rows that are absorbed together, at most
FAR = 0.3  # share of its prior variance that the points must leave at a row to replace one of them
PAUSE = 10  # times the number of points: rows from one replacement to the next, O(m^2) a row
SHARE = 4  # of the points, one in so many is replaced at a time
AGAIN = 4  # times the rows that the kernel was learned from: it is learned again
WAIT = 250  # rows after the beginning of a change from which the kernel is learned again


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineRegressor(PredictsValues, RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Gaussian process regression of a stream, one row or one batch at a time.

    The function is known through its values on at most ``budget`` points: until there are that many
    rows the posterior is exact, then a row costs O(budget^2), and memory stays as it is. Kernel
    parameters and noise are learned from the first rows by their evidence, and learned again from
    the latest ones where the rows come to be foreseen worse than before.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None (default, "rbf"). A kernel given by
        name gets scales from the data, on standardised columns and targets. A kernel object is in
        your units.
    budget : >= 1, default 300, points to know the function by. The first rows, evenly spread, are
        the points; later a row replaces one of them if they leave more than 0.3 of its variance.
    forget : in (0, 1], default 1, which forgets nothing. A row counts forget^t after t further
        ones; what is forgotten gives way to the prior.
    drift : in [0, 1), default 0, or "auto". The share of the function that is renewed before each
        batch, see :class:`OnlineLogisticClassifier`; "auto" chooses the most probable of a few.
    noise : "learned" (default): its ratio to the kernel by the evidence of the first rows, and the
        level of both from every row, with Student t predictions; or a number, the known variance.
    loss : Loss or name, default "gaussian". Counts, positive numbers, grades 0, 1, 2 ... and labels
        0 and 1 by a convex likelihood of theirs: each block of rows becomes Gaussian observations
        by Laplace's method (or the inference of GPRegressor), given all rows before it.
    search : "evidence" (default), another search of GPRegressor, or None: kernel and noise stay as
        they are given.
    reservoir : >= 20, default 1000, latest rows that are kept for learning the kernel again.
    standardize : bool or "auto" (default), which is for a kernel given by name.
    calibration : "prequential" (default) or None. A learned noise depends on the level of the
        function, as the errors of the rows foreseen so far say, once that foresees them better
        by three nats; None: it is the same everywhere. Means and ``log_evidence_`` are the same.

    Attributes
    ----------
    posteriors_ : list of one process, the posterior of the function in standardised units.
    prequential_ : ``nlpd`` (nats per row) and ``rmse`` of each row predicted before the batch (or
        the block of 128 rows) with which it was learned; without the first batch.
    log_evidence_ : float, the sum of the log densities of the blocks, each given those before it,
        less what the points leave out: of known noise, and nothing forgotten, a lower bound.
    scale_ : what is known of the level of the noise; ``scale_.level`` multiplies all variances.
    spread_ : how the noise depends on the level, or None; ``spread_.used`` says whether
        predictions have it.
    kernel_, loss_ : the parts in your units.
    report_ : dict, what was done: "kernel" says when it was learned, "drift" where rows came to be
        foreseen worse than before, "budget" how many points were replaced.
    left_out_ : None; ``report_["left_out"]`` is the reason. ``loo_`` is an alias.
    n_features_in_, feature_names_in_ : number and names of the columns.

    References: Bui, Nguyen & Turner, Streaming sparse Gaussian process approximations (2017);
    theory (O14) to (O24).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import OnlineRegressor
    >>> rng = np.random.default_rng(0)
    >>> model = OnlineRegressor(budget=50)
    >>> for _ in range(10):
    ...     X = rng.uniform(0, 10, size=(20, 1))
    ...     model = model.partial_fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=20))
    >>> mean, std = model.predict([[2.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.0)) < 0.1), bool(0.05 < std[0] < 0.2)
    (True, True)
    >>> model.prequential_.rmse < 0.3
    True
    """

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "loss", "noise", "search", "standardize")
    kernel: Any = field(default=None, kw_only=False)
    budget: int = 300
    forget: float = 1.0
    drift: float | str = 0.0
    noise: float | str = "learned"
    loss: Any = "gaussian"
    search: Any = "evidence"
    reservoir: int = 1000
    standardize: bool | str = "auto"
    calibration: str | None = "prequential"

    # ------------------------------------------------------------------ learning
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a batch X (b, d), y (b,), in the order of its rows; b may be one.

        ``sample_weight`` (b,) is 1 if None; rows of weight zero are skipped. ``kernel``, ``loss``,
        ``noise``, ``search`` and ``standardize`` are frozen by the first batch. After any error the
        learner is as it was before the call.
        """
        with restored_on_error(self):
            fresh = not hasattr(self, "posteriors_")
            self._require_frozen()
            forget, drift, budget = self._checked()
            if fresh or not is_plain(self, X, y, values=True):
                check_target(y)
                X, y = read_rows(self, X, y, reset=fresh, y_numeric=True)
            w = check_weights(sample_weight, len(X))
            y = self._targets(y)
            if not w.all():
                X, y, w = X[w > 0.0], y[w > 0.0], w[w > 0.0]
            if fresh:
                self._begin(X, y, w, budget)
            elif len(X):
                self._step(X, y, w, forget, drift, budget)
            self._count(len(X), float(w.sum()))
            self._tend(budget)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn X (n, d), y (n,) from scratch; the order of the rows has no effect.

        ``forget`` and ``drift`` are not used: the rows of one batch have the same age. The kernel
        is learned from ``reservoir`` rows evenly spread. :meth:`partial_fit` may follow.
        """
        with restored_on_error(self):
            _, _, budget = self._checked()
            check_target(y)
            X, y = read_rows(self, X, y, y_numeric=True)
            w, y = check_weights(sample_weight, len(X)), self._targets(y)
            table = build_table(X, y[:, None], w, by_row=False, flat=True, alike=True)
            self._begin(table.points, table.mean[:, 0], table.total, budget)
            self._count(len(table.keep), float(table.total.sum()))
        return self

    def _checked(self) -> tuple[float, float | None, int]:
        """Return forgetting, drift (None for "auto") and budget, or refuse a parameter."""
        forget, drift, budget = check_stream(self.forget, self.drift, self.budget, name="forget")
        if budget is None:
            raise ValueError("budget must be a number of points, at least 1: it bounds the memory")
        most_rows(self.reservoir)
        check_noise(self.noise)
        if self.calibration not in (None, "prequential"):
            raise ValueError(f'calibration must be "prequential" or None, not {self.calibration!r}')
        return forget, drift, budget

    def _begin(self, X: Array, y: Array, w: Array, budget: int) -> None:
        """Learn a first batch X (n, d), y (n,) of weights w (n,), whatever was learned before."""
        if not len(X):
            raise ValueError("the first batch has no row of positive weight to learn from")
        found, rows, on = self._set_parts(X, y, w)
        self._report: dict[str, Any] = {
            "rows": {"seen": 0, "weight": 0.0, "batches": 0},
            "budget": {"points": 0, "replaced": 0, "last": 0},
            "drift": {"share": 0.0, "changes": 0, "rows": [], "pending": 0},
            "inference": {"name": f"sequential {found.inference}"},
            "kernel": {"rows": rows, "search": found.search, "times": 1, "again": 0, "at": 0},
            "standardize": on,
        }
        logs, self.log_evidence_ = self._learn_all(X, y, w, budget)
        self.latest_ = Latest.empty(X.shape[1]).with_rows(X, y, w, logs, self.reservoir)
        self.watch_, self.prequential_ = DriftWatch.after(logs), PrequentialValues()
        self._freeze()

    def _set_parts(self, X: Array, y: Array, w: Array) -> tuple[Begin, int, bool]:
        """Learn units, kernel and noise from rows, and begin again with a prior.

        Return the parts, of how many rows, and whether these were standardised.
        """
        d = X.shape[1]
        kernel, named = resolve_kernel(self.kernel, getattr(self, "feature_names_in_", None), d)
        if positional(kernel):
            raise ValueError(
                "a stream needs a kernel of the inputs: precomputed values and noise parts depend "
                "on which row it is; give a kernel without them, and a noise"
            )
        loss, on = given_loss(self.loss), standardizes(self.standardize, named)
        some = self._spread_rows(len(X), most_rows(self.reservoir))
        units = no_units(d, 1)
        if on:
            shift, scale = location_scale(X, w)
            table = build_table(X, y[:, None], w, by_row=True, flat=True, arrays=0)
            units = Units(shift, scale, *target_units(loss, table))
        inside = units.standardised(X[some])
        target = moderate_targets(y, units)[some]
        found = begun(self, kernel, named, loss, inside, target, w[some], float(units.y_scale[0]))
        require_moderate(found.kernel, units.standardised(X))
        self.units_, self.losses_ = units, [found.loss]
        self.kernel_ = units.kernel_in_user_units(found.kernel)
        self.loss_ = units.loss_in_user_units(found.loss)
        self.posteriors_ = [InducedStream.empty(found.kernel, d)]
        self.scale_ = NoiseLevel(known=found.known)
        self.spread_ = None
        if self.calibration is not None and not found.known:
            at, unit = location_scale(target[:, None], w[some])
            self.spread_ = NoiseByLevel(float(at[0]), float(unit[0]))
        return found, len(some), on

    @staticmethod
    def _spread_rows(n: int, most: int) -> Index:
        """Return at most so many of n rows, evenly spread."""
        return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))

    def _learn_all(self, X: Array, y: Array, w: Array, budget: int) -> tuple[Array, float]:
        """Learn rows with the parts there are, from nothing, on points that are evenly spread.

        Return their log densities (n,), each before its block, and that of all together.
        """
        inside, stream = self.units_.standardised(X), self.stream_
        chosen = self._spread_rows(len(X), budget)
        points = inside[chosen]
        for i in range(0, len(points), BLOCK):
            stream = stream.grown(points[i : i + BLOCK])
        self._raise_noise(stream, np.delete(inside, chosen, axis=0))
        self.posteriors_, logs, value = [stream], np.empty(len(X)), 0.0
        for i in range(0, len(X), BLOCK):
            part = slice(i, i + BLOCK)
            block = self._absorb(inside[part], y[part], w[part])
            logs[part], value = block.logs, value + block.value
        return logs, value

    def _raise_noise(self, stream: InducedStream, others: Array) -> None:
        """Raise a learned noise to what the points leave unknown of rows that are no points.

        From a smaller one the points would have to follow what they cannot: theory, "Schedule".
        """
        [loss], told = self.losses_, self._report["kernel"]
        self._report = self._report | {"kernel": told | {"noise_raised": False}}
        if not len(others) or self.scale_.known or not isinstance(loss, Gaussian):
            return
        some = others[self._spread_rows(len(others), BLOCK)]
        left = float(np.mean(stream.ahead(some).residual))
        if left > float(loss.noise):
            self.losses_ = [loss.replaced({"noise": left})]
            self.loss_ = self.units_.loss_in_user_units(self.losses_[0])
            self._report = self._report | {"kernel": told | {"noise_raised": True}}

    def _absorb(self, inside: Array, y: Array, w: Array) -> Foreseen:
        """Learn one block of rows; return what was known of them before."""
        target = self.units_.y_standardised(y[:, None])[:, 0]
        spread = None if self.calibration is None else self.spread_
        stream, self.scale_, self.spread_, block = absorbed(
            self.stream_, self.scale_, spread, self.losses_[0], inside, target, w
        )
        self.posteriors_ = [stream]
        unit = float(np.log(self.units_.y_scale[0]))
        return block.in_units(unit, float(self.units_.y_scale[0]), float(w.sum()))

    def _step(
        self, X: Array, y: Array, w: Array, forget: float, drift: float | None, budget: int
    ) -> None:
        """Learn one batch of a stream that has begun."""
        inside = self.units_.standardised(X)
        require_moderate(self.stream_.kernel, inside)
        target = moderate_targets(y, self.units_)
        b, share, surprise = len(X), drift, 0.0
        if share is None:
            first = slice(0, BLOCK)
            parts = (self.stream_, self.scale_, self.losses_[0])
            share, surprise = likely_drift(*parts, inside[first], target[first], w[first])
        stream = self.stream_.drift(share)
        value, figures = self.log_evidence_ + surprise, self.prequential_
        latest, watch = self.latest_, self.watch_
        for i in range(0, b, BLOCK):
            part = slice(i, i + BLOCK)
            size = len(X[part])
            if forget < 1.0:
                kept = forget**size
                stream, _ = stream.forget(kept)
                self.scale_ = self.scale_.forget(kept)
                self.spread_ = None if self.spread_ is None else self.spread_.forget(kept)
            if len(stream.points) < budget:
                stream = stream.grown(inside[part][: budget - len(stream.points)])
            self.posteriors_ = [stream]
            age = (
                w[part] if forget == 1.0 else w[part] * forget ** np.arange(size - 1.0, -1.0, -1.0)
            )
            block = self._absorb(inside[part], y[part], age)
            stream, value = self.stream_, value + block.value
            figures = figures.add(block.logs, block.errors, w[part])
            watch = watch.given(-block.logs)
            latest = latest.with_rows(X[part], y[part], w[part], block.logs, self.reservoir)
        self.log_evidence_, self.prequential_ = value, figures
        self.latest_, self.watch_ = latest, watch
        self._report = self._report | {"drift": self._report["drift"] | {"share": share}}

    def _count(self, rows: int, weight: float) -> None:
        """Add one batch to the figures of the report, in a copy."""
        before = self._report["rows"]
        seen = {"seen": before["seen"] + rows, "weight": before["weight"] + weight}
        budget = self._report["budget"] | {"points": len(self.stream_.points)}
        self._report = self._report | {
            "rows": seen | {"batches": before["batches"] + 1}, "budget": budget
        }  # fmt: skip

    # ------------------------------------------------------------------ between batches
    def _tend(self, budget: int) -> None:
        """Learn the kernel again where that is due, and replace points that say least."""
        report, latest = self._report, self.latest_
        seen, learned = report["rows"]["seen"], report["kernel"]["rows"]
        whole = len(latest.table) == seen  # all rows are still there
        full = len(latest.table) == self.reservoir
        due = seen >= AGAIN * learned and (2 * AGAIN * learned <= self.reservoir or full)
        if self.search is not None and whole and (due or (full and learned < seen)):
            self._relearn(latest, budget)
        elif self.watch_.alarmed and not report["drift"]["pending"]:
            drift = report["drift"]
            begin = seen - self.watch_.risen
            found = {"changes": drift["changes"] + 1, "rows": [*drift["rows"], begin][-100:]}
            self._report = report | {"drift": drift | found | {"pending": begin + 1}}
        self._answer_change(budget)
        self._replace_points(budget)

    def _relearn(self, rows: Latest, budget: int) -> None:
        """Learn kernel, noise and function anew from these rows; the figures of all rows stay."""
        X, y, w = rows.X, rows.y, rows.w
        found, count, _ = self._set_parts(X, y, w)
        logs, _ = self._learn_all(X, y, w, budget)
        self.watch_, told = DriftWatch.after(logs), self._report["kernel"]
        told = told | {"rows": count, "search": found.search, "times": told["times"] + 1}
        self._report = self._report | {"kernel": told | {"at": self._report["rows"]["seen"]}}

    def _answer_change(self, budget: int) -> None:
        """Some time after a change was found: learn the rows since it, and keep what is better."""
        drift, seen = self._report["drift"], self._report["rows"]["seen"]
        since = seen - drift["pending"] + 1
        if not drift["pending"] or since < min(WAIT, self.reservoir):
            return
        before, rows = dict(vars(self)), self.latest_.last(since)
        count = 3 * len(rows.table) // 4
        if self.search is not None:
            self._relearn(rows.first(count), budget)
            test = rows.last(len(rows.table) - count)
            gained = self.predictive_log_density(test.X, test.y) - test.logs
            better = float(test.w @ gained) > 0.0
            self.__dict__.update(before)
            if better:
                self._relearn(rows, budget)
                told = self._report["kernel"]
                self._report = self._report | {"kernel": told | {"again": told["again"] + 1}}
        self.watch_ = DriftWatch()
        self._report = self._report | {"drift": self._report["drift"] | {"pending": 0}}

    def _replace_points(self, budget: int) -> None:
        """Let far rows take the place of the points that say least, once in a while."""
        report, stream = self._report, self.stream_
        told, seen, m = report["budget"], report["rows"]["seen"], len(stream.points)
        if m < budget or seen - told["last"] < PAUSE * m:
            return
        inside = self.units_.standardised(self.latest_.X)
        far = stream.ahead(inside).residual > FAR * stream.kernel.diag(inside)
        new = inside[far][-max(1, m // SHARE) :]
        told = told | {"last": seen}
        if len(new):
            keep = np.sort(np.argsort(stream.charges(), kind="stable")[len(new) :])
            before = stream.tau
            stream, _ = stream.on(np.concatenate([stream.points[keep], new]))
            self.log_evidence_ -= 0.5 * (stream.tau - before)
            self.posteriors_ = [stream]
            told |= {"replaced": told["replaced"] + len(new), "points": len(stream.points)}
        self._report = report | {"budget": told}
