"""SmoothingSpline: a smooth curve through noisy observations, in O(n); theory (P1), (P2)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.machine import generator
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import check_target, check_weights, read_inputs, read_rows
from mercer.estimators.shared.units import Units
from mercer.estimators.spline.checks import (
    check_derivative,
    check_ends,
    check_evidence,
    check_lam,
    check_open,
    check_order,
    check_rows,
)
from mercer.estimators.spline.gaussian import SplineSmoothing, choose, edf, log_evidence
from mercer.estimators.spline.left_out import leave_one_out
from mercer.estimators.spline.likelihood import FittedCurve, fit_curve, leave_one_out_sites
from mercer.estimators.spline.periodic import Cycle, check_period, fit_cycle
from mercer.estimators.spline.record import SplineRecord
from mercer.estimators.spline.report import describe, describe_curve, summarise_spline
from mercer.estimators.spline.response import SplineResponse, labels, resolve_response
from mercer.kernels.compose import Scale
from mercer.kernels.splines.line import Spline
from mercer.left_out.figures import LeftOut
from mercer.linalg.spline.rows import SplineRows, merge_rows
from mercer.losses.real.gaussian import Gaussian
from mercer.process.spline import SplinePosterior, derivative


class SmoothingSpline(SplineRecord, SplineResponse):
    """Smoothing spline of one column, with error bars, in O(n) time and memory.

    g minimises sum_i w_i (y_i - g(x_i))^2 + lam * integral of (g^(m))^2. It is the posterior mean
    of an integrated Wiener process with a flat prior on the polynomials of degree m - 1, so that
    everything that :class:`GPRegressor` says of its uncertainty is said here, exactly: standard
    deviations, evidence, draws, leave-one-out. Inputs may be unsorted, repeated and unevenly
    spaced. Outside the data the curve goes on as a polynomial of degree m - 1 (a straight line for
    m = 2), with deviations that grow.

    Parameters
    ----------
    order : int
        m, 1 to 6, the derivative that is penalised: 2 is the cubic spline. At least m distinct
        inputs are needed.
    lam : float or None
        The smoothing parameter in your units, as in ``scipy.interpolate.make_smoothing_spline``
        (csaps: smooth = 1 / (1 + lam)); ``numpy.inf`` is the polynomial. None searches.
    search : "evidence", "gcv" or "loo"
        What lam maximises if it is not given: the evidence (restricted maximum likelihood),
        generalised cross-validation, or the leave-one-out log density. The noise is the best by
        the same measure, for GCV the residual variance per residual degree of freedom. Other
        losses have the evidence alone.
    loss : "gaussian", "poisson", "logistic", "probit", "student_t" or a Loss
        What is observed. Other than for Gaussian noise the curve f is on the scale of the link
        (the logarithm of a rate, the logit of a probability) and minimises
        sum_i w_i g(y_i, f(x_i)) + lam/2 integral of (f^(m))^2, g = -log p(y given f). The loss's
        own parameters (scale, degrees of freedom) are found with lam, unless fixed. Labels are 0
        and 1: ``predict`` gives the probability of 1, ``predict_proba`` both.
    inference : "auto", "laplace" or "ep"
        How, for other than Gaussian noise; "auto" is Laplace, for a loss with kinks EP.
    period : float or None
        The curve repeats after ``period``: the penalty is over one period, and only the level is
        free. Gaussian noise only; O(n^3) time and O(n^2) memory.

    Attributes
    ----------
    lam_, edf_ : float, smoothing parameter in your units and effective degrees of freedom. ``lam_``
        is infinite where the criterion is best for the polynomial itself.
    log_evidence_ : float, with a flat unit density on the coefficients of x^j / j!, j < m: it
        compares lam, not different orders.
    loss_ : the loss as found; of the Gaussian noise ``loss_.noise`` is the variance.
    kernel_ : the covariance of the process, of variance noise / lam, or 1 / lam for other losses.
    loo_ : leave-one-out mean, variance, log_density of every row.
    report_ : dict, what was done to the numbers.
    n_features_in_, feature_names_in_

    Notes
    -----
    A row of weight w counts as w equal rows, here as in all of mercer: for known relative
    precisions give weights of mean one. The computation is a square-root information filter that
    starts exactly diffuse and divides by no gap, so that near-coincident points, long gaps and
    large lam cost no digits.

    Student's t is not convex. Its mode is found as it is, but the spread about it is that of the
    expected curvature (the Fisher information): the filter knows no negative precisions. The report
    says so. Labels that a polynomial of degree m - 1 separates, or counts that are zero nearly
    everywhere, have no curve, and are refused.

    References
    ----------
    Rasmussen & Williams, Gaussian Processes for Machine Learning, section 6.3; Wahba, Spline
    models for observational data (1990); Bierman, Factorization methods for discrete sequential
    estimation (1977).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SmoothingSpline
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, 500)
    >>> y = np.sin(x) + 0.3 * rng.normal(size=500)
    >>> spline = SmoothingSpline().fit(x[:, None], y)
    >>> mean, std = spline.predict_latent([[5.0]])
    >>> bool(abs(mean[0] - np.sin(5.0)) < 3 * std[0] < 0.3)
    True
    >>> bool(abs(spline.derivative([[5.0]])[0] - np.cos(5.0)) < 0.3)
    True
    >>> bool(abs(spline.integral(0.0, np.pi) - 2.0) < 0.1)
    True
    """

    kernel: Any = None  # no parameter here: the order says what is smooth

    def __init__(
        self,
        order: int = 2,
        *,
        lam: float | None = None,
        search: str = "evidence",
        loss: Any = "gaussian",
        inference: Any = "auto",
        period: float | None = None,
    ) -> None:
        self.order = order
        self.lam = lam
        self.search = search
        self.loss = loss
        self.inference = inference
        self.period = period

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    # ------------------------------------------------------------------ fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check_target(y)
        X, y = read_rows(self, X, y, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        x = self._column(X)
        m, search = check_order(self.order), self.search
        lam = check_lam(self.lam, search)
        loss, inference = resolve_response(self.loss, self.inference)
        # copies: what is kept must not change with the caller's arrays
        x, y, weights = np.array(x), np.array(y, dtype=np.float64), weights.copy()
        if self.period is not None:
            period = check_period(self.period, search, loss)
            self._conclude_cycle(fit_cycle(x, y, weights, m, lam, search, period))
            return self
        if loss is not None and inference is not None:
            check_evidence(search, loss)
            y = loss.check_targets(labels(y) if loss.response == "binary" else y)
            named = isinstance(self.loss, str)
            curve = fit_curve(x, y, weights, m, lam, loss, named, inference)
            self._conclude_curve(curve)
            self.report_ = describe_curve(curve)
            return self
        rows = merge_rows(x, y, weights)
        check_rows(rows, m, lam)
        power = 2 * m - 1
        log_lam = None if lam is None else float(np.log(lam)) - power * float(np.log(rows.unit))
        self._conclude(rows, m, choose(rows, m, log_lam, search))
        return self

    def _conclude(self, rows: SplineRows, m: int, chosen: SplineSmoothing) -> None:
        with np.errstate(over="ignore"):
            lam = float(np.exp(chosen.log_lam + (2 * m - 1) * np.log(rows.unit)))
        self.lam_ = lam if self.lam is None else float(self.lam)
        self.edf_ = edf(rows, chosen.states)
        self.log_evidence_ = log_evidence(rows, chosen, m)
        self._restore(rows, chosen.states, chosen.noise)
        self.report_ = describe(rows, m, chosen, self.lam_, self.edf_)

    def _restore(self, rows: SplineRows, states: Any, noise: float) -> None:
        """Set everything that follows from the rows, the states, the noise and ``lam_``."""
        variance = rows.y_scale**2 * noise
        self.posteriors_ = [SplinePosterior(rows, states, noise)]
        self.losses_, self.loss_ = [Gaussian(noise=noise)], Gaussian(noise=variance)
        self.units_ = Units(
            np.zeros(1), np.ones(1), np.array([rows.y_shift]), np.array([rows.y_scale])
        )
        self.flat_, self.basis_ = True, PolynomialBasis(states.order - 1)
        self.kernel_ = Scale(Spline(states.order, float(rows.points[0])), variance / self.lam_)
        self.relevance_ = None
        self._left: LeftOut | None = None

    def _conclude_curve(self, curve: FittedCurve) -> None:
        """Set everything that follows from a curve with another loss."""
        rows, states = curve.rows, curve.states
        self.lam_, self.edf_, self.log_evidence_ = curve.lam, curve.edf, curve.log_evidence
        self._restore(rows, states, 1.0)
        self.losses_, self.loss_ = [curve.loss], curve.loss
        self.kernel_ = Scale(Spline(states.order, float(rows.points[0])), 1.0 / self.lam_)

    def _conclude_cycle(self, cycle: Cycle) -> None:
        """Set everything that follows from a periodic curve."""
        self.lam_, self.log_evidence_ = cycle.lam, cycle.log_evidence
        self.edf_ = float(cycle.report["degrees_of_freedom"])
        self.posteriors_, self.losses_ = [cycle.posterior], [cycle.loss]
        self.units_, self.flat_, self.basis_ = cycle.units, True, cycle.basis
        self.kernel_, self.relevance_ = cycle.kernel, None
        outside = cycle.units.loss_outside(cycle.loss)
        assert isinstance(outside, Gaussian)
        self.loss_, self._left, self.report_ = outside, cycle.left_out, cycle.report

    @property
    def left_out_(self) -> LeftOut:  # computed when it is asked for: many fits never need it
        """Leave-one-out mean, variance and log_density of every row, in the order of ``fit``."""
        check_is_fitted(self, "posteriors_")
        if self._left is None:
            spline, loss = self._spline, self.losses_[0]
            if loss.offers("quadratic"):
                self._left = leave_one_out(spline.rows, spline.states, spline.noise_variance)
            else:
                self._left = leave_one_out_sites(spline, loss)
        return self._left

    @left_out_.setter
    def left_out_(self, found: LeftOut | None) -> None:
        self._left = found

    # ------------------------------------------------------------------ the curve
    def derivative(self, X: Any, order: int = 1, return_std: bool = False) -> Any:
        """Return the derivative of the curve at X (q, 1), and its standard deviation if asked.

        With another loss than Gaussian noise the curve is the latent one, on the scale of the link.

        ``order`` 0 is the curve itself. The mean is a piecewise polynomial and has derivatives up
        to 2m - 1 (zero beyond); the process has m - 1, so that deviations exist below order m. One
        call is O(n + q) between the inputs: ask for all places at once.
        """
        check_is_fitted(self, "posteriors_")
        check_open(self.report_)
        x = self._inputs(X)[:, 0]
        k = check_derivative(order, self._spline.states.order, return_std)
        value, variance = derivative(self._spline, x, k, return_std)
        scale = self.units_.y_scale[0]
        value *= scale
        if k == 0:
            value += self.units_.y_shift[0]
        if variance is None:
            return value
        return value, np.sqrt(self._spline.noise_variance * variance) * scale

    def integral(self, a: float, b: float) -> float:
        """Return the integral of the curve from a to b; beyond the data of its continuation."""
        check_is_fitted(self, "posteriors_")
        check_open(self.report_)
        ends = check_ends(a, b)
        low, high = self._spline.states.integral(ends)
        shift, scale = self.units_.y_shift[0], self.units_.y_scale[0]
        return float(scale * (high - low) + shift * (ends[1] - ends[0]))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw curves from the posterior at X (q, 1): (q, n_samples), exactly and in O(n) each."""
        inside = self._inputs(X)
        if "period" in self.report_:
            return super().sample_y(X, n_samples, random_state)
        drawn = self._spline.sample(inside, n_samples, generator(random_state))[:, 0]
        return np.asarray(drawn * self.units_.y_scale[0] + self.units_.y_shift[0])

    def sample_prior(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Refuse: a flat prior on the polynomials has no draws."""
        raise ValueError(
            "a smoothing spline has a flat prior on its polynomials, from which nothing can be "
            "drawn; sample_y draws from the posterior"
        )

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        return summarise_spline(self, super().summary())

    # ------------------------------------------------------------------ helpers
    @property
    def _spline(self) -> SplinePosterior:
        spline: Any = self.posteriors_[0]
        return spline  # type: ignore[no-any-return]  # set in _restore

    def _inputs(self, X: Any) -> Array:
        check_is_fitted(self, "posteriors_")
        return self.units_.inside(self._column(read_inputs(self, X))[:, None])

    def _column(self, X: Array) -> Array:
        """Return the one column of X (n, 1) as (n,), or refuse several."""
        if X.shape[1] != 1:
            raise ValueError(
                f"a smoothing spline has one column and X has {X.shape[1]}; choose one, use "
                "ThinPlateSpline for a surface, or GPRegressor with a sum of kernels on columns"
            )
        return np.ascontiguousarray(X[:, 0])
