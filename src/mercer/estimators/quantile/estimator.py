"""QuantileRegressor: quantiles of several levels that do not cross."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_pinball_score

from mercer.core.arrays import Array, location_scale
from mercer.estimators.quantile.folds import (
    folds_of,
    found_by_folds,
    left_out,
    left_out_on_landmarks,
    pinball,
)
from mercer.estimators.shared.machine import Figures, Fit, Given, KernelMachine, generator
from mercer.estimators.shared.parameters import Draw, Solved, find_parameters
from mercer.estimators.shared.parts import Parts, inducing_of
from mercer.estimators.shared.summary import Rows, machine_rows
from mercer.estimators.shared.table import Table, check_target, check_weights, read_rows
from mercer.estimators.shared.units import Units
from mercer.inference.primal import Primal
from mercer.inference.smo import SMO
from mercer.left_out.figures import LeftOut
from mercer.losses.base import is_number
from mercer.losses.real.absolute import Pinball
from mercer.process.process import Posterior

TOL = 1e-8  # of the solver, in deviations of y
LANDMARK_TOL = 1e-4  # of the solver on landmarks: the gap, relative to the objective


class QuantileRegressor(RegressorMixin, KernelMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Quantiles of y given x at several levels at once, which do not cross.

    For each level q the function f = h + b that minimises, with y in units of its deviation,

        1/2 |h|^2 + C sum_i w_i rho_q(y_i - f(x_i)),      rho_q(r) = max(q r, (q - 1) r),

    a convex problem, solved by SMO. All levels share the kernel and C, found by the pinball loss of
    rows left out in five folds. The constant b is then set so that a share q of the left-out
    rows lies below their quantile: on the rows of the fit itself quantiles lie too close together.
    Last, the quantiles of a row are put in order, which brings them nearer to the true ones, if
    anything.

    Parameters
    ----------
    levels : increasing sequence of numbers in (0, 1), or one number.
    kernel : Kernel, name, scikit-learn kernel, callable or None
        As in :class:`KernelRegressor`; None is "rbf". Variances are relative to that of y.
    C : > 0, default 1. Weight of the loss, or where the search for it begins.
    search : "left_out" (default), or None: kernel and C are taken as they are.
    gram : "auto" (all rows, exactly), "inducing" or :class:`mercer.linalg.Inducing`
        The last two are for very many rows: quantiles among the functions of few landmarks, by
        Newton steps up to a duality gap of 1e-4 of the objective.
    standardize : "auto", True or False; whether the columns are standardised inside. The target is
        always: shifting and scaling y moves the quantiles with it.
    random_state : int, RandomState, Generator or None
        For the folds; None is a fixed seed, so that fits repeat.

    Attributes
    ----------
    levels_ : (p,) the levels.
    kernel_, loss_ : the parts as found, in the user's units; the loss is that of the first level.
    left_out_ : ``quantiles`` (n, p) of each row from the other folds.
    report_ : dict; "levels" says for each level how the solver ended, by how much the constant was
        moved and the left-out loss, "crossed" on how many rows quantiles had to be put in order.
    posteriors_ : list of p posteriors, one for each level, in standardised units.
    relevance_ : (d,) inverse length scales of the standardised columns, or None.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    References
    ----------
    Takeuchi, Le, Sears & Smola (2006) for the machine; Chernozhukov, Fernandez-Val & Galichon
    (2010) for the order; Romano, Patterson & Candes (2019) for the constants.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import QuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (200, 1))
    >>> y = X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=200)
    >>> model = QuantileRegressor((0.1, 0.9)).fit(X, y)
    >>> low, high = model.predict([[0.1], [0.9]]).T
    >>> bool((high - low)[1] > 2 * (high - low)[0])
    True
    """

    _keeps_rows: ClassVar[bool] = False  # its constants come from rows left out

    def __init__(
        self,
        levels: Any = (0.1, 0.5, 0.9),
        *,
        kernel: Any = None,
        C: float = 1.0,
        search: Any = "left_out",
        gram: Any = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.levels, self.kernel, self.C, self.search = levels, kernel, C, search
        self.gram = gram
        self.standardize, self.random_state = standardize, random_state

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        estimator stays as it was.
        """
        return super().fit(X, y, sample_weight)

    def _fit_blocks(self, table: Any) -> Self:
        raise TypeError(
            "QuantileRegressor sets its constants by rows left out in folds, and a table in blocks "
            "has no folds: fit KernelRegressor(loss=mercer.losses.Pinball(level=...), search=None, "
            "gram=mercer.linalg.Inducing(m=...)) for each level, or read a sample of the rows"
        )

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        check_target(y)
        X, y = read_rows(self, X, y, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        return Given(X, y, weights, getattr(self, "feature_names_in_", None))

    def _resolve(self, given: Given) -> Parts:
        if not is_number(self.C, 0.0, np.inf):
            raise ValueError(f"C must be a positive finite number, got {self.C!r}")
        if not (self.search is None or self.search == "left_out"):
            raise ValueError(f"search must be 'left_out' or None, not {self.search!r}")
        few = inducing_of(self.gram)
        if few is None and not (isinstance(self.gram, str) and self.gram == "auto"):
            raise ValueError(
                "gram must be 'auto' (all rows, exactly), 'inducing' or "
                f"mercer.linalg.Inducing(m=...), not {self.gram!r}"
            )
        parts = self._resolved(
            given,
            loss=Pinball(float(checked_levels(self.levels)[0]), 1.0 / self.C),
            inference=SMO(tol=TOL) if few is None else Primal(tol=LANDMARK_TOL),
            search=None,
            gram="dense" if few is None else few,
            basis="constant",
        )
        if parts.named_kernel and "variance" in parts.kernel.domains:
            parts.kernel = parts.kernel.fix("variance")  # C does the same
        return parts

    def _check(self, given: Given, parts: Parts) -> None:
        super()._check(given, parts)
        if np.count_nonzero(given.weights) < 2:
            raise ValueError(
                "Found 1 sample (n_samples=1) that counts: quantiles need at least two rows"
            )

    def _units(self, given: Given, parts: Parts, table: Table) -> Units:
        units = super()._units(given, parts, table)
        y_shift, y_scale = location_scale(table.mean, table.total, table.spread)
        return replace(units, y_shift=y_shift, y_scale=y_scale)

    def _check_basis(self, H: Array) -> None:
        """One point is enough for a constant."""

    def _search(self, fit: Fit) -> None:
        levels, parts = checked_levels(self.levels), fit.parts
        kernel, loss, report = parts.kernel, cast(Pinball, parts.loss), None
        if self.search is not None:
            rng = generator(self.random_state)
            kernel, loss, report = found_by_folds(parts, fit.problem, levels, rng)
        fit.report = {}
        if parts.inducing is not None:  # the landmarks, chosen at the kernel found
            parts.kernel = kernel
            fit.report = find_parameters(parts, fit.problem, generator(self.random_state))[1]
        fit.draws = [Draw(kernel, Pinball(float(level), loss.scale)) for level in levels]
        fit.report |= {"search": report}

    def _left_out(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Figures:
        p, fold = fit.problem, folds_of(len(fit.problem.points), generator(self.random_state))
        losses = [each.loss for each in fit.draws]
        if fit.parts.inducing is not None:
            found = left_out_on_landmarks(p, fit.parts, draw.kernel, losses, fold)
        else:
            found = left_out(p, solved.gram.matrix, losses, fold, SMO(tol=TOL))
        return LeftOut(p.weights, quantiles=found)

    def _begin(self, fit: Fit) -> None:
        super()._begin(fit)
        fit.parts.loss = Pinball(cast(Pinball, fit.parts.loss).level, 1.0 / self.C)  # of any y

    def _calibrate(self, fit: Fit) -> None:
        """Move the constants to where left-out rows want them; put quantiles in order."""
        p, levels, found = fit.problem, self.levels_, cast(LeftOut, self.left_out_)
        f, raw = cast(Array, found.quantiles), np.empty((len(p.points), len(levels)))
        constant = float(cast(Array, p.basis)[0, 0])
        described = []
        for j, level in enumerate(levels):
            posterior = cast(Posterior, self.posteriors_[j])
            offset = weighted_quantile(p.y[:, 0] - f[:, j], level, p.weights)
            assert posterior.beta is not None
            posterior.beta = posterior.beta + offset / constant
            f[:, j] += offset
            raw[:, j] = posterior.mean(p.points)[:, 0]
            described.append({"level": level, "moved": offset * float(self.units_.y_scale[0])})
        g, f = p.group, np.sort(f, axis=1)
        losses = pinball(p.y, f, levels, p.weights) * float(self.units_.y_scale[0])
        for one, loss in zip(described, losses, strict=True):
            one["left_out_loss"] = float(loss)
        crossed = np.any(np.diff(raw, axis=1) < 0.0, axis=1)[g]
        fit.report |= {"levels": described, "crossed": int(crossed.sum())}
        rows = np.empty((len(fit.table.X), len(levels)))
        rows[fit.table.keep] = f[g]
        unused = fit.table.weights == 0.0
        rows[unused] = self._ordered(self.units_.standardised(fit.table.X[unused]))
        stated = self.units_.y_in_user_units(rows)
        self.left_out_ = LeftOut(fit.table.weights, quantiles=stated)
        first = self.losses_[0]
        assert isinstance(first, Pinball)
        self.loss_ = Pinball(first.level, first.scale * float(self.units_.y_scale[0]))
        self.flat_ = np.ndim(self.levels) == 0

    # ------------------------------------------------------------------ predictions
    @property
    def levels_(self) -> Array:
        """The levels (p,)."""
        return np.array([cast(Pinball, loss).level for loss in self.losses_])

    def _ordered(self, inside: Array) -> Array:
        """Return the quantiles (q, p) at standardised inputs, in standardised units."""
        each = [posterior.mean(inside)[:, 0] for posterior in self.posteriors_]
        return np.sort(np.column_stack(each), axis=1)

    def predict(self, X: Any) -> Array:
        """Return the quantiles at X (q, d): (q, p), increasing; (q,) if the level was a number."""
        inside = self._inputs(X)
        return self._shaped(self.units_.y_in_user_units(self._ordered(inside)))

    def predict_interval(self, X: Any, coverage: float = 0.8) -> tuple[Array, Array]:
        """Return (low, high), the quantiles of levels (1 - coverage)/2 and (1 + coverage)/2.

        Both must be among the levels of the fit.
        """
        inside, levels = self._inputs(X), self.levels_
        ends = (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage))
        found = [np.flatnonzero(np.abs(levels - end) < 1e-9) for end in ends]
        if not all(map(len, found)):
            wanted = ", ".join(f"{end:.6g}" for end in ends)
            known = ", ".join(f"{level:g}" for level in levels)
            raise ValueError(
                f"an interval of coverage {coverage!r} needs the levels {wanted}, and the fit has "
                f"{known}: fit QuantileRegressor(levels=({wanted}))"
            )
        quantiles = self.units_.y_in_user_units(self._ordered(inside))
        low, high = (np.asarray(quantiles[:, each[0]]) for each in found)
        return low, high

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D^2, the share of the pinball loss of constant quantiles that these save.

        1 is perfect, 0 is as good as the quantiles of y itself; the mean over the levels of
        :func:`sklearn.metrics.d2_pinball_score`.
        """
        f = np.reshape(self.predict(X), (-1, len(self.losses_)))
        each = [
            d2_pinball_score(y, f[:, j], sample_weight=sample_weight, alpha=float(level))
            for j, level in enumerate(self.levels_)
        ]
        return float(np.mean(each))

    # ------------------------------------------------------------------ what was fitted
    def _summary_rows(self) -> Rows:
        rows = [row for row in machine_rows(self) if row[1] not in ("loss", "mode")]
        crossed = self.report_["crossed"]
        levels = self.report_["levels"]
        rows.append(("Model", "levels", ", ".join(f"{level:g}" for level in self.levels_)))
        losses = ", ".join(f"{one['left_out_loss']:.4g}" for one in levels)
        moved = ", ".join(f"{one['moved']:.4g}" for one in levels)
        return [
            *rows,
            ("Quality", "left-out pinball loss of each level", losses),
            ("Numerics", "constants moved by left-out rows", moved),
            ("Numerics", "rows whose quantiles crossed before", str(crossed)),
        ]


def checked_levels(levels: Any) -> Array:
    """Return the levels (p,), or refuse them."""
    try:
        found = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    except (TypeError, ValueError):
        found = np.zeros(0)
    inside = found.ndim == 1 and len(found) and np.all((found > 0.0) & (found < 1.0))
    if not inside or np.any(np.diff(found) <= 0.0):
        raise ValueError(
            f"levels must be a number or increasing numbers between 0 and 1, got {levels!r}"
        )
    return found


def weighted_quantile(values: Array, level: float, weights: Array) -> float:
    """Return the value with a share ``level`` of the weights below; between two, their middle."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(share, [level - 1e-12, level + 1e-12])
    return float(values[order[np.minimum(at, len(order) - 1)]].mean())
