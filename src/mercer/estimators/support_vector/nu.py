"""NuSVC, NuSVR and OneClassSVM: machines whose parameter nu is a fraction of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from mercer.core.arrays import Array
from mercer.core.kinds import Plain, Record
from mercer.estimators.shared.table import check_weights, read_inputs
from mercer.estimators.support_vector.dual import DualMachine, SupportClassifier, SupportProblem
from mercer.estimators.support_vector.regressor import SupportRegressor
from mercer.inference.base import Solution
from mercer.inference.mode.programme import Programme, one_segment
from mercer.inference.smo import SMO
from mercer.linalg.rows import RowGram

SMALL = 0.05  # of the margin: a violation that does not matter
ZERO = 1e-8  # of the largest value that f could have: a margin that counts as zero


@dataclass(eq=False, repr=False, kw_only=True)
class _NuMachine(DualMachine):
    """The parameters that the three share."""

    nu: float = 0.5

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.nu, (int, float, np.number)) and 0 < self.nu <= 1):
            raise ValueError(f"nu must lie in (0, 1], got {self.nu!r}")


def _filled(bound: Array, total: float) -> Array:
    """A feasible start: variables at their bound, one after the other, until they sum to total."""
    return np.asarray(np.clip(total - (np.cumsum(bound) - bound), 0.0, bound))


@dataclass(eq=False, repr=False, kw_only=True)
class NuSVC(SupportClassifier, _NuMachine):
    """Classification; nu bounds margin errors from above and support vectors from below.

    Parameters
    ----------
    nu : in (0, 1], default 0.5, and at most 2 min(n+, n-)/n for weighted counts n+ and n- of two
        classes, which is checked.
    class_weight : None (default), "balanced" or dict; see :class:`SVC`.
    kernel, degree, gamma, coef0, gram, tol, cache_size, max_iter : see :class:`SVC`; default
        "rbf", 3, "scale", 0, "auto", 1e-3, 1000 and -1. Here gram is "auto" only.

    Attributes
    ----------
    left_out_ : None; ``report_["left_out"]`` says why. All others: see :class:`SVC`.

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

    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """min 1/2 b'K b with sums over the classes -nu/2 sum w and +nu/2 sum w."""
        order = np.argsort(y, kind="stable")  # the negative class first
        bound, n, m = problem.total[order], len(y), int((y < 0).sum())
        bound = bound / min(1.0, bound.max())  # common factors drop out, and tol is not relative
        each, least = 0.5 * self.nu * bound.sum(), min(bound[:m].sum(), bound[m:].sum())
        if each > least * (1 + 1e-12):
            most = 2 * least / bound.sum()
            raise ValueError(f"nu={self.nu} is infeasible: for these classes at most {most:.4g}")
        negative = np.arange(n) < m
        return Programme(
            linear=np.zeros(n),
            low=np.where(negative, -bound, 0.0),
            high=np.where(negative, 0.0, bound),
            kink=np.zeros(n),
            start=np.concatenate([-_filled(bound[:m], each), _filled(bound[m:], each)]),
            segments=np.array([[0, m, 0], [m, n, m]], dtype=np.int64),
            order=order,
        )

    def _ascended(self, solver: SMO, gram: RowGram, programmes: list[Programme]) -> Solution:
        """Solve until the violation is small beside the margin, by which f is divided."""
        finest = self._finest(gram.diag(), programmes[0])
        programmes = [replace(P, enough=-0.5 * finest * np.abs(P.start).sum()) for P in programmes]
        while True:
            found = solver.ascend(gram, programmes)
            most, told = _largest_margin(found).min(), found.report.details
            if told["violation"] <= SMALL * most or told["limited"] or solver.tol <= finest:
                return found
            tol = max(finest, 0.02 * SMALL * most)
            solver = SMO(min(tol, 0.1 * solver.tol), solver.max_iter, solver.cache_size)
            programmes = [
                replace(P, start=a if P.order is None else a[P.order])
                for P, a in zip(programmes, found.alpha.T, strict=True)
            ]

    def _finest(self, diagonal: Array, P: Programme) -> float:
        """Return the tolerance below which a margin counts as zero."""
        return min(self.tol, ZERO * float(diagonal.max()) * float(np.abs(P.start).sum()))

    def _function(self, solution: Solution, problem: SupportProblem) -> tuple[Array, Array]:
        """Scaled so that the margin rho = 1."""
        assert solution.beta is not None
        negative, positive = solution.beta  # b + rho and b - rho
        rho, most = 0.5 * (negative - positive), _largest_margin(solution)
        finest = min(self.tol, solution.report.details["tol"])
        if not np.all((rho > 0) & (most > finest)):
            raise ValueError(
                f"the margin of nu={self.nu:g} is zero to within {finest:.2g}: no function of "
                "this kernel has all but this share of the rows on their side; choose a larger nu "
                "or another kernel"
            )
        return solution.alpha.T / rho[:, None], 0.5 * (negative + positive) / rho


