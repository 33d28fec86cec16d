"""MultiOutputGPRegressor: outputs that learn from each other, some of them missing in some rows."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mercer.core.arrays import Array, as_columns, location_scale
from mercer.core.kinds import PartOf, Plain, PlainReport, Record
from mercer.core.record import COLUMNS, EstimatorOf, Maybe, Recorded
from mercer.estimators.gaussian_process.ranks import by_column, by_rank
from mercer.estimators.gaussian_process.regressor import GPRegressor
from mercer.estimators.shared.parts import positional, standardizes, start_length
from mercer.estimators.shared.predictions import Predicts
from mercer.estimators.shared.record import LEFT_OUT, UNITS, check_left_out
from mercer.estimators.shared.summary import Rows, Summarised, machine_rows
from mercer.estimators.shared.table import check_target, read_rows, restored_on_error
from mercer.estimators.shared.units import Units, described_density, no_units
from mercer.kernels import as_kernel
from mercer.kernels.base import Kernel
from mercer.kernels.equality import Coregionalised
from mercer.kernels.stationary.base import tied_scales
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Process
from mercer.search import Search


class MultiOutputGPRegressor(RegressorMixin, Summarised, Predicts, Recorded, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Gaussian process regression of several outputs that learn from each other.

    The functions f_1 .. f_m have the covariance B_jl k(x, z), B = A A' + diag(own) (m, m), and each
    output its own noise. An output that is dear to measure borrows from those that are cheap:
    entries of y may be missing (NaN), row by row. Everything maximises the log evidence, and is
    exact. Where all outputs are observed in all rows it costs m factorisations of n rows, else one
    of all observed entries.

    Parameters
    ----------
    kernel : Kernel, name or None
        What is smooth, the same for all outputs; None is "rbf". Variances are those of B. By name
        it starts at the data's own length scale and gets one per column only if the log evidence
        gains more than (log n)/2 for each.
    rank : "auto" or int
        How many functions the outputs share, the columns of A; 0 is none, and m - 1 the most.
        "auto" adds them one by one, while the log evidence gains more than (log N)/2 for each
        parameter, N the number of observed entries.
    search : "evidence", None (the kernel as given, with rank and variances where a search would
        begin) or Search
    standardize : "auto", True or False, see :class:`KernelRegressor`; outputs always are.
    random_state : int, RandomState, Generator or None; None is a fixed seed.

    Attributes
    ----------
    kernel_ : Coregionalised, of rows (x, number of the output), in your units.
    output_covariance_, output_correlation_ : (m, m), B and what it is of unit variances.
    noise_ : (m,) variance of one observation of each output.
    rank_ : int, the number of shared functions.
    log_evidence_ : float, log density of all observed entries.
    left_out_ : leave-one-out mean, variance (n, m), each entry predicted from all other entries,
        those of its own row included; ``log_density`` is 0 where y is missing.
    machine_ : the :class:`GPRegressor` of the rows (x, j), standardised.
    report_, posteriors_, n_features_in_, feature_names_in_ : see :class:`KernelRegressor`.

    References: Bonilla, Chai and Williams, Multi-task Gaussian process prediction (2008); Alvarez,
    Rosasco and Lawrence, Kernels for vector-valued functions (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MultiOutputGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0, 10, 60)[:, None]
    >>> f = np.sin(2.0 * x[:, 0])
    >>> Y = np.column_stack([f, 2.0 - 3.0 * f]) + 0.1 * rng.normal(size=(60, 2))
    >>> Y[30:, 1] = np.nan  # the second output is known in the first half only
    >>> model = MultiOutputGPRegressor().fit(x, Y)
    >>> bool(abs(model.predict([[8.0]])[0, 1] - (2.0 - 3.0 * np.sin(16.0))) < 0.5)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        rank: int | str = "auto",
        search: Any = "evidence",
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel, self.rank, self.search = kernel, rank, search
        self.standardize, self.random_state = standardize, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from X (n, d) and y (n, m), NaN where an output is missing; y (n,) is one output.

        There are no weights, as the noise of each output is a part of the kernel: give a row that
        counts twice two times. If anything fails, the estimator stays as it was.
        """
        with restored_on_error(self):
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        X, Y, flat = self._read(X, y)
        search = Search.given(self.search)
        names = getattr(self, "feature_names_in_", None)
        kernel, named = self._kernel(names, X.shape[1])
        units = self._units(X, Y, standardizes(self.standardize, named))
        inside, Z = units.standardised(X), units.y_standardised(Y)
        kernel = kernel.frozen(inside)
        if named:
            start_length(kernel, inside, np.ones(len(X)))
        fitted = partial(self._machine, inside, Z)
        machine, tried = by_rank(fitted, kernel, Z, self.rank, search)
        report: dict[str, Any] = {"rank": tried}
        if named and search is not None and X.shape[1] > 1 and tied_scales(kernel):
            machine, report["ard"] = by_column(fitted, machine, X.shape[1], Z, search)
        self._state_of(X, Y, units, machine, report, flat)
        return self

    def _read(self, X: Any, y: Any) -> tuple[Array, Array, bool]:
        """Return X (n, d), Y (n, m) with NaN, and whether y is a vector."""
        given = np.asarray(y)  # None has no dimension
        if given.ndim != 2 or given.shape[1] < 2:
            check_target(y)
            X, y = read_rows(self, X, y, multi_output=True, y_numeric=True)
            return X, as_columns(y), np.ndim(y) == 1
        try:
            Y = np.array(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must be numbers, NaN where one is missing: {error}") from error
        known = ~np.isnan(Y)
        X, _ = read_rows(self, X, np.where(known, Y, 0.0), multi_output=True, y_numeric=True)
        counts = known.sum(axis=0)
        if counts.min() < 2:
            j = int(np.argmin(counts))
            raise ValueError(
                f"output {j} of y has {counts[j]} values that are not NaN: at least two are needed "
                "to learn its scale; leave the output out"
            )
        return X, Y, False

    def _kernel(self, names: Any, d: int) -> tuple[Kernel, bool]:
        """Return the kernel of x, and whether it came by name."""
        named = self.kernel is None or isinstance(self.kernel, str)
        kernel = as_kernel("rbf" if self.kernel is None else self.kernel).__sklearn_clone__()
        if positional(kernel) or kernel.pairwise or kernel.separate:
            raise ValueError(
                "several outputs share one kernel of the inputs, and have noise of their own: give "
                "a kernel without noise parts and without a matrix of values"
            )
        return kernel.resolve(None if names is None else [str(n) for n in names], d), named

    @staticmethod
    def _units(X: Array, Y: Array, standardize: bool) -> Units:
        plain = no_units(X.shape[1], Y.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            shift, scale = np.nanmean(Y, axis=0), np.nanstd(Y, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        if not np.all((scale > 1e-140) & (scale < 1e140)):
            raise ValueError("the squares of the targets leave the range of numbers: change units")
        x = location_scale(X, np.ones(len(X))) if standardize else (plain.x_shift, plain.x_scale)
        return Units(*x, shift, scale)

    def _machine(self, X: Array, Z: Array, kernel: Kernel, search: Search | None) -> GPRegressor:
        """Return a fitted machine of the rows (x, j) whose output is known."""
        rows, outputs = np.nonzero(~np.isnan(Z))
        machine = GPRegressor(
            kernel,
            loss=Gaussian(0.0),
            search=search,
            standardize=False,
            random_state=self.random_state,
        )
        return machine.fit(np.column_stack([X[rows], outputs]), Z[rows, outputs])

    def _state_of(
        self, X: Array, Y: Array, units: Units, machine: GPRegressor, report: Any, flat: bool
    ) -> None:
        """Set the fitted attributes, in the user's units."""
        known, kernel = ~np.isnan(Y), machine.kernel_
        assert isinstance(kernel, Coregionalised)
        scale = units.y_scale
        inner = kernel.kernel
        if np.any(units.x_shift) or np.any(units.x_scale != 1.0):
            inner = inner.in_units(units.x_shift, units.x_scale)
        A = None if kernel.loadings is None else kernel.loadings * scale[:, None]
        assert kernel.noise is not None
        self.kernel_ = Coregionalised(inner, A, kernel.own * scale**2, kernel.noise * scale**2)
        self.machine_, self.units_, self.flat_ = machine, units, flat
        change = float(known.sum(axis=0) @ np.log(scale))
        self.log_evidence_ = (
            None if machine.log_evidence_ is None else machine.log_evidence_ - change
        )
        self.left_out_ = self._left_out(X, Y, machine.left_out_)
        used = {"used": len(X), "distinct": len(X), "weight": float(len(X))}
        names = ("x_shift", "x_scale", "y_shift", "y_scale")
        stated = {name: getattr(units, name).tolist() for name in names}
        measure = "density of the targets"
        filled = np.where(known, Y, 0.0)
        self.report_ = (
            machine.report_
            | report
            | {
                "rows": used | {"entries": int(known.sum()), "missing": int((~known).sum())},
                "standardize": {"on": True} | stated,
                "density": described_density(X, filled, np.ones(len(X)), measure, measure, None),
            }
        )

    def _left_out(self, X: Array, Y: Array, found: LeftOut | None) -> LeftOut | None:
        if found is None:
            return None
        known, scale = ~np.isnan(Y), self.units_.y_scale
        mean, std = self._of_rows(*self._for_outputs(self.units_.standardised(X)))
        variance, density = np.square(std), np.zeros(Y.shape)
        for into, values in (
            (mean, found.mean),
            (variance, found.variance),
            (density, found.log_density),
        ):
            into[known] = values
        at = known * 1.0
        mean = np.where(known, self.units_.y_in_user_units(mean), mean)
        variance = np.where(known, variance * scale**2, variance)
        density = density - at * np.log(scale)
        if self.flat_:
            mean, variance, density = mean[:, 0], variance[:, 0], density[:, 0]
        return LeftOut(np.ones(len(X)), mean, variance, density)

    # ------------------------------------------------------------------ what was learned
    @property
    def posteriors_(self) -> list[Process]:
        """The posterior of the rows (x, j), standardised."""
        return self.machine_.posteriors_

    @property
    def loss_(self) -> Loss:
        """The loss of the machine inside, whose noise is that of the kernel."""
        return self.machine_.loss_

    basis_ = None

    @property
    def rank_(self) -> int:
        """How many functions the outputs share."""
        check_is_fitted(self, "machine_")
        return 0 if self.kernel_.loadings is None else self.kernel_.loadings.shape[1]

    @property
    def loo_(self) -> LeftOut | None:
        """Another name of ``left_out_``."""
        return self.left_out_

    @property
    def noise_(self) -> Array:
        """The noise variance of each output (m,)."""
        check_is_fitted(self, "machine_")
        return np.asarray(self.kernel_.noise)

    @property
    def output_covariance_(self) -> Array:
        """B (m, m): the covariance of the outputs' functions at a place where k(x, x) = 1."""
        check_is_fitted(self, "machine_")
        return self.kernel_.covariance

    @property
    def output_correlation_(self) -> Array:
        """The correlation (m, m) of the outputs' functions."""
        B = self.output_covariance_
        root = np.sqrt(np.diagonal(B))
        return np.asarray(B / np.outer(root, root))

    def _parameter_words(self) -> dict[str, str]:
        return {}

    def _summary_rows(self) -> Rows:
        text = ("inputs in {units}, outputs standardised", "{units}")
        rows = [
            (section.replace(*text), label, value) for section, label, value in machine_rows(self)
        ]
        table = "; ".join(" ".join(f"{v:.2f}" for v in line) for line in self.output_correlation_)
        return [
            *rows,
            ("Outputs", "shared functions", str(self.rank_)),
            ("Outputs", "correlation", table),
        ]

    # ------------------------------------------------------------------ predictions
    def _long(self, X: Any) -> tuple[Array, int]:
        """Return the rows (x, j) of X for all outputs, in the units of the machine."""
        check_is_fitted(self, "machine_")
        return self._for_outputs(self._inputs(X))

    def _for_outputs(self, inside: Array) -> tuple[Array, int]:
        m = len(self.units_.y_scale)
        return np.column_stack(
            [np.repeat(inside, m, axis=0), np.tile(np.arange(m), len(inside))]
        ), m

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and deviation (q, m) of a new observation."""
        return self._of_rows(*self._long(X))

    def _of_rows(self, rows: Array, m: int) -> tuple[Array, Array]:
        mean, std = (a.reshape(-1, m) for a in self.machine_.predict(rows, return_std=True))
        return self.units_.y_in_user_units(mean), std * self.units_.y_scale

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the mean (q, m), and the deviation of a new observation if asked."""
        if not return_std:
            rows, m = self._long(X)
            mean = self.machine_.predict(rows).reshape(-1, m)
            return self._shaped(self.units_.y_in_user_units(mean))
        mean, std = self._moments(X)
        return self._shaped(mean), self._shaped(std)

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and deviation (q, m) of the functions, noise left out."""
        rows, m = self._long(X)
        mean, std = self.machine_.predict_latent(rows)
        assert std is not None
        stated = self.units_.y_in_user_units(mean.reshape(-1, m))
        return self._shaped(stated), self._shaped(std.reshape(-1, m) * self.units_.y_scale)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return (low, high), (q, m) each, that hold a new observation of each output."""
        rows, m = self._long(X)
        ends = self.machine_.predict_interval(rows, coverage)
        low, high = (self._shaped(self.units_.y_in_user_units(e.reshape(-1, m))) for e in ends)
        return low, high

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log p(y_ij | x_i, training data), (q, m); NaN where y is."""
        check_consistent_length(X, y)
        target = as_columns(np.asarray(y, dtype=np.float64))
        mean, std = self._moments(X)
        if target.shape != mean.shape:
            raise ValueError(f"y has {target.shape[1]} outputs, the model has {mean.shape[1]}")
        z = (target - mean) / std
        return self._shaped(-0.5 * (np.square(z) + np.log(2.0 * np.pi)) - np.log(std))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw the functions of all outputs together at X: (q, m, n_samples), (q, n_samples)."""
        rows, m = self._long(X)
        draws = self.machine_.sample_y(rows, n_samples, random_state).reshape(-1, m, n_samples)
        stated = draws * self.units_.y_scale[:, None] + self.units_.y_shift[:, None]
        return self._shaped(stated)

    # ------------------------------------------------------------------ files
    @classmethod
    def _record(cls) -> Record:
        return {
            **COLUMNS,
            "units_": UNITS,
            "kernel_": PartOf(Kernel),
            "flat_": Plain(bool),
            "log_evidence_": Maybe(Plain(float, finite=False)),
            "report_": PlainReport(),
            "left_out_": Maybe(LEFT_OUT),
            "machine_": EstimatorOf(GPRegressor),
        }

    def _check_fitted(self) -> None:
        """Refuse a machine of other outputs or columns than those stated."""
        m, d = len(self.units_.y_scale), len(self.units_.x_scale)
        kernels = (self.kernel_, self.machine_.kernel_)
        fits = all(isinstance(k, Coregionalised) and len(k.own) == m for k in kernels)
        if not fits or self.machine_.n_features_in_ != d + 1 or (self.flat_ and m != 1):
            raise ValueError("the parts of the model do not belong to its outputs")
        check_left_out(self.left_out_, self.flat_)
