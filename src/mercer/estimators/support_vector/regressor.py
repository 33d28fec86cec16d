"""SVR: support vector regression with scikit-learn's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from mercer.core.arrays import Array
from mercer.estimators.shared.table import check_target, check_weights
from mercer.estimators.support_vector.dual import DualMachine, SupportProblem
from mercer.inference.mode.programme import Programme, one_segment
from mercer.losses import EpsilonInsensitive
from mercer.losses.base import Loss


class SupportRegressor(RegressorMixin, DualMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """One function of a real target."""

    def _read(self, X: Any, y: Any) -> tuple[Array, Any]:
        check_target(y)
        return super()._read(X, y)

    def _targets(self, y: Any, sample_weight: Any, n: int) -> tuple[Array, Array]:
        return np.asarray(y, dtype=np.float64), check_weights(sample_weight, n)

    def predict(self, X: Any) -> Array:
        """Return f at X (q, d), shape (q,)."""
        return np.asarray(self._latent(X)[:, 0])


@dataclass(eq=False, repr=False, kw_only=True)
class SVR(SupportRegressor):
    """Support vector regression: minimise 1/2 |f|^2 + C sum_i w_i (|y_i - f_i| - epsilon)_+.

    Parameters
    ----------
    C : > 0 and finite, default 1. Weight of the loss, in units of f squared over those of y.
    epsilon : >= 0, default 0.1. Half width of the tube without loss, in the units of y.
    bias : default True. Whether there is an unpenalised offset.
    kernel, degree, gamma, coef0, gram, tol, cache_size, max_iter : see :class:`SVC`; default
        "rbf", 3, "scale", 0, "auto", 1e-3, 1000 and -1.

    Attributes
    ----------
    left_out_ : None; ``report_["left_out"]`` says why. All others: see :class:`SVC`.

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

    C: float = 1.0
    epsilon: float = 0.1
    bias: bool = True

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.epsilon, (int, float, np.number)) and self.epsilon >= 0):
            raise ValueError(f"epsilon must be a number that is not negative, got {self.epsilon!r}")

    def _loss(self) -> Loss:
        return EpsilonInsensitive(float(self.C), float(self.epsilon))

    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """GPML (6.41): b_i in [-C w_i, C w_i], and epsilon |b_i| is subtracted."""
        n, bound, kink = len(y), self.C * problem.total, np.full(len(y), float(self.epsilon))
        return Programme(y, -bound, bound, kink, np.zeros(n), one_segment(n), self.bias)
