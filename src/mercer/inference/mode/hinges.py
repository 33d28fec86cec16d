"""One hinge over all classes: the dual of Crammer and Singer, and that of Weston and Watkins.

    minimise  1/2 sum_r |f_r|^2 + sum_i c_i xi_i,    m_ir = 1 - f_y(x_i) + f_r(x_i),  y = y_i    (1)
    xi_i = max_{r != y} (m_ir)_+  (Crammer-Singer),   sum_{r != y} (m_ir)_+  (Weston-Watkins)    (2)

Multipliers a_ir >= 0, r != y: the functions are f = K tau with tau_ir = -a_ir and
tau_iy = s_i = sum_r a_ir, and the dual is

    maximise  sum_i s_i - 1/2 tr(tau' K tau),   s_i <= c_i  (CS)  or  a_ir <= c_i  (WW)         (3)

whose slope in a_ir is m_ir. Compiled steps solve the block of one row exactly, of that which
violates optimality most. What the primal and the dual differ by is a sum over rows of terms >= 0,
the certificate:

    gap = sum_i  tau_i . f(x_i) + c_i xi_i - s_i                                                 (4)

References: Crammer & Singer (2001); Weston & Watkins (1999), whose margin of 2 is 1 here: half
their C gives half their f; Keerthi, Sundararajan, Chang, Hsieh & Lin (2008), A sequential dual
method for large scale multi-class linear SVMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._native import machines
from mercer.core.arrays import Array, Index
from mercer.inference.base import Report, Solution
from mercer.inference.mode.programme import Mask
from mercer.inference.smo import CALL, SINGLE_TOL
from mercer.linalg.gram import Gram, NoSpread
from mercer.linalg.rows import RowCache

SHAPES = ("crammer_singer", "weston_watkins")
MOST = 10_000_000  # steps without a limit of the user's own, or 1000 a multiplier if that is more
FULL = 1.0 - 1e-12  # share of the bound of a block that counts as all of it


@dataclass(frozen=True)
class JointHinge:
    """The functions of k classes that minimise (1).

    Parameters
    ----------
    shape : "crammer_singer" or "weston_watkins".
    tol : > 0. Largest violation of optimality, in units of f. Below 1e-5 rows of K are kept in
        double precision, otherwise in single.
    max_iter : most steps (rows moved); reaching it is reported, not raised. -1 is 1e7 steps, or
        1000 a multiplier if that is more.
    cache_size : > 0. Megabytes for rows of K.
    bias : whether each function has a constant, penalised like a weight: K + 1 in place of K.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> from mercer.linalg.rows import RowGram
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> solver = JointHinge("crammer_singer")
    >>> found = solver.solve(RowGram(Linear(), X), np.arange(3), np.ones(3), 3)
    >>> found.z.argmax(axis=1), found.report.converged
    (array([0, 1, 2]), True)
    """

    shape: str
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000.0
    bias: bool = False

    def solve(self, gram: Gram, codes: Index, bound: Array, k: int) -> Solution:
        """Return tau (n, k) of the classes ``codes`` (n,) in 0 .. k-1, for bounds c (n,) > 0.

        ``z`` (n, k) is f, ``beta`` (1, k) the constants, zero without a bias.
        """
        kernel, points = gram.source()
        rows = RowCache(kernel, points, 1e6 * self.cache_size, single=self.tol >= SINGLE_TOL)
        limit = self.max_iter if self.max_iter >= 0 else max(MOST, 1000 * k * len(codes))
        state = _Multipliers(self, codes, bound, gram.diag(), k)
        steps = self._climb(state, rows, limit)
        state.renew(gram)
        computed, precision = rows.computed, str(rows.table.dtype)
        if state.violations().max() > self.tol and steps < limit and precision == "float32":
            rows = RowCache(kernel, points, 1e6 * self.cache_size, single=False)
            steps += self._climb(state, rows, limit - steps)
            state.renew(gram)
            computed, precision = computed + rows.computed, str(rows.table.dtype)
        tau = state.tau()
        f, worst = state.f, float(state.violations().max())
        # double precision certifies no less; what is coarser than the default tol is no end
        tol = max(self.tol, min(state.resolution(), 1e-3))
        limited = bool(worst > tol and steps >= limit)
        message = "converged" if worst <= tol else "no step lowers the violation further"
        s, at_bound = state.a.sum(axis=1), state.at_bound()
        details: dict[str, Any] = {
            "violation": worst,
            "tol": float(tol),
            "objective": state.objective(),
            "method": f"one row at a time ({self.shape})",
            "rows_computed": int(computed),
            "precision": precision,
            "limited": limited,
            "free": [int(np.count_nonzero((s > 0.0) & ~at_bound))],
            "bounded": [int(np.count_nonzero(at_bound))],
        }
        message = "iteration limit" if limited else message
        report = Report(worst <= tol, steps, state.gap(), message, details)
        beta = self.bias * tau.sum(axis=0, keepdims=True)
        W = np.where(((s > 0.0) & ~at_bound)[:, None] & (tau != 0.0), np.inf, 0.0)
        return Solution(tau, W, f, NoSpread(gram.diag()), beta, np.ones(len(codes)), report)

    def _climb(self, state: _Multipliers, rows: RowCache, limit: int) -> int:
        """Make up to ``limit`` steps, each on the row that violates optimality most."""
        n, k = state.a.shape
        box, steps, since, grown = self.shape == "weston_watkins", 0, 0, 0.0
        spell, call = max(20_000, 20 * n), max(100, CALL // (n * k))
        while steps < limit:
            budget = min(limit - steps, spell - since, call)  # an interrupt is heard between calls
            made, violation, wanted, rows.clock, gained = machines.climb_joint(
                rows.table, rows.slot_of, rows.used, state.codes, state.bound, state.q,
                state.a, state.f, float(self.bias), box, self.tol, budget, rows.clock,
            )  # fmt: skip
            steps, since, grown = steps + made, since + made, grown + gained
            if violation <= self.tol:
                break
            if wanted >= 0:
                if rows.can_grow and rows.next_free >= rows.capacity:
                    rows.grow()
                rows.fetch(np.array([wanted]))
            if since >= spell:
                if grown <= 1e-12 * abs(state.objective()):  # rounding
                    break
                since, grown = 0, 0.0
        return steps


class _Multipliers:
    """a (n, k) of (3), zero for the class of the row, and the functions f (n, k) that follow."""

    def __init__(
        self, solver: JointHinge, codes: Index, bound: Array, diagonal: Array, k: int
    ) -> None:
        self.shape, self.bias, self.bound = solver.shape, solver.bias, bound
        self.codes = codes.astype(np.int64)
        self.a, self.f = np.zeros((len(codes), k)), np.zeros((len(codes), k))
        self.own = codes[:, None] == np.arange(k)
        q = diagonal + float(self.bias)
        # a row that the kernel does not see: a step of any size is a step towards its optimum
        self.q = np.where(q > 1e-12 * q.mean(), q, 1.0 / bound)

    def tau(self) -> Array:
        """The coefficients (n, k); each row sums to zero."""
        return np.where(self.own, self.a.sum(axis=1, keepdims=True), -self.a)

    def renew(self, gram: Gram) -> None:
        """Take f from the coefficients, free of what rounding has added up."""
        tau = self.tau()
        self.f = np.ascontiguousarray(gram @ tau + float(self.bias) * tau.sum(axis=0))

    def slopes(self) -> Array:
        """m of (1), (n, k); minus infinity for the class of the row."""
        return np.where(self.own, -np.inf, 1.0 - self.f[self.own][:, None] + self.f)

    def at_bound(self) -> Mask:
        """Which rows (n,) have a multiplier, or their sum, at its bound."""
        most = self.a.max(axis=1) if self.shape == "weston_watkins" else self.a.sum(axis=1)
        return np.asarray(most >= FULL * self.bound)

    def violations(self) -> Array:
        """By how much each row (n,) misses optimality, in units of f."""
        m = self.slopes()
        if self.shape == "weston_watkins":
            up = np.where(self.a < self.bound[:, None], m, -np.inf)
            down = np.where(self.a > 0.0, -m, -np.inf)
            return np.asarray(np.maximum(np.maximum(up, down).max(axis=1), 0.0))
        least = np.where(self.a > 0.0, m, np.inf).min(axis=1)
        least = np.where(self.at_bound(), least, np.minimum(least, 0.0))
        return np.asarray(np.maximum(m.max(axis=1), 0.0) - least)

    def resolution(self) -> float:
        """What rounding leaves of a slope in double precision, in units of f."""
        return 4.0 * float(np.finfo(np.float64).eps * self.q.max() * np.abs(self.tau()).sum())

    def losses(self) -> Array:
        """xi (n,) of (2)."""
        over = np.maximum(self.slopes(), 0.0)
        return np.asarray(over.sum(axis=1) if self.shape == "weston_watkins" else over.max(axis=1))

    def objective(self) -> float:
        """The dual (3)."""
        return float(self.a.sum() - 0.5 * np.vdot(self.tau(), self.f))

    def gap(self) -> float:
        """(4), to the precision of f."""
        gap = np.vdot(self.tau(), self.f) + self.bound @ self.losses() - self.a.sum()
        return max(float(gap), 0.0)
