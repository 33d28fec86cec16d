"""NuSVC, NuSVR and OneClassSVM: machines whose parameter nu is a share of the rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin

from mercer.core.arrays import Array
from mercer.estimators.shared.labels import decided, one_vs_rest, read_labels
from mercer.estimators.shared.table import check_target, check_weights, merged, restored_on_error
from mercer.estimators.support_vector.base import SupportVectorMachine, joined
from mercer.inference.smo import Programme


class _NuMachine(SupportVectorMachine):
    """The parameters that the three share."""

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_size: float = 1000.0,
        max_iter: int = -1,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and, where there are any, targets y (n,)."""
        with restored_on_error(self):
            self._fit(X, y, sample_weight)
        return self

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.nu, (int, float, np.number)) and 0 < self.nu <= 1):
            raise ValueError(f"nu must lie in (0, 1], got {self.nu!r}")

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        raise NotImplementedError


def _filled(bound: Array, total: float) -> Array:
    """A feasible start: variables at their bound, one after the other, until they sum to total."""
    return np.asarray(np.clip(total - (np.cumsum(bound) - bound), 0.0, bound))


class NuSVC(ClassifierMixin, _NuMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Classification by nu: at most that share of margin errors, at least of support vectors.

    Parameters
    ----------
    nu : in (0, 1]; at most 2 min(n+, n-)/n, which is checked.
    class_weight : None, "balanced" or a dict.
    kernel, degree, gamma, coef0, tol, cache_size, max_iter : see :class:`SVC`.

    References
    ----------
    Schoelkopf, Smola, Williamson & Bartlett (2000); GPML section 6.4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NuSVC
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> NuSVC().fit(X, [0, 0, 1, 1]).predict([[0.2], [2.8]])
    array([0, 1])
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        class_weight: Any = None,
        tol: float = 1e-3,
        cache_size: float = 1000.0,
        max_iter: int = -1,
    ) -> None:
        super().__init__(
            nu=nu,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            cache_size=cache_size,
            max_iter=max_iter,
        )
        self.class_weight = class_weight

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = self._validated(X, y)
        given = read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        classes, codes, weights = given.classes, given.codes, given.weights
        kernel = self._resolved(X, weights)
        first, total = merged(X, codes.astype(np.float64), weights)
        k = len(classes)
        Y = one_vs_rest(codes[first], k)[:, 1:] if k == 2 else one_vs_rest(codes[first], k)
        coefficients, biases = np.zeros((Y.shape[1], len(first))), np.zeros(Y.shape[1])
        reports = []
        for c, target in enumerate(Y.T):
            order = np.argsort(target, kind="stable")  # the negative class first
            beta, biases[c], report = self._two_classes(
                kernel, X[first][order], first[order], target[order], total[order]
            )
            coefficients[c, order] = beta
            reports.append(report)
        self.classes_ = classes
        self.report_ = joined(reports)
        self._store(kernel, X[first], first, coefficients, biases)

    def _two_classes(
        self, kernel: Any, X: Array, first: Any, y: Array, bound: Array
    ) -> tuple[Array, float, dict[str, Any]]:
        """min 1/2 b'K b with sum over each class +- nu/2 sum w; scaled so that rho = 1."""
        n, m = len(X), int((y < 0).sum())
        each = 0.5 * self.nu * bound.sum()
        if each > min(bound[:m].sum(), bound[m:].sum()) * (1 + 1e-12):
            most = 2 * min(bound[:m].sum(), bound[m:].sum()) / bound.sum()
            raise ValueError(f"nu={self.nu} is infeasible: for these classes at most {most:.4g}")
        start = np.concatenate([-_filled(bound[:m], each), _filled(bound[m:], each)])
        programme = Programme(
            np.zeros(n),
            np.where(y < 0, -bound, 0.0),
            np.where(y < 0, 0.0, bound),
            np.zeros(n),
            start,
            np.array([[0, m, 0], [m, n, m]], dtype=np.int64),
        )
        _, _, rows = self._rows(kernel, np.ascontiguousarray(X), first)
        optimum = self._climb(programme, rows)
        negative, positive = optimum.level  # b + rho and b - rho
        rho = 0.5 * (negative - positive)
        if not rho > 0:
            raise ValueError(
                "the margin of this nu is zero: choose a smaller nu, or another kernel"
            )
        bias = float(0.5 * (negative + positive) / rho)
        return optimum.beta / rho, bias, optimum.report

    def decision_function(self, X: Any) -> Array:
        """Return the margin f (q,), or (q, k) for several classes."""
        f = self._margins(X)
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        f = self.decision_function(X)
        return decided(self.classes_, f)


