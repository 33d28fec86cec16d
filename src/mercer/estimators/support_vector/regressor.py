"""SVR: support vector regression with scikit-learn's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.support_vector.base import SupportProblem, SupportRegressor
from mercer.inference.programme import Programme, one_segment


class SVR(SupportRegressor):
    """Support vector regression: minimise 1/2 |f|^2 + C sum_i w_i (|y_i - f_i| - epsilon)_+.

    Parameters
    ----------
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale" and 0.0; see :class:`SVC`.
    C : float, default=1.0
        Weight of the loss, > 0 and finite, in units of f squared over those of y.
    epsilon : float, default=0.1
        Half width of the tube without loss, >= 0, in the units of y.
    bias : bool, default=True
        Whether there is an unpenalised offset.
    tol, cache_size, max_iter : default 1e-3, 1000.0 and -1; see :class:`SVC`.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, kernel_, posteriors_, report_, n_iter_ : see
        :class:`SVC`.
    left_out_ : None; ``report_["left_out"]`` says why.

    References
    ----------
    GPML section 6.4.3, (6.41).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVR
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> bool(SVR(C=10.0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        C: float = 1.0,
        epsilon: float = 0.1,
        bias: bool = True,
        tol: float = 1e-3,
        cache_size: float = 1000.0,
        max_iter: int = -1,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.C = C
        self.epsilon = epsilon
        self.bias = bias
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.epsilon, (int, float, np.number)) and self.epsilon >= 0):
            raise ValueError(f"epsilon must be a number that is not negative, got {self.epsilon!r}")

    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """GPML (6.41): b_i in [-C w_i, C w_i], and epsilon |b_i| is subtracted."""
        n, bound = len(y), self.C * problem.total
        kink = np.full(n, float(self.epsilon))
        return Programme(y, -bound, bound, kink, np.zeros(n), one_segment(n), self.bias)
