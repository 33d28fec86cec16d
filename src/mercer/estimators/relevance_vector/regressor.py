"""RVRegressor: relevance vector regression."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, as_columns
from mercer.core.rows import location_scale
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.relevance_vector.base import RelevanceMachine, column_units, kernel_outside
from mercer.estimators.relevance_vector.fit import RelevanceRows
from mercer.estimators.relevance_vector.state import RelevanceState
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import build_table, check_target, check_weights, read_rows
from mercer.estimators.shared.units import Units
from mercer.losses import Gaussian
from mercer.search.relevance.gaussian import GaussianMachine


class RVRegressor(RelevanceState, RelevanceMachine, KernelRegressor):  # type: ignore[misc]  # scikit-learn ships no types
    """Relevance vector machine for regression: few kernel functions, a probabilistic prediction.

    y = b + sum_j w_j k(x, x_j) + noise, with w_j ~ N(0, 1/alpha_j) and a flat prior on b. The
    evidence is maximised over the precisions alpha_j and the noise: most precisions become
    infinite, and the training rows that stay are the relevance vectors.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable, "precomputed" or None
        Its functions at the distinct training rows are the candidates; it need not be positive
        definite. None is an RBF. Amplitudes of the kernel have no effect.
    functions : None, "columns" or callable
        In place of a kernel: the columns of X (a design of any width), or a function X -> (n, m).
    bias : whether a constant with a flat prior belongs to the model.
    noise : None or float
        The noise variance; None learns it, from 1e-6 of the variance of y upwards.
    search : "auto", "evidence", "ard" or None
        Length scales by evidence: one, or with "ard" one for each column where the evidence gains;
        "auto" searches for a kernel given by name, and takes a kernel object as it is.
    heal : bool or float
        Error bars that grow away from the data: each prediction has one more function, centred on
        its point, of prior variance ``heal`` (True: the variance of y). It needs the training rows
        at prediction, and each point has a model of its own: no covariances.
    tol : what a step must promise in log evidence to be taken.
    max_iter : largest number of steps.
    standardize : "auto", True or False
        Work on columns of mean zero and unit deviation; "auto": for a kernel given by name.

    Attributes
    ----------
    relevance_ : (M,) training rows whose functions were kept (columns, for own functions), sorted.
    relevance_vectors_ : (M, d) these rows.
    weights_, precisions_ : (1, M) posterior means of the weights, and their prior precisions.
    intercept_ : (1,) the constant.
    noise_ : float, noise variance.
    log_evidence_ : float, log p(y | X) with these precisions, in your units.
    kernel_, loss_ : the kernel and the noise in your units.
    n_iter_ : int, steps tried.
    report_ : dict: steps, the evidence after each (inside units), what was searched.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    Where functions add nothing but chance the model without any is returned: if the best single
    one fits no better than it fits y in random order (level 0.01), and the functions, chosen of m,
    gain less than (log m)/2 each in log evidence and as much once; the figures are in ``report_``.

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
    >>> len(model.relevance_) < 12
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
        standardize: bool | str = "auto",
    ) -> None:
        self.kernel = kernel
        self.functions = functions
        self.bias = bias
        self.noise = noise
        self.search = search
        self.heal = heal
        self.tol = tol
        self.max_iter = max_iter
        self.standardize = standardize

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        options, noise = self._options(), self._noise()
        check_target(y)
        X, y = read_rows(self, X, y, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        choice, standardize = self._choice(X.shape[1])
        if len(X) < 2:
            raise ValueError(
                "Found 1 sample (n_samples=1): relevance cannot be learned from one row; give more"
            )
        Y = as_columns(y).astype(np.float64)
        table = build_table(X, Y, weights, False, True, 3)
        shift, scale = location_scale(table.mean, table.total, table.spread)
        if not 1e-140 < scale[0] < 1e140:
            raise ValueError(
                f"the targets have deviation {scale[0]:.3g}: their squares leave the range of "
                "floating-point numbers; give y in other units"
            )
        units = Units(
            *column_units(table.points, table.total, standardize),
            shift if self.bias else np.zeros(1),
            scale,
        )
        t = units.y_inside(table.mean)[:, 0]
        if np.abs(t).max() < 1e-13:  # equal targets: what is left is the rounding of their mean
            t = np.zeros_like(t)
        spread = float(table.spread.sum()) / float(scale[0]) ** 2
        inside = None if noise is None else noise / float(scale[0]) ** 2
        variance = float(table.total @ t**2 + spread) / float(table.total.sum()) or 1.0
        if not isinstance(options.heal, bool):
            options = replace(options, heal=options.heal / float(scale[0]) ** 2)
        rows = RelevanceRows(
            choice, units.inside(table.points), table.total, options, distinct=True
        )
        make = partial(GaussianMachine, t=t, spread=spread, noise=inside)
        (found,) = rows.fit([make], variance)
        self._keep([found], table, units, choice)
        self._settled([found.process], Gaussian(1.0 / found.state.beta), units)
        self.kernel_: Any = None if found.kernel is None else kernel_outside(units, found.kernel)
        self.log_evidence_ = units.evidence_outside(
            found.state.evidence, float(table.total.sum()), None, found.state.flat
        )
        return self

    def _settled(self, processes: list[Any], loss: Any, units: Units) -> None:
        """Keep what the predictions need."""
        self.posteriors_, self.losses_, self.units_ = processes, [loss], units
        self.basis_, self.flat_, self.left_out_ = None, True, None
        self.loss_ = units.loss_outside(loss)
        self.noise_ = float(getattr(self.loss_, "noise"))  # noqa: B009  # a loss need not have one

    def _noise(self) -> float | None:
        given = self.noise
        if given is None:
            return None
        if not (isinstance(given, (int, float, np.number)) and 0.0 < given < np.inf):
            raise ValueError(f"noise must be None or a positive variance, not {given!r}")
        return float(given)

    def sample_prior(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Refuse: the prior of a relevance vector machine is made of its data."""
        raise NotImplementedError(
            "the prior of a relevance vector machine depends on the training rows and says nothing "
            "by itself; KernelRegressor draws from the prior of a kernel"
        )

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        return RelevanceMachine.summary(self)

    def _facts(self) -> list[tuple[str, str]]:
        noise = f"{self.noise_:.4g} (standard deviation {np.sqrt(self.noise_):.4g})"
        return [("noise variance", noise + (", given" if self.noise is not None else ""))]
