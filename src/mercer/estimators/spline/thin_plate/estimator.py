"""ThinPlateSpline: smooth surfaces in any number of columns, isotropic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array, group_rows, location_scale
from mercer.core.basis import PolynomialBasis
from mercer.core.memory import require_memory
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.shared.labels import signed_labels
from mercer.estimators.shared.machine import Fit, Given, described, of_all_rows
from mercer.estimators.shared.parameters import Draw, Solved
from mercer.estimators.shared.parts import Parts, given_loss, kept_gram
from mercer.estimators.shared.summary import Rows
from mercer.estimators.shared.table import Table, build_table, check_finite
from mercer.estimators.shared.units import Units, target_units
from mercer.estimators.spline.gaussian import check_noise
from mercer.estimators.spline.thin_plate import forms, likelihood
from mercer.inference.base import Problem
from mercer.inference.exact import Exact
from mercer.kernels.base import Kernel
from mercer.kernels.compose import Scale
from mercer.kernels.parameters import whole
from mercer.kernels.thin_plate import ThinPlate, check_order, least_order
from mercer.left_out.cavity import gaussian_figures
from mercer.left_out.figures import LeftOut
from mercer.linalg.contrasts import spread_out
from mercer.linalg.gram import Gram
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Posterior


def check_knots(knots: Any, lam: float | None, problem: Problem, units: Units, k: int) -> Array:
    """Return the inducing points (p, d) in standardised units: as many rows, or those given."""
    if lam == 0.0:
        raise ValueError(
            "lam=0 interpolates, which a few knots cannot: give lam > 0, or knots=None"
        )
    n, d = problem.points.shape
    if isinstance(knots, (int, np.integer)) and not isinstance(knots, bool):
        if not k < knots <= n:
            raise ValueError(
                f"knots must be more than the {k} unpenalised polynomials and at most the {n} "
                f"distinct points, got {knots}; knots=None is exact"
            )
        return np.ascontiguousarray(problem.points[np.sort(spread_out(problem.points, int(knots)))])
    given = np.asarray(knots)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[1] != d:
        raise ValueError(
            f"knots must be None, a number of points or an array (p, {d}) of points, got "
            f"{type(knots).__name__} of shape {given.shape}"
        )
    points = np.ascontiguousarray(given, dtype=np.float64)
    check_finite(points, "knots")
    if len(points) <= k or len(group_rows(points)[0]) < len(points):
        raise ValueError(
            f"knots must be more than {k} different points: there are {k} unpenalised polynomials"
        )
    return units.standardised(points)


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
        points leave open stays in the error bars, and ``log_evidence_`` is a lower bound (with
        other losses: an approximation).
    loss : "gaussian", "poisson", "logistic", "probit", "student_t" or a Loss, default "gaussian"
        What is observed. Other than for Gaussian noise the surface f is on the scale of the link
        (the logarithm of a rate, the logit of a probability) and minimises
        sum_i w_i g(y_i, f(x_i)) + lam/2 J_m(f), g = -log p(y given f). The loss's own parameters
        are found with lam, unless fixed. Labels are 0 and 1: ``predict`` gives the probability of
        1, ``predict_proba`` both. O(n^3) for each lam that is tried.
    inference : "auto", "laplace", "ep", "variational" or an Inference, default "auto"
        How, for other than Gaussian noise; "auto" is Laplace for a smooth convex loss.

    Attributes
    ----------
    lam_, edf_ : float, smoothing parameter in your units and effective degrees of freedom. ``lam_``
        is infinite where the criterion is best for the polynomial itself.
    order_ : int.
    log_evidence_ : float, with a flat unit density on the coefficients of the monomials: it
        compares lam, kernels and knots, not different orders.
    kernel_, loss_, left_out_, report_, posteriors_ : see :class:`KernelRegressor`.

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
    random_state: Any = None  # the search has one coordinate, and fixed starts

    def __init__(
        self,
        order: int | None = None,
        *,
        lam: float | None = None,
        search: str = "evidence",
        knots: Any = None,
        loss: Any = "gaussian",
        inference: Any = "auto",
    ) -> None:
        self.order = order
        self.lam = lam
        self.search = search
        self.knots = knots
        self.loss = loss
        self.inference = inference

    # ------------------------------------------------------------------ fit
    def _resolve(self, given: Given) -> Parts:
        """Return the kernel of the order and its polynomials; what is smooth has no name here."""
        d = given.X.shape[1]
        m = max(2, least_order(d)) if self.order is None else whole(self, "order", 1)
        check_order(m, d)
        number = isinstance(self.lam, (int, float, np.number)) and not isinstance(self.lam, bool)
        if self.lam is not None and not (number and self.lam >= 0.0):
            raise ValueError(
                f"lam must be a number >= 0, or None to search for it, not {self.lam!r}"
            )
        if not isinstance(self.search, str) or self.search not in ("evidence", "gcv"):
            raise ValueError(
                f"search must be 'evidence' or 'gcv', not {self.search!r}; give lam to search for "
                "nothing"
            )
        loss, named = given_loss(self.loss), isinstance(self.loss, str)
        if not loss.offers("quadratic"):
            return likelihood.resolve(loss, named, self.inference, self.search, self.knots, m, d)
        check_noise(loss, named, self.inference, "thin-plate", "ThinPlate.anchored(X)")
        return Parts(
            ThinPlate(m),
            Gaussian(),
            Exact(),
            None,
            PolynomialBasis(m - 1),
            kept_gram,
            named_kernel=False,
            named_loss=True,
            standardize=True,
        )

    def _targets(self, given: Given, parts: Parts) -> Array:
        binary = parts.loss.response == "binary"
        return super()._targets(
            replace(given, y=signed_labels(given.y)) if binary else given, parts
        )

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        flat, arrays = np.ndim(given.y) == 1, forms.ARRAYS if self.knots is None else 0
        alike = "quadratic" not in parts.inference.needs
        table = build_table(given.X, Y, given.weights, False, flat, arrays, alike)
        n, d = table.points.shape
        k, names = cast(PolynomialBasis, parts.basis).size(d), given.names
        if n <= k:
            raise ValueError(
                f"a thin-plate spline of order {likelihood.order(parts)} in {d} columns leaves {k} "
                f"polynomials unpenalised, and needs more distinct inputs than that: n_samples={n},"
                f" a minimum of {k + 1} is required; give more points or fewer columns, or use "
                "GPRegressor"
            )
        for j in np.flatnonzero(np.ptp(table.points, axis=0) == 0.0):
            label = repr(str(names[j])) if names is not None else str(j)
            raise ValueError(
                f"column {label} is constant: how the function varies along it cannot be learned; "
                "drop the column"
            )
        return table

    def _units(self, given: Given, parts: Parts, table: Table) -> Units:
        """Return units with the same scale for all columns, so that directions stay alike."""
        shift, scale = location_scale(table.points, table.total)
        top, d = float(scale.max()), len(scale)
        common = top * float(np.sqrt(np.mean((scale / top) ** 2)))
        y_shift, y_scale = target_units(parts.loss, table)
        with np.errstate(over="ignore"):
            power = np.float64(common) ** (2 * likelihood.order(parts) - d)
            sizes = np.append(y_scale**2, power)
        if not np.all((sizes > 1e-140) & (sizes < 1e140)):
            raise ValueError(
                "inputs or targets are so large or so small that their powers leave the range of "
                "floating-point numbers; give them in other units"
            )
        return Units(shift, np.full(d, common), y_shift, y_scale)

    def _inputs(self, X: Any) -> Array:
        inside = super()._inputs(X)
        if np.abs(inside).max(initial=0.0) > 1e50:
            raise ValueError(
                "rows of X lie so far from those of the fit that powers of their distance leave "
                "the range of floating-point numbers; check their units"
            )
        return inside

    def _begin(self, fit: Fit) -> None:
        """Anchor the kernel; for Gaussian noise nothing: variance and noise are found with lam."""
        if "quadratic" not in fit.parts.inference.needs:
            likelihood.begin(fit, None if self.lam is None else float(self.lam))
            super()._begin(fit)

    def _search(self, fit: Fit) -> None:
        """Find lam and the variance on the spectrum of the form: one decomposition for all."""
        if "quadratic" not in fit.parts.inference.needs:
            super()._search(fit)
            return
        problem, units = fit.problem, fit.units
        lam = None if self.lam is None else float(self.lam)
        kernel, basis = fit.parts.kernel, cast(PolynomialBasis, fit.parts.basis)
        d = problem.points.shape[1]
        form: forms.Form
        if self.knots is None:
            form = forms.AllContrasts(problem, basis, kernel)
        else:
            knots = check_knots(self.knots, lam, problem, units, basis.size(d))
            require_memory(len(knots), forms.ARRAYS, "a spline on knots", "choose")
            form = forms.FewContrasts(problem, basis, kernel, knots)
        unit = float(units.x_scale[0]) ** (2 * likelihood.order(fit.parts) - d)
        chosen = forms.choose(form, lam, self.search, unit)
        search = chosen.report["search"]
        if search is not None and "gcv" in search and len(units.y_scale) == 1:
            search["gcv"] *= float(units.y_scale[0]) ** 2
        v, fit.report = chosen.variance, chosen.report
        noise = Gaussian(noise=v * chosen.lam)
        fit.draws = [SplineDraw(v * kernel, noise, form=form, chosen=chosen)]

    def _posterior(self, fit: Fit, draw: Draw, solved: Solved) -> Posterior:
        if not isinstance(draw, SplineDraw):
            return super()._posterior(fit, draw, solved)
        return draw.posterior

    def _left_out(
        self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior
    ) -> LeftOut | str:
        if not isinstance(draw, SplineDraw):
            return super()._left_out(fit, draw, solved, posterior)
        found = gaussian_figures(fit.problem, draw.loss, solved.solution, draw.extra)
        return of_all_rows(found, fit.table, fit.units, draw.loss, posterior)

    def _describe(self, fit: Fit, draw: Draw, solved: Solved) -> dict[str, Any]:
        own: dict[str, Any] = {"order": likelihood.order(fit.parts)}
        if not isinstance(draw, SplineDraw):
            own["lam"] = 1.0 / likelihood.variance(fit, draw)
            return super()._describe(fit, draw, solved) | own
        report = described(fit, solved) | draw.form.report() | own
        if draw.extra is not None:  # mean prior variance beyond the knots, over the noise
            p, noise = fit.problem, float(draw.chosen.variance * draw.chosen.lam)
            total = float(p.row_weights.sum())
            report["variance_beyond_knots"] = float(p.weights @ draw.extra) / (total * noise)
        return report

    def _stated_kernel(self, fit: Fit, draw: Draw) -> Kernel:
        """G(r / s) = s^(d - 2m) G(r) on contrasts."""
        units, m = fit.units, likelihood.order(fit.parts)
        if not isinstance(draw, SplineDraw):
            return Scale(ThinPlate(m), likelihood.variance(fit, draw))
        size = draw.chosen.variance * float(units.x_scale[0]) ** (fit.table.X.shape[1] - 2 * m)
        size *= float(units.y_scale[0]) ** 2 if len(units.y_scale) == 1 else 1.0
        return Scale(ThinPlate(m), size)

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

    def _summary_rows(self) -> Rows:
        rows = super()._summary_rows()
        own = [
            ("Model", "order of the penalty", str(self.order_)),
            ("Model", "smoothing parameter lam", f"{self.lam_:.6g}"),
        ]
        if "knots" in self.report_:
            own.append(("Model", "knots (an approximation)", str(self.report_["knots"])))
        at = next(i for i, row in enumerate(rows) if row[0] != "Data")
        return [*rows[:at], *own, *rows[at:]]


@dataclass
class SplineDraw(Draw):
    """A form of the spline with the variance and the lam that were chosen."""

    form: forms.Form = field(kw_only=True)
    chosen: forms.ThinPlateSmoothing = field(kw_only=True)
    posterior: Posterior = field(init=False)  # what is solved, as a process

    @property
    def extra(self) -> Array | None:
        """Variance (n,) at the points that the form leaves out, if it does."""
        return None if self.form.extra is None else self.chosen.variance * self.form.extra

    def solve(self, parts: Parts, problem: Problem) -> Solved:
        """Return the posterior by the form; no Gram is needed."""
        v, lam, _ = self.chosen
        solution, self.posterior = self.form.solve(v, lam)
        value = self.form.evidence(solution, v, lam)
        return Solved(problem, cast(Gram, None), solution, value)  # the factor says it all
