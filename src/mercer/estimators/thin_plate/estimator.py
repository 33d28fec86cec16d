"""ThinPlateSpline: smooth surfaces in any number of columns, isotropic."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, as_columns
from mercer.core.basis import PolynomialBasis
from mercer.core.memory import require_memory
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.shared.machine import _leave_one_out
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import (
    Table,
    build_table,
    check_target,
    check_weights,
    read_rows,
)
from mercer.estimators.shared.units import Units, problem_inside, told_rows, told_units
from mercer.estimators.thin_plate.checks import (
    check_knots,
    check_lam,
    check_points,
    check_search,
    isotropic_units,
)
from mercer.estimators.thin_plate.forms import (
    AllContrasts,
    FewContrasts,
    Form,
    ThinPlateSmoothing,
    choose,
)
from mercer.inference.base import Report
from mercer.kernels.checks import whole
from mercer.kernels.splines.thin_plate import ThinPlate, check_order, least_order
from mercer.losses.real.gaussian import Gaussian
from mercer.search import Problem

# n x n arrays of an exact fit: G, its contrasts, eigenvectors, their workspace, the operator
ARRAYS = 7


class ThinPlateSpline(KernelRegressor):
    """Thin-plate smoothing spline, with error bars and a smoothing parameter found in one pass.

    f minimises sum_i w_i (y_i - f(x_i))^2 + lam * J_m(f), J_m the integral of all squared
    derivatives of order m, each mixed one as often as it occurs: the same in all directions, and
    zero for the polynomials of degree < m. It is the posterior mean of a Gaussian process with the
    Green's function of J_m as covariance on contrasts and a flat prior on these polynomials, so
    that everything that :class:`GPRegressor` says of its uncertainty is said here, exactly. One
    column and m = 2 is the natural cubic smoothing spline; lam = 0 interpolates.

    A column counts by its size: where columns have different units, scale them first.

    Parameters
    ----------
    order : int or None
        m, with 2 m > number d of columns; None is the smallest, at least 2. There are
        (m + d - 1)! / (m - 1)! d! polynomials of degree < m, and more distinct points are needed.
    lam : float or None
        The smoothing parameter, in your units (for d = m = 2 it is
        ``RBFInterpolator(kernel="thin_plate_spline", smoothing=8 pi lam)`` of scipy); infinity is
        the polynomial. None searches.
    search : "evidence" or "gcv"
        What lam maximises: the evidence (restricted maximum likelihood), or generalised
        cross-validation, which needs more data to be as reliable. The noise is the one of largest
        evidence, for GCV the residual variance per residual degree of freedom.
    knots : int, array (p, d) or None
        None uses all contrasts of the data: exact, O(n^3) time and O(n^2) memory. Otherwise an
        approximation for large tables: the posterior that knows the function at p points only,
        chosen among the rows so that they are spread out, or given; O(n p^2) time. What the
        points leave open stays in the error bars, and ``log_evidence_`` is a lower bound.

    Attributes
    ----------
    lam_, edf_ : float, smoothing parameter in your units and effective degrees of freedom. ``lam_``
        is infinite where the criterion is best for the polynomial itself.
    order_ : int.
    log_evidence_ : float, with a flat unit density on the coefficients of the monomials: it
        compares lam, kernels and knots, not different orders.
    kernel_, loss_, loo_, report_, posteriors_ : see :class:`KernelRegressor`.

    References
    ----------
    Rasmussen & Williams, Gaussian Processes for Machine Learning, section 6.3 and equation (6.22);
    Wahba, Spline models for observational data (1990), chapters 2 and 4; Titsias, Variational
    learning of inducing variables in sparse Gaussian processes (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import ThinPlateSpline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (80, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=80)
    >>> model = ThinPlateSpline().fit(X, y)
    >>> mean, std = model.predict([[0.5, 0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0) * 0.5) < 0.1)
    True
    >>> bool(0.05 < np.sqrt(model.loss_.noise) < 0.15)
    True
    """

    kernel: Any = None  # no parameter here: the order says what is smooth

    def __init__(
        self,
        order: int | None = None,
        *,
        lam: float | None = None,
        search: str = "evidence",
        knots: Any = None,
    ) -> None:
        self.order = order
        self.lam = lam
        self.search = search
        self.knots = knots

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check_target(y)
        X, y = read_rows(self, X, y, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        d = X.shape[1]
        m = max(2, least_order(d)) if self.order is None else whole(self, "order", 1)
        check_order(m, d)
        lam, criterion = check_lam(self.lam), check_search(self.search)
        basis = PolynomialBasis(m - 1)
        exact = self.knots is None
        table = build_table(
            X, as_columns(y), weights, False, np.ndim(y) == 1, ARRAYS if exact else 0
        )
        check_points(table, basis, m, getattr(self, "feature_names_in_", None))
        units = isotropic_units(table, m)
        problem = _problem(table, units, basis)
        form: Form
        if exact:
            form = AllContrasts(problem, basis, m)
        else:
            knots = check_knots(self.knots, lam, problem, units, basis.size(d))
            require_memory(len(knots), ARRAYS, "a spline on knots", "choose")
            form = FewContrasts(problem, basis, m, knots)
        chosen = choose(form, lam, criterion, float(units.x_scale[0]) ** (2 * m - d))
        self._conclude(form, table, units, chosen)
        return self

    def _conclude(self, form: Form, table: Table, units: Units, chosen: ThinPlateSmoothing) -> None:
        problem, (v, lam) = form.problem, (chosen.variance, chosen.lam)
        solution, posterior = form.solve(v, lam)
        loss = Gaussian(noise=v * lam)
        extra = None if form.extra is None else v * form.extra
        value = form.evidence(solution, v, lam)
        total, k = float(problem.row_weights.sum()), form.basis.size(problem.points.shape[1])
        loo = _leave_one_out(problem, loss, solution, posterior, table, units, extra)
        self.posteriors_, self.losses_ = [posterior], [loss]
        self.units_, self.flat_, self.basis_ = units, table.flat, form.basis
        # G(r / s) = s^(d - 2m) G(r) on contrasts
        d, per_output = problem.points.shape[1], float(units.y_scale[0]) ** 2
        size = v * float(units.x_scale[0]) ** (d - 2 * form.order)
        size *= per_output if len(units.y_scale) == 1 else 1.0
        self.kernel_ = size * ThinPlate(form.order)
        self.loss_ = units.loss_outside(loss)
        self.log_evidence_ = units.evidence_outside(value, total, form.basis, k)
        self.loo_, self.relevance_ = loo, None
        search = chosen.report["search"]
        if search is not None and "gcv" in search and len(units.y_scale) == 1:
            search["gcv"] *= per_output
        self.report_ = {
            **chosen.report,
            **_described(form, units, solution.report),
            "order": form.order,
        }
        if extra is not None:  # mean prior variance that the knots leave out, over the noise
            self.report_["left_out"] = float(problem.weights @ extra) / (total * v * lam)

    # ------------------------------------------------------------------ what was found
    @property
    def lam_(self) -> float:
        """The smoothing parameter, in the user's units."""
        lam = self.report_["lam"]
        return float("inf") if lam is None else float(lam)  # None: as a model file has it

    @property
    def edf_(self) -> float:
        """Effective degrees of freedom, the trace of the smoother."""
        return float(self.report_["degrees_of_freedom"])

    @property
    def order_(self) -> int:
        """The order m of the penalty."""
        return int(self.report_["order"])

    def sample_prior(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Refuse: a flat prior on the polynomials has no draws."""
        raise ValueError(
            "a thin-plate spline has a flat prior on its polynomials, from which nothing can be "
            "drawn; sample_y draws from the posterior"
        )

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        whole_text = super().summary()
        rows = [("Model", "order of the penalty", str(self.order_))]
        rows.append(("Model", "smoothing parameter lam", f"{self.lam_:.6g}"))
        if "knots" in self.report_:
            rows.append(("Model", "knots (an approximation)", str(self.report_["knots"])))
        at = next(i for i, row in enumerate(whole_text.entries) if row[0] != "Data")
        entries = (*whole_text.entries[:at], *rows, *whole_text.entries[at:])
        return Summary(whole_text.title, entries)


def _problem(table: Table, units: Units, basis: PolynomialBasis) -> Problem:
    points = units.inside(table.points)
    return problem_inside(table, units, points, basis(points))


def _described(form: Form, units: Units, inference: Report) -> dict[str, Any]:
    """What was done to the numbers, as plain values."""
    problem = form.problem
    return {
        "standardize": {"on": True} | told_units(units),
        "rows": told_rows(problem, problem.row_weights),
        "inference": {"name": "Exact", **inference.plain()},
        **form.report(),
    }
