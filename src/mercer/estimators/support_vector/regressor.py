"""SVR: support vector regression with scikit-learn's parameters."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from mercer.core.arrays import Array
from mercer.estimators.shared.table import check_target, check_weights, merged, restored_on_error
from mercer.estimators.support_vector.base import SupportVectorMachine
from mercer.inference.smo import Programme


class SVR(RegressorMixin, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Support vector regression: minimise 1/2 |f|^2 + C sum_i w_i (|y_i - f_i| - epsilon)_+.

    Parameters
    ----------
    C, kernel, degree, gamma, coef0, bias, tol, cache_size, max_iter : see :class:`SVC`.
    epsilon : half width of the tube without loss.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, kernel_, report_ : see :class:`SVC`.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and targets y (n,)."""
        with restored_on_error(self):
            check_target(y)
            X, y = self._validated(X, y)
            self._fit(X, np.asarray(y, dtype=np.float64), check_weights(sample_weight, len(X)))
        return self

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.epsilon, (int, float, np.number)) and self.epsilon >= 0):
            raise ValueError(f"epsilon must be a number that is not negative, got {self.epsilon!r}")

    def _fit(self, X: Array, y: Array, weights: Array) -> None:
        kernel = self._resolved(X, weights)
        first, total = merged(X, y, weights)
        points, n = np.ascontiguousarray(X[first]), len(first)
        programme = Programme(
            y[first].copy(),
            -self.C * total,
            self.C * total,
            np.full(n, float(self.epsilon)),
            np.zeros(n),
            np.array([[0, n, 0]], dtype=np.int64),
            self.bias,
        )
        kernel, points, rows = self._rows(kernel, points, first)
        optimum = self._climb(programme, rows)
        self.report_ = optimum.report
        self._store(kernel, points, first, optimum.beta[None, :], optimum.level[:1])

    def predict(self, X: Any) -> Array:
        """Return f at X (q, d), shape (q,)."""
        return np.asarray(self._margins(X)[:, 0])