class NuSVR(RegressorMixin, _NuMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Regression whose tube is found: nu bounds the share of rows outside it.

    Parameters
    ----------
    nu : in (0, 1].
    C : weight of the loss.
    kernel, degree, gamma, coef0, tol, cache_size, max_iter : see :class:`SVC`.

    Attributes
    ----------
    epsilon_ : half width of the tube that was found.

    References
    ----------
    Schoelkopf, Smola, Williamson & Bartlett (2000); GPML section 6.4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NuSVR
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> bool(NuSVR(C=10.0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.9)
    True
    """

    epsilon_: float

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_size: float = 1000.0,
        max_iter: int = -1,
    ) -> None:
        super().__init__(
            nu=nu,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            cache_size=cache_size,
            max_iter=max_iter,
        )
        self.C = C

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        check_target(y)
        X, y = self._validated(X, y)
        y = np.asarray(y, dtype=np.float64)
        weights = check_weights(sample_weight, len(X))
        kernel = self._resolved(X, weights)
        first, total = merged(X, y, weights)
        points, n = np.ascontiguousarray(X[first]), len(first)
        bound = self.C * total
        start = _filled(bound, 0.5 * self.nu * bound.sum())
        zero = np.zeros(n)
        programme = Programme(
            np.concatenate([y[first], y[first]]),
            np.concatenate([zero, -bound]),
            np.concatenate([bound, zero]),
            np.zeros(2 * n),
            np.concatenate([start, -start]),
            np.array([[0, n, 0], [n, 2 * n, 0]], dtype=np.int64),
        )
        kernel, points, rows = self._rows(kernel, points, first)
        optimum = self._climb(programme, rows)
        self.report_ = optimum.report
        above, below = optimum.level  # b + epsilon and b - epsilon
        self.epsilon_ = float(0.5 * (above - below))
        beta = optimum.beta[:n] + optimum.beta[n:]
        self._store(kernel, points, first, beta[None, :], np.array([0.5 * (above + below)]))

    def predict(self, X: Any) -> Array:
        """Return f at X (q, d), shape (q,)."""
        return np.asarray(self._margins(X)[:, 0])

    @classmethod
    def _extra_names(cls) -> tuple[str, ...]:
        return ("epsilon_",)


class OneClassSVM(OutlierMixin, _NuMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Outlier detection: the smallest f that is >= rho on all but a share nu of the rows.

    Parameters
    ----------
    nu : in (0, 1], upper bound of the share of training rows outside.
    kernel, degree, gamma, coef0, tol, cache_size, max_iter : see :class:`SVC`.

    References
    ----------
    Schoelkopf, Platt, Shawe-Taylor, Smola & Williamson (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> OneClassSVM(nu=0.1).fit(X).predict([[0.5, 0.5], [9.0, 9.0]])
    array([ 1, -1])
    """

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, _ = self._validated(X, None, supervised=False)
        weights = check_weights(sample_weight, len(X))
        kernel = self._resolved(X, weights)
        first, total = merged(X, np.zeros(len(X)), weights)
        points, n = np.ascontiguousarray(X[first]), len(first)
        programme = Programme(
            np.zeros(n),
            np.zeros(n),
            total,
            np.zeros(n),
            _filled(total, self.nu * total.sum()),
            np.array([[0, n, 0]], dtype=np.int64),
        )
        kernel, points, rows = self._rows(kernel, points, first)
        optimum = self._climb(programme, rows)
        self.report_ = optimum.report
        self._store(kernel, points, first, optimum.beta[None, :], optimum.level[:1])

    @property
    def offset_(self) -> Array:
        """Rho: ``decision_function`` is ``score_samples`` less it, negative for outliers."""
        return -self.intercept_

    def decision_function(self, X: Any) -> Array:
        """Return f - rho (q,)."""
        return np.asarray(self._margins(X)[:, 0])

    def score_samples(self, X: Any) -> Array:
        """Return f (q,)."""
        return np.asarray(self.decision_function(X) + self.offset_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return +1 for rows inside, -1 for outliers (q,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
