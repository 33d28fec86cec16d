"""RVRegressor: relevance vector regression."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array, as_columns, location_scale
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.relevance_vector.base import RelevanceMachine
from mercer.estimators.shared.table import Table, check_target, check_weights, read_rows
from mercer.estimators.shared.units import Units
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss, is_number
from mercer.losses.real.gaussian import Gaussian
from mercer.search.relevance.kernel import Makers
from mercer.search.relevance.machines import GaussianMachine


class RVRegressor(RelevanceMachine, KernelRegressor):
    """Relevance vector machine for regression: few kernel functions, a probabilistic prediction.

    y = b + sum_j w_j k(x, x_j) + noise, with w_j ~ N(0, 1/alpha_j) and a flat prior on b. The
    evidence is maximised over the precisions alpha_j and the noise: most precisions become
    infinite, and the training rows that stay are the relevance vectors.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable, "precomputed" or None, default None
        Its functions at the distinct training rows are the candidates; it need not be positive
        definite. None is an RBF. Amplitudes of the kernel have no effect.
    functions : None, "columns" or callable, default None
        In place of a kernel: the columns of X (a design of any width), or a function X -> (n, m).
    bias : bool, default True
        Whether a constant with a flat prior belongs to the model.
    noise : None or float > 0, default None
        The noise variance in units of y squared; None learns it, from 1e-6 of that of y upwards.
    search : "auto", "evidence", "ard" or None, default "auto"
        One length scale by evidence, or with "ard" one for each column where the evidence gains;
        None keeps the kernel's parameters. "auto" does so unless the kernel is given by name; then
        one for each column must gain (log n)/2 for each that is added, as in :class:`GPRegressor`.
    heal : bool or float > 0, default False
        Error bars that grow away from the data: each prediction is augmented by one more function,
        centred on its point, of prior variance ``heal`` in units of y squared (True: the variance
        of y). It needs the training rows at prediction, and each point has its own model: there
        are no covariances between points. They are too narrow still: 90 % bars held 40 to 51 %
        of smooth random functions within a length scale outside the data, 50 to 68 % further out.
    tol : float > 0, default 0.01
        What a step must promise in log evidence to be taken.
    max_iter : int >= 1, default 10000
        Largest number of steps.
    null_test : bool, default True
        Return the model without functions, with a warning, where they gain no more than they
        would on noise; see Notes. False keeps whatever is found.
    standardize : "auto", True or False, default "auto"
        Work on columns of mean zero and unit deviation; "auto": for a kernel given by name.

    Attributes
    ----------
    relevance_rows_ : (M,) training rows (columns of own functions) that were kept, ascending.
    relevance_vectors_ : (M, d) the inputs of these rows.
    weights_, precisions_ : (1, M) posterior means of the weights, and their prior precisions.
    intercept_ : (1,) the constant.
    noise_ : float, noise variance.
    log_evidence_ : float, log p(y | X) with these precisions, in your units.
    left_out_ : mean, variance and log_density of every row from all others, computed when asked
        for; functions, precisions and noise held as all rows chose them: optimistic, compare by
        cross-validation. None with ``heal``.
    kernel_, loss_ : the kernel and the noise in your units.
    posteriors_ : list of one process, in standardised units.
    n_iter_ : int, steps tried.
    report_ : dict, what was done; in "machines" the steps and evidence after each, standardised.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    Where functions add nothing but chance the model without any is returned, with a warning: if M
    functions, chosen of m on n rows with K length scales tried, gain less in log evidence than
    M (0.7 + log max(m/(n - M/2), 1)) + 4.5 + log K, more than 95 % of noise does, and the best
    single one fits no better than it fits y in random order (level 0.01 / K).
    ``report_["machines"]`` has what was gained and needed, ``report_["found_nothing"]`` says it.

    Without ``heal`` the variance tends to the noise alone far from the relevance vectors, where
    least is known: do not use it there.

    References
    ----------
    Tipping (2001); Tipping & Faul (2003); Rasmussen & Quinonero-Candela (2005); GPML section 6.6.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RVRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> y = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=100)
    >>> model = RVRegressor().fit(X, y)
    >>> len(model.relevance_rows_) < 12
    True
    >>> mean, std = model.predict([[0.0]], return_std=True)
    >>> bool(abs(mean[0] - 1.0) < 0.2)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        functions: Any = None,
        bias: bool = True,
        noise: float | None = None,
        search: Any = "auto",
        heal: bool | float = False,
        tol: float = 1e-2,
        max_iter: int = 10000,
        null_test: bool = True,
        standardize: bool | str = "auto",
    ) -> None:
        self.kernel, self.functions, self.bias = kernel, functions, bias
        self.noise, self.search, self.heal = noise, search, heal
        self.tol, self.max_iter, self.standardize = tol, max_iter, standardize
        self.null_test = null_test

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    # ------------------------------------------------------------------ fit
    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        if self.noise is not None and not is_number(self.noise, 0.0, np.inf):
            raise ValueError(f"noise must be None or a positive variance, not {self.noise!r}")
        check_target(y)
        X, y = read_rows(self, X, y, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        if len(X) < 2:
            raise ValueError(
                "Found 1 sample (n_samples=1): relevance cannot be learned from one row; give more"
            )
        return X, as_columns(y).astype(np.float64), weights

    def _target_units(self, table: Table) -> tuple[Array, Array]:
        shift, scale = location_scale(table.mean, table.total, table.spread)
        if not 1e-140 < scale[0] < 1e140:
            raise ValueError(
                f"the targets have deviation {scale[0]:.3g}: their squares leave the range of "
                "floating-point numbers; give y in other units"
            )
        return shift if self.bias else np.zeros(1), scale

    def _likelihoods(self, table: Table, units: Units) -> tuple[Makers, float | None]:
        t = units.y_standardised(table.mean)[:, 0]
        if np.abs(t).max() < 1e-13:  # equal targets: what is left is the rounding of their mean
            t = np.zeros_like(t)
        square = float(units.y_scale[0]) ** 2
        spread = float(table.spread.sum()) / square
        noise = None if self.noise is None else float(self.noise) / square
        variance = float(table.total @ t**2 + spread) / float(table.total.sum()) or 1.0
        return [partial(GaussianMachine, t=t, spread=spread, noise=noise)], variance

    def _found_loss(self, beta: float) -> Loss:
        return Gaussian(1.0 / beta)

    @property
    def noise_(self) -> float:
        """The noise variance, in units of y squared."""
        return float(cast(Gaussian, self.loss_).noise)

    def _figures(self, mean: Array, variance: Array, table: Table) -> LeftOut:
        loss, y = self.losses_[0], self.units_.y_standardised(table.Y)
        density = loss.log_predictive(y, mean, variance)
        mean, variance = loss.predict(mean, variance)
        figures = LeftOut(table.weights, mean, variance, density)
        return self.units_.left_out_in_user_units(figures, table.flat)

    def sample_prior(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Raise: the prior of a relevance vector machine is made of its data."""
        raise NotImplementedError(
            "the prior of a relevance vector machine depends on the training rows and says nothing "
            "by itself; KernelRegressor draws from the prior of a kernel"
        )

    def _facts(self) -> list[tuple[str, str]]:
        noise = f"{self.noise_:.4g} (standard deviation {np.sqrt(self.noise_):.4g})"
        return [("noise variance", noise + (", given" if self.noise is not None else ""))]
