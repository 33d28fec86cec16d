"""SmoothingSpline: a smooth curve through noisy observations, in O(n); theory (P1), (P2)."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._native import markov
from mercer.core.arrays import Array
from mercer.core.kinds import PartOf, Plain, Record
from mercer.core.record import Each, Maybe, One
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.shared.machine import generator
from mercer.estimators.shared.predictions import infinite_variance
from mercer.estimators.shared.record import LEFT_OUT
from mercer.estimators.shared.table import check_target, check_weights, read_inputs, read_rows
from mercer.estimators.shared.units import describe_units, spline_density
from mercer.estimators.spline import gaussian, likelihood
from mercer.estimators.spline.gaussian import FittedSpline, Observed
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.process.record import POSTERIOR
from mercer.process.spline import CURVE, SplinePosterior, derivative


def _is_whole(number: Any) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool)


class SmoothingSpline(KernelRegressor):
    """Smoothing spline of one column, with error bars, in O(n) time and memory.

    g minimises sum_i w_i (y_i - g(x_i))^2 + lam * integral of (g^(m))^2. It is the posterior mean
    of an integrated Wiener process with a flat prior on the polynomials of degree m - 1, so that
    all that :class:`GPRegressor` says of its uncertainty is said here, exactly: deviations,
    evidence, draws, leave-one-out. Inputs may be unsorted, repeated and unevenly spaced. Outside
    the data the curve is a polynomial of degree m - 1 (m = 2: a line), with deviations that grow.

    Parameters
    ----------
    order : int from 1 to 6, default 2
        m, the derivative that is penalised: 2 is the cubic spline. It needs m distinct inputs.
    lam : float >= 0 or None, default None
        The smoothing parameter in your units, as in ``scipy.interpolate.make_smoothing_spline``
        (csaps: smooth = 1 / (1 + lam)); ``numpy.inf`` is the polynomial, 0 the natural spline
        through all observations (Gaussian noise only). None searches.
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
    left_out_, loo_ : leave-one-out mean, variance, log_density of every row, computed when asked
        for; NaN where the others leave the curve undetermined.
    posteriors_ : list of one process, in the units of the fit.
    report_ : dict, what was done to the numbers.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    A row of weight w counts as w equal rows: for known relative precisions give weights of mean
    one. The square-root information filter starts exactly diffuse and divides by no gap, so that
    near-coincident points, long gaps and large lam cost no digits.

    Student's t is not convex. Its mode is exact, but the spread about it is that of the expected
    curvature (the Fisher information): the filter cannot take negative precisions. Labels that a
    polynomial of degree m - 1 separates, or counts that are zero nearly everywhere, have no curve,
    and are refused.

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
    _of: tuple[Any, ...] | None  # what ``spline_density`` takes, until it is asked for

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
        # copies: what is kept must not change with the caller's arrays
        x, y = np.array(self._column(X)), np.array(y, dtype=np.float64)
        found = self._curve((x, y, weights.copy()))
        lam = found.lam if np.isfinite(found.lam) else "infinite"
        name, ended = found.inference
        self.lam_, self.edf_, self.log_evidence_ = found.lam, found.edf, found.log_evidence
        self.posteriors_, self.losses_ = [found.posterior], [found.loss]
        self.units_, self.flat_, self.basis_ = found.units, True, found.basis
        self.kernel_, self.loss_ = found.kernel, found.units.loss_in_user_units(found.loss)
        self.relevance_, self._left = None, found.left_out
        self.report_ = {
            "rows": dict(zip(("used", "distinct", "weight"), found.counts, strict=True)),
            "standardize": {"on": bool(found.units.y_scale[0] != 1.0)}
            | describe_units(found.units),
            "search": found.search,
            "inference": {"name": name, **ended.plain()},
            "gram": found.gram,
            "degrees_of_freedom": found.edf,
            "order": int(self.order),
            "lam": lam,
            **found.extra,
        }
        if said := infinite_variance(self.loss_):
            self.report_["variance"] = said
        self._of = (x, y, weights, found.loss, 0 if self.period else self.order - 1)
        return self

    def _curve(self, rows: Observed) -> FittedSpline:
        """Fit, each kind of noise in its own way."""
        m, lam, period = self._numbers()
        named, search = isinstance(self.loss, str), self.search
        loss = Loss.by_name(self.loss) if named else self.loss
        if not isinstance(loss, Loss):
            raise TypeError(f"loss must be a Loss or the name of one, not {self.loss!r}")
        if not loss.offers("quadratic"):
            if lam == 0.0:
                raise ValueError(
                    "lam=0 interpolates numbers, and what is observed here is "
                    f"{type(loss).__name__}: give lam > 0"
                )
            inference = likelihood.resolve_inference(loss, self.inference, search, period)
            loss = loss.__sklearn_clone__()
            if loss.response == "binary" and "scale" in loss.domains:
                loss = loss.fix("scale")  # with a flat prior its scale is that of the curve
            return likelihood.curve(rows, m, lam, loss, inference, named)
        gaussian.check_noise(loss, named, self.inference)
        if period is None:
            return gaussian.curve(rows, m, lam, search)
        if search == "loo":
            raise ValueError("a periodic spline has search='evidence' or 'gcv', not 'loo'")
        return gaussian.periodic_curve(rows, m, lam, search, period)

    def _numbers(self) -> tuple[int, float | None, float | None]:
        """Return order, lam and period, or refuse them; refuse an unknown criterion."""
        order, lam, period = self.order, self.lam, self.period
        if not _is_whole(order) or not 1 <= order <= markov.HIGHEST:
            raise ValueError(
                f"order must be a whole number from 1 to {markov.HIGHEST}, got {order!r}; "
                "2 is the cubic spline"
            )
        if self.search not in ("evidence", "gcv", "loo"):
            raise ValueError(
                f"search must be one of 'evidence', 'gcv', 'loo', got {self.search!r}; lam gives "
                "a value"
            )
        try:
            lam = None if lam is None else float(lam)
        except (TypeError, ValueError):
            raise TypeError(f"lam must be a positive number or None, got {lam!r}") from None
        if lam is not None and not lam >= 0.0:
            raise ValueError(
                "lam must be positive, or 0 for the curve through all observations (infinity is "
                f"the polynomial), got {self.lam!r}"
            )
        if period is None:
            return int(order), lam, None
        number = isinstance(period, (int, float, np.integer, np.floating))
        if not (number and 0.0 < period < np.inf) or isinstance(period, bool):
            raise ValueError(f"period must be a positive number or None, got {period!r}")
        return int(order), lam, float(period)

    @property
    def report_(self) -> dict[str, Any]:
        """What was done to the numbers; what they are densities of is found when it is asked."""
        if self._of is not None:
            self._done["density"] = spline_density(*self._of)
            self._of = None
        return self._done

    @report_.setter
    def report_(self, found: dict[str, Any]) -> None:
        self._done, self._of = found, None

    @property
    def left_out_(self) -> LeftOut:  # computed when it is asked for: many fits never need it
        """Leave-one-out mean, variance and log_density of every row, in the order of ``fit``."""
        check_is_fitted(self, "posteriors_")
        if self._left is None:
            noise = gaussian if self.losses_[0].offers("quadratic") else likelihood
            self._left = noise.leave_one_out(self._spline, self.losses_[0])
        return self._left

    @left_out_.setter
    def left_out_(self, found: LeftOut | None) -> None:
        self._left = found

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        record = {name: kind for name, kind in super()._record().items() if name != "left_out_"}
        return {
            **record,
            "lam_": Plain(float, 0.0, finite=False),
            "edf_": Plain(float, 0.0),
            "posteriors_": Each(One({"Posterior": POSTERIOR, "SplinePosterior": CURVE}), "1"),
            "losses_": Each(PartOf(Loss), "1"),
            "_periodic_left_out": Maybe(LEFT_OUT),
        }

    @property
    def _periodic_left_out(self) -> LeftOut | None:
        """The figures of a curve with a period; others are computed when they are asked for."""
        return self._left if "period" in self._done else None

    @_periodic_left_out.setter
    def _periodic_left_out(self, found: LeftOut | None) -> None:
        self._left = found

    def _restored(self) -> None:
        if "period" in self._done:
            if self._left is None:
                raise ValueError("a curve with a period has its leave-one-out figures")
            super()._restored()

    def _check_fitted(self) -> None:
        if "period" in self._done:
            super()._check_fitted()
            return
        curve, loss = self.posteriors_[0], self.losses_[0]
        if not isinstance(curve, SplinePosterior):
            raise ValueError("a curve without a period has states")
        noise = getattr(loss, "noise", None) if loss.offers("quadratic") else 1.0
        numbers = (curve.noise_variance, *vars(self.units_).values())
        if numbers != (noise, 0.0, 1.0, curve.rows.y_shift, curve.rows.y_scale):
            raise ValueError("noise and units of the curve are not those of its loss and rows")
        curve.check()

    # ------------------------------------------------------------------ the curve
    def derivative(self, X: Any, order: int = 1, return_std: bool = False) -> Any:
        """Return the derivative of the curve at X (q, 1), and its standard deviation if asked.

        For other than Gaussian noise the curve is the latent one, on the scale of the link.
        ``order`` 0 is the curve itself. The mean is a piecewise polynomial and has derivatives up
        to 2m - 1 (zero beyond); the process has m - 1, so that deviations exist below order m. One
        call is O(n + q) between the inputs: ask for all places at once.
        """
        curve, x = self._spline, self._inputs(X)[:, 0]
        if not _is_whole(order) or order < 0:
            raise ValueError(f"order must be a whole number of 0 or more, got {order!r}")
        k, m = int(order), curve.states.order
        if return_std and k >= m:
            raise ValueError(
                f"the curves of a spline of order {m} have {m - 1} derivatives, the mean alone has "
                f"one of order {k}: it has no deviation; leave return_std off, or fit with "
                f"order={k + 1} or more"
            )
        value, variance = derivative(curve, x, k, return_std)
        scale = self.units_.y_scale[0]
        value *= scale
        if k == 0:
            value += self.units_.y_shift[0]
        if variance is None:
            return value
        return value, np.sqrt(curve.noise_variance * variance) * scale

    def integral(self, a: float, b: float) -> float:
        """Return the integral of the curve from a to b; beyond the data of its continuation."""
        curve = self._spline
        if np.ndim(a) or np.ndim(b):
            raise ValueError(
                "integral takes one interval, two numbers; for several call it for each of them"
            )
        try:
            ends = np.array([float(a), float(b)])
        except (TypeError, ValueError):
            raise TypeError(f"the ends of an integral must be numbers, got {a!r}, {b!r}") from None
        if not np.all(np.isfinite(ends)):
            raise ValueError(f"an integral needs two finite ends, got {a!r} and {b!r}")
        low, high = curve.states.integral(ends)
        shift, scale = self.units_.y_shift[0], self.units_.y_scale[0]
        return float(scale * (high - low) + shift * (ends[1] - ends[0]))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw curves from the posterior at X (q, 1): (q, n_samples), exactly and in O(n) each."""
        inside = self._inputs(X)
        if "period" in self._done:
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
        limit = f"infinite: a polynomial of degree {report['order'] - 1} is best"
        lam = f"{self.lam_:.6g}" if np.isfinite(self.lam_) else limit
        own = {"order of the penalty": str(report["order"]), "smoothing parameter lam": lam}
        if "period" in report:
            own["period"] = f"{report['period']:.6g}"
        data = [row for row in rows if row[0] == "Data"]
        rows = [*data, *(("Model", *pair) for pair in own.items()), *rows[len(data) :]]
        if report["inference"].get("curvature") == "expected":
            rows.append(("Numerics", "spread", "by the expected curvature: the loss is not convex"))
        return rows

    def _parameter_words(self) -> dict[str, str]:
        if "period" in self._done:
            return {}
        ratio = "noise / lam" if self.losses_[0].offers("quadratic") else "1 / lam"
        return {"variance": f"{ratio}: of the white noise whose integral the curve is"}

    # ------------------------------------------------------------------ helpers
    @property
    def _spline(self) -> SplinePosterior:
        """The curve; one with a period keeps no states."""
        check_is_fitted(self, "posteriors_")
        if "period" in self._done:
            raise ValueError(
                "a periodic spline gives values, deviations and draws, no derivatives or "
                "integrals; take differences of predict_latent, or repeat the rows over three "
                "periods and fit without period"
            )
        return cast(SplinePosterior, self.posteriors_[0])

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
