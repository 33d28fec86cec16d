"""SmoothingSpline: a smooth curve through noisy observations, in O(n); theory (P1), (P2)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.shared.machine import generator
from mercer.estimators.shared.table import check_target, check_weights, read_inputs, read_rows
from mercer.estimators.spline.checks import (
    check_derivative,
    check_ends,
    check_lam,
    check_open,
    check_order,
    check_period,
    labels,
    resolve_response,
)
from mercer.estimators.spline.gaussian import GaussianCurve
from mercer.estimators.spline.left_out import leave_one_out, response_moments
from mercer.estimators.spline.likelihood import LikelihoodCurve
from mercer.estimators.spline.periodic import PeriodicCurve
from mercer.estimators.spline.strategy import FittedSpline, SplineRecord, SplineStrategy
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.process.spline import SplinePosterior, derivative


def _has_labels(spline: Any) -> bool:
    """Whether the loss, of the fit or as given, is one of labels."""
    loss = getattr(spline, "loss_", spline.loss)
    found = Loss.by_name(loss) if isinstance(loss, str) else loss
    return getattr(found, "response", None) == "binary"


class SmoothingSpline(SplineRecord, KernelRegressor):
    """Smoothing spline of one column, with error bars, in O(n) time and memory.

    g minimises sum_i w_i (y_i - g(x_i))^2 + lam * integral of (g^(m))^2. It is the posterior mean
    of an integrated Wiener process with a flat prior on the polynomials of degree m - 1, so that
    all that :class:`GPRegressor` states about its uncertainty is available here, exactly: standard
    deviations, evidence, draws, leave-one-out. Inputs may be unsorted, repeated and unevenly
    spaced. Outside the data the curve goes on as a polynomial of degree m - 1 (a straight line for
    m = 2), with deviations that grow.

    Parameters
    ----------
    order : int from 1 to 6, default 2
        m, the derivative that is penalised: 2 is the cubic spline. At least m distinct inputs are
        needed.
    lam : float > 0 or None, default None
        The smoothing parameter in your units, as in ``scipy.interpolate.make_smoothing_spline``
        (csaps: smooth = 1 / (1 + lam)); ``numpy.inf`` is the polynomial. None searches.
    search : "evidence", "gcv" or "loo", default "evidence"
        What lam maximises if it is not given: the evidence (restricted maximum likelihood),
        generalised cross-validation, or the leave-one-out log density. The noise is the best by
        the same measure, for GCV the residual variance per residual degree of freedom. Other
        losses have the evidence alone.
    loss : "gaussian", "poisson", "logistic", "probit", "student_t" or a Loss, default "gaussian"
        What is observed. Other than for Gaussian noise the curve f is on the scale of the link
        (the logarithm of a rate, the logit of a probability) and minimises
        sum_i w_i g(y_i, f(x_i)) + lam/2 integral of (f^(m))^2, g = -log p(y given f). The loss's
        own parameters (scale, degrees of freedom) are found with lam, unless fixed. Labels are 0
        and 1: ``predict`` gives the probability of 1, ``predict_proba`` both.
    inference : "auto", "laplace", "ep" or an Inference, default "auto"
        How, for other than Gaussian noise; "auto" is Laplace, for a loss with kinks EP.
    period : float > 0 or None, default None
        The curve repeats after ``period``, in units of x: the penalty is over one period, and only
        the level is free. Gaussian noise only; O(n^3) time and O(n^2) memory.

    Attributes
    ----------
    lam_, edf_ : float, smoothing parameter in your units and effective degrees of freedom. ``lam_``
        is infinite where the criterion is best for the polynomial itself.
    log_evidence_ : float, with a flat unit density on the coefficients of x^j / j!, j < m: it
        compares lam, not different orders.
    loss_ : the loss as found; of the Gaussian noise ``loss_.noise`` is the variance.
    kernel_ : the covariance of the process, of variance noise / lam, or 1 / lam for other losses.
    left_out_ : leave-one-out mean, variance, log_density of every row; NaN where the others leave
        the curve undetermined. Computed when it is asked for. ``loo_`` is the same.
    posteriors_ : list of one process, in the units of the fit.
    report_ : dict, what was done to the numbers.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    A row of weight w counts as w equal rows, here as in all of mercer: for known relative
    precisions give weights of mean one. The computation is a square-root information filter that
    starts exactly diffuse and divides by no gap, so that near-coincident points, long gaps and
    large lam cost no digits.

    Student's t is not convex. Its mode is exact, but the spread about it is that of the expected
    curvature (the Fisher information): the filter cannot take negative precisions. The report says
    so. Labels that a polynomial of degree m - 1 separates, or counts that are zero nearly
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
        x, strategy = self._column(X), self._strategy()
        # copies: what is kept must not change with the caller's arrays
        x, y, weights = np.array(x), np.array(y, dtype=np.float64), weights.copy()
        self._conclude(strategy.fit(x, y, weights), strategy.order)
        return self

    def _strategy(self) -> SplineStrategy:
        """Return how the curve is fitted, the parameters checked."""
        m, search = check_order(self.order), self.search
        lam = check_lam(self.lam, search)
        loss, inference = resolve_response(self.loss, self.inference)
        if self.period is not None:
            return PeriodicCurve(m, lam, search, check_period(self.period, search, loss))
        if loss is None or inference is None:
            return GaussianCurve(m, lam, search)
        return LikelihoodCurve(m, lam, search, loss, inference, isinstance(self.loss, str))

    def _conclude(self, found: FittedSpline, order: int) -> None:
        """Set the fitted attributes."""
        self.lam_, self.edf_, self.log_evidence_ = found.lam, found.edf, found.log_evidence
        self.posteriors_, self.losses_ = [found.posterior], [found.loss]
        self.units_, self.flat_, self.basis_ = found.units, True, found.basis
        self.kernel_, self.loss_ = found.kernel, found.stated_loss
        self.relevance_ = None
        self._left, self.report_ = found.left_out, found.report(order)

    @property
    def left_out_(self) -> LeftOut:  # computed when it is asked for: many fits never need it
        """Leave-one-out mean, variance and log_density of every row, in the order of ``fit``."""
        check_is_fitted(self, "posteriors_")
        if self._left is None:
            self._left = leave_one_out(self._spline, self.losses_[0])
        return self._left

    @left_out_.setter
    def left_out_(self, found: LeftOut | None) -> None:
        self._left = found

    # ------------------------------------------------------------------ new observations
    @available_if(_has_labels)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (q, 2) of the labels 0 and 1 at X (q, 1)."""
        p = self.predict(X)
        return np.column_stack([1.0 - p, p])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].response == "binary":
            raise ValueError(
                "a label has no interval: predict gives its probability, predict_latent the curve "
                "behind it with a standard deviation"
            )
        return super().predict_interval(X, coverage)

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log p(y_i given x_i and the training data), shape (q,)."""
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].response == "binary":
            y = labels(y)
        elif not self.losses_[0].offers("quadratic"):
            y = self.losses_[0].check_targets(y)
        return super().predictive_log_density(X, y)

    def _moments(self, inside: Array) -> tuple[Array, Array]:
        if self.losses_[0].response != "binary":
            return super()._moments(inside)
        return response_moments(self.losses_[0], *self._latent(inside, 0))

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

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        report, rows = self.report_, super()._summary_rows()
        lam = f"{self.lam_:.6g}"
        if not np.isfinite(self.lam_):
            lam = f"infinite: a polynomial of degree {report['order'] - 1} is best"
        own = [("order of the penalty", str(report["order"])), ("smoothing parameter lam", lam)]
        if "period" in report:
            own.append(("period", f"{report['period']:.6g}"))
        data = [row for row in rows if row[0] == "Data"]
        rows = [*data, *(("Model", *pair) for pair in own), *rows[len(data) :]]
        if report["inference"].get("curvature") == "expected":
            rows.append(("Numerics", "spread", "by the expected curvature: the loss is not convex"))
        return rows

    def _parameter_words(self) -> dict[str, str]:
        if "period" in self.report_:
            return {}
        ratio = "noise / lam" if self.losses_[0].offers("quadratic") else "1 / lam"
        return {"variance": f"{ratio}: of the white noise whose integral the curve is"}

    # ------------------------------------------------------------------ helpers
    @property
    def _spline(self) -> SplinePosterior:
        (spline,) = self.posteriors_
        assert isinstance(spline, SplinePosterior)  # a curve with a period is refused before
        return spline

    def _inputs(self, X: Any) -> Array:
        check_is_fitted(self, "posteriors_")
        return self.units_.standardised(self._column(read_inputs(self, X))[:, None])

    def _column(self, X: Array) -> Array:
        """Return the one column of X (n, 1) as (n,), or refuse several."""
        if X.shape[1] != 1:
            raise ValueError(
                f"a smoothing spline has one column and X has {X.shape[1]}; choose one, use "
                "ThinPlateSpline for a surface, or GPRegressor with a sum of kernels on columns"
            )
        return np.ascontiguousarray(X[:, 0])