def _largest_margin(solution: Solution) -> Array:
    """Return what no margin exceeds, whatever b is: rho sum |b| <= b'K b; (k,)."""
    square = -2.0 * np.array(solution.report.details["objective"])
    return np.asarray(square / np.abs(solution.alpha).sum(axis=0))


@dataclass(eq=False, repr=False, kw_only=True)
class NuSVR(SupportRegressor, _NuMachine):
    """Regression whose tube is found; nu bounds the fraction of rows outside it from above.

    Parameters
    ----------
    nu : in (0, 1], default 0.5.
    C : > 0 and finite, default 1. Weight of the loss; see :class:`SVR`.
    kernel, degree, gamma, coef0, gram, tol, cache_size, max_iter : see :class:`SVC`; default
        "rbf", 3, "scale", 0, "auto", 1e-3, 1000 and -1. Here gram is "auto" only.

    Attributes
    ----------
    epsilon_ : half width of the tube that was found, in the units of y.
    left_out_ : None; ``report_["left_out"]`` says why. All others: see :class:`SVC`.

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

    C: float = 1.0

    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """Two variables for each point, one above and one below the tube: equal sums of either."""
        n, bound = len(y), self.C * problem.total
        start, zero = _filled(bound, 0.5 * self.nu * bound.sum()), np.zeros(n)
        return Programme(
            linear=np.concatenate([y, y]),
            low=np.concatenate([zero, -bound]),
            high=np.concatenate([bound, zero]),
            kink=np.zeros(2 * n),
            start=np.concatenate([start, -start]),
            segments=np.array([[0, n, 0], [n, 2 * n, 0]], dtype=np.int64),
        )

    def _function(self, solution: Solution, problem: SupportProblem) -> tuple[Array, Array]:
        assert solution.beta is not None
        above, below = solution.beta  # b + epsilon and b - epsilon
        self.epsilon_ = float(0.5 * (above - below)[0])
        return solution.alpha.T, 0.5 * (above + below)

    @classmethod
    def _record(cls) -> Record:
        return {**super()._record(), "epsilon_": Plain(float)}


class OneClassSVM(OutlierMixin, _NuMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Outlier detection: the smallest f that is >= rho on all but a fraction nu of the rows.

    Parameters
    ----------
    nu : in (0, 1], default 0.5. Bounds the fraction of training rows outside from above, and that
        of support vectors from below.
    kernel, degree, gamma, coef0, gram, tol, cache_size, max_iter : see :class:`SVC`; default
        "rbf", 3, "scale", 0, "auto", 1e-3, 1000 and -1. Here gram is "auto" only.

    Attributes
    ----------
    offset_ : rho, (1,).
    left_out_ : None; ``report_["left_out"]`` says why. All others: see :class:`SVC`.

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

    def _read(self, X: Any, y: Any) -> tuple[Array, Any]:
        return read_inputs(self, X, fitted=False), None

    def _targets(self, y: Any, sample_weight: Any, n: int) -> tuple[Array, Array]:
        return np.zeros(n), check_weights(sample_weight, n)

    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """min 1/2 b'K b with 0 <= b_i <= w_i and sum b = nu sum w."""
        n, bound = len(y), problem.total
        start = _filled(bound, self.nu * bound.sum())
        return Programme(np.zeros(n), np.zeros(n), bound, np.zeros(n), start, one_segment(n))

    @property
    def offset_(self) -> Array:
        """Rho: ``decision_function`` is ``score_samples`` less it, negative for outliers."""
        return -self.intercept_

    def decision_function(self, X: Any) -> Array:
        """Return f - rho (q,)."""
        return np.asarray(self._latent(X)[:, 0])

    def score_samples(self, X: Any) -> Array:
        """Return f (q,)."""
        return np.asarray(self.decision_function(X) + self.offset_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return +1 for rows inside, -1 for outliers (q,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
