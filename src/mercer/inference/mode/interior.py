"""The box-constrained quadratic programme by interior points, where steps along pairs stall.

A column of another scale or a huge C makes the programme of a support vector machine ill
conditioned, and steps along pairs then need millions of turns. Newton steps on the optimality
conditions do not mind: 20 to 60 of them do, each with one factorisation, n x n or m x m where the
kernel has m explicit features (Mehrotra 1992; Gertz & Griffin 2010; Theory (S3)).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, cholesky

from mercer.core.arrays import Array, Index
from mercer.inference.mode.programme import (
    Mask,
    Programme,
    directions,
    gap_of,
    levels_of,
    sums_at,
    violations,
)

# Newton steps before the best point so far is returned, and how much of the way to a bound is gone.
MOST_STEPS, CLOSEST = 100, 0.995
# Free variables up to which their equations are solved, and how often.
SMALL, LARGEST, ROUNDS = 400, 4000, 8
# Rounds of refinement of a linear solution.
REFINEMENTS = 5


def interior(P: Programme, K: Array, tol: float, *, features: bool) -> tuple[Array, int]:
    """Maximise ``P`` from inside its box; returns a feasible point (N,) and the steps made.

    Parameters
    ----------
    P : the programme over N variables that belong to n points.
    K : (n, n) the Gram matrix, or (n, m) the features F with K = F F'.
    tol : the violation of optimality, in units of f, that is wanted.
    features : whether ``K`` holds features.
    """
    if not np.any(P.high > P.low):
        return P.start, 0
    inside = _Inside(P, K, features)
    best, least = P.start, inside.judged(P.start)[1]
    steps, narrowest, smallest = 0, np.inf, inside.torn()
    before = np.ones(len(P.start), dtype=bool)
    while steps < MOST_STEPS and least > 0.0 and inside.step():
        steps += 1
        gap = inside.mean_gap()
        error = inside.error()
        if gap > 100.0 * narrowest or error > max(inside.torn(), 1e3 * smallest):
            break  # rounding has the upper hand
        smallest = min(error, smallest)
        narrowest = min(gap, narrowest)
        fine = max(tol, inside.resolution())
        found = inside.rounded(fine)
        violation, rest = inside.judged(found)
        free = P.free(found)
        if np.mean(free != before) < 0.02:  # near enough for the bounds that hold to be told apart
            settled = inside.settled(found, fine)
            better, left = inside.judged(settled)
            if better < violation:
                found, violation, rest = settled, better, left
        before = free
        if violation <= tol or rest < least:
            best, least = found, 0.0 if violation <= tol else rest
    return best, steps


class _Inside:
    """A point strictly inside the box, with multipliers.

    Every |b| is cut at its kink, so that the programme is min 1/2 b'K b + c'x with b = shift + the
    sum of s x, 0 <= x <= width, and fixed sums of s x within the segments. z and v are the
    multipliers of the lower and the upper bounds, level those of the sums.
    """

    def __init__(self, P: Programme, K: Array, features: bool) -> None:
        self.P, self.K, self.features = P, K, features
        self.largest = float((K * K).sum(axis=1).max() if features else K.diagonal().max())
        cut = (P.kink > 0) & (P.low < 0) & (P.high > 0)
        below = P.high <= 0
        # b begins at the end of its box that is nearer to zero, or at its kink
        self.shift = np.where(cut, 0.0, np.where(below, P.high, P.low))
        rise, fall = np.flatnonzero(~below), np.flatnonzero(cut | below)
        rise = rise[P.high[rise] > self.shift[rise]]
        fall = fall[P.low[fall] < self.shift[fall]]
        self.owner = np.concatenate([rise, fall])
        self.s = np.repeat([1.0, -1.0], [len(rise), len(fall)])
        ends = np.concatenate([P.high[rise], -P.low[fall]])
        self.width = ends - self.s * self.shift[self.owner]
        self.columns = P.columns()
        self.point = self.columns[self.owner]
        order = np.argsort(self.point, kind="stable")
        twice = np.flatnonzero(np.diff(self.point[order]) == 0)
        self.pairs = order[twice], order[twice + 1]  # two variables of one point, s = 1 and -1
        self.alone = np.ones(len(self.owner), dtype=bool)
        self.alone[np.concatenate(self.pairs)] = False
        self.cost = P.kink[self.owner] - self.s * P.linear[self.owner]
        self.A = np.zeros((len(P.segments) if P.bias else 0, len(self.owner)))
        for row, (begin, end, _) in zip(self.A, P.segments, strict=False):
            row[:] = np.where((self.owner >= begin) & (self.owner < end), self.s, 0.0)
        starts = (P.start - self.shift)[self.owner] * self.s
        whole = np.bincount(self.owner, minlength=len(P.low)) > 1  # cut in two: b = x - x'
        starts = np.where(whole[self.owner], np.maximum(starts, 0.0), starts)
        self.sums = self.A @ starts
        self.x = 0.5 * self.width
        g = self.gradient(self.x)
        # large enough for the first equations to be well conditioned
        common = max(float(np.abs(g).max()), 0.1 * self.largest * float(self.width.max()), 1e-8)
        self.z, self.v = np.maximum(g, 0.0) + common, np.maximum(-g, 0.0) + common
        self.level = np.zeros(len(self.A))

    def beta(self, x: Array) -> Array:
        """The variables of the programme, (N,)."""
        return self.shift + sums_at(self.owner, self.s * x, len(self.shift))

    def product(self, t: Array) -> Array:
        """K t, (n,)."""
        return np.asarray(self.K @ (self.K.T @ t) if self.features else self.K @ t)

    def fitted(self, beta: Array) -> Array:
        """K b at the point of every variable, (N,)."""
        return self.product(sums_at(self.columns, beta, len(self.K)))[self.columns]

    def gradient(self, x: Array) -> Array:
        """Of 1/2 b'K b + c'x."""
        return np.asarray(self.s * self.fitted(self.beta(x))[self.owner] + self.cost)

    def judged(self, beta: Array) -> tuple[float, float]:
        """The largest violation at ``beta``, and how far it can lie below the maximum."""
        slope = self.P.linear - self.fitted(beta)
        gap = gap_of(self.P, beta, slope, levels_of(self.P, beta, slope))
        return violations(self.P, beta, slope), gap

    def resolution(self) -> float:
        """What rounding leaves of a slope, in units of f."""
        return float(4e-16 * self.largest * np.abs(self.beta(self.x)).sum())

    def torn(self) -> float:
        """The error of stationarity beyond which no further step will mend it."""
        most = float(max(self.z.max(), self.v.max()))
        return max(1e5 * self.resolution(), 1e-2 * most)

    def mean_gap(self) -> float:
        """The products of multipliers and distances to the bounds, mean."""
        gap = self.x @ self.z + (self.width - self.x) @ self.v
        return float(gap / (2 * len(self.x)))

    def error(self) -> float:
        """The largest error of stationarity, in units of f, and of the sums, in units of b."""
        total = max(float(np.abs(self.x).sum()), 1e-300)
        sums = float(np.abs(self.sums - self.A @ self.x).max(initial=0.0)) / total
        return max(float(np.abs(self.stationarity()).max()), sums)

    def stationarity(self) -> Array:
        return np.asarray(self.gradient(self.x) - self.level @ self.A - self.z + self.v)

    def step(self) -> bool:
        """One predictor and corrector step (Mehrotra); False if none can be made."""
        x, z, v, room = self.x, self.z, self.v, self.width - self.x
        D = z / x + v / room
        try:
            solve = self._solver(1.0 / D)
        except np.linalg.LinAlgError:
            return False
        mu, dual, primal = self.mean_gap(), self.stationarity(), self.sums - self.A @ x
        lower = upper = np.zeros_like(x)  # what the products are to become: the predictor wants 0
        for corrector in (False, True):
            dx, change = solve(-dual + lower / x - z - upper / room + v, primal)
            dz = lower / x - z - z * dx / x
            dv = upper / room - v + v * dx / room
            largest = _longest([(x, dx), (room, -dx), (z, dz), (v, dv)])
            if not corrector:
                after = (x + largest * dx) @ (z + largest * dz)
                after += (room - largest * dx) @ (v + largest * dv)
                target = mu * (after / (2 * len(x)) / mu) ** 3
                lower, upper = target - dx * dz, target + dx * dv
        if not np.isfinite(largest) or not np.all(np.isfinite(dx)):
            return False
        taken = min(1.0, CLOSEST * largest)
        self.x = np.clip(x + taken * dx, 1e-300, self.width * (1.0 - 1e-16))
        self.z, self.v = z + taken * dz, v + taken * dv
        self.level = self.level + taken * change
        return taken > 1e-13

    def _solver(self, e: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
        """Solve (Q + 1/e) dx - A'change = r with A dx = primal, for r (N',) and primal (g,)."""
        M = sums_at(self.point, e, len(self.K))
        if self.features:
            B = (self.K.T * M) @ self.K
        else:
            R = np.sqrt(M)
            B = R[:, None] * self.K * R
        B[np.diag_indices_from(B)] += 1.0
        L = _factor(B)

        def behind(r: Array) -> Array:
            """(Q + D)^-1 r, for r (N', k)."""
            q = np.stack([sums_at(self.point, c, len(M)) for c in self.s * e * r.T], axis=1)
            if self.features:
                Kt = self.K @ _behind(L, self.K.T @ q)
                return np.asarray(e[:, None] * (r - self.s[:, None] * Kt[self.point]))
            t = R[:, None] * _behind(L, q / np.where(R > 0, R, 1.0)[:, None])
            # dx = e (r - s K t) by t alone: for small D the difference would be all rounding
            moved = self.s[:, None] * t[self.point]
            one, other = self.pairs
            dx = np.where(self.alone[:, None], moved, 0.0)
            for k, j in ((one, other), (other, one)):
                same = (self.s[k] * self.s[j])[:, None]
                between = e[j][:, None] * (r[k] - same * r[j])
                dx[k] = (e[k] / M[self.point[k]])[:, None] * (between + moved[k])
            return dx

        across = behind(self.A.T) if len(self.A) else np.zeros((len(e), 0))
        inner = self.A @ across

        def once(r: Array, primal: Array) -> tuple[Array, Array]:
            free = behind(r[:, None])[:, 0]
            if not len(self.A):
                return free, np.zeros(0)
            change = np.asarray(np.linalg.pinv(inner) @ (primal - self.A @ free))
            return free + across @ change, change

        def solve(r: Array, primal: Array) -> tuple[Array, Array]:
            dx, change = once(r, primal)
            size = np.inf
            for _ in range(REFINEMENTS):  # free variables have huge e, and rounding grows with it
                t = sums_at(self.point, self.s * dx, len(M))
                left = r - self.s * self.product(t)[self.point] - dx / e + change @ self.A
                short = primal - self.A @ dx
                if not np.abs(left).max() < 0.5 * size:
                    break
                size = float(np.abs(left).max())
                more, other = once(left, short)
                dx, change = dx + more, change + other
            return dx, change

        return solve

    def settled(self, beta: Array, tol: float) -> Array:
        """The optimum if the right bounds hold: free variables solve their equations.

        Those that leave their box are held from then on, those that a bound holds against their
        slope are let go; a few rounds, and the best of them.
        """
        P = self.P
        best, least = beta, self.judged(beta)[0]
        held, sides = ~P.free(beta), np.sign(beta)
        for _ in range(ROUNDS):
            F = np.flatnonzero(~held)
            if not len(F) or len(F) > LARGEST:
                break
            wanted = P.linear[F] - sides[F] * P.kink[F]
            fixed = np.where(held, beta, 0.0)
            wanted = wanted - self.fitted(fixed)[F]
            ends = [(int(begin), int(end)) for begin, end, _ in P.segments]
            sums = [float((P.start - fixed)[begin:end].sum()) for begin, end in ends]
            parts = [(begin <= F) & (end > F) for begin, end in ends]
            before, beta = beta, fixed
            beta[F] = self._equations(F, before[F], wanted, parts, sums)
            low = np.where((P.kink > 0) & (sides > 0), np.maximum(P.low, 0.0), P.low)
            high = np.where((P.kink > 0) & (sides < 0), np.minimum(P.high, 0.0), P.high)
            out = (beta < low) | (beta > high)
            beta = np.clip(beta, low, high)
            slope = P.linear - self.fitted(beta)
            violation = violations(P, beta, slope)
            if violation < least and not np.any(out):
                best, least = beta, violation
            if least <= 0.5 * tol:
                break
            held |= out
            levels = [
                np.mean((slope - sides * P.kink)[F[inside]]) if P.bias and np.any(inside) else 0.0
                for inside in parts
            ]
            up, down = directions(P, beta, slope)
            for (begin, end, _), level in zip(P.segments, levels, strict=True):
                part = slice(begin, end)
                rise, fall = up[part] - level > 0.5 * tol, down[part] - level < -0.5 * tol
                let_go = held[part] & ~out[part] & (rise | fall)
                held[part] &= ~let_go
                begins = let_go & (beta[part] == 0.0)
                sides[part] = np.where(begins, np.where(rise, 1.0, -1.0), sides[part])
        return best

    def _equations(
        self, F: Index, b: Array, wanted: Array, parts: list[Mask], sums: list[float]
    ) -> Array:
        """The free variables F, near ``b``: K_FF b + level = wanted, with the sums kept."""
        G = self.K[self.columns[F]]
        Q = G @ G.T if self.features else G[:, self.columns[F]]
        A = np.array(parts, dtype=np.float64)[: len(self.A)]
        short, level = np.asarray(sums[: len(A)]), np.zeros(len(A))
        if len(F) <= SMALL:  # there may be more free variables than features: the least change
            unit = float(Q.diagonal().max())
            whole = np.block([[Q / unit, A.T], [A, np.zeros((len(A), len(A)))]])
            inverse = np.linalg.pinv(whole, rcond=1e-12, hermitian=True)
            for _ in range(REFINEMENTS):
                left = np.concatenate([(wanted - Q @ b) / unit - level @ A, short - A @ b])
                change = inverse @ left
                b, level = b + change[: len(F)], level + change[len(F) :]
            return b
        L = _factor(Q)
        across = _behind(L, A.T)
        inner = A @ across
        for _ in range(2 * REFINEMENTS):  # the ridge is only in the factor
            free = _behind(L, wanted - Q @ b - level @ A)
            change = np.linalg.pinv(inner) @ (A @ free + A @ b - short)
            b, level = b + free - across @ change, level + change
        return b

    def rounded(self, tol: float) -> Array:
        """The variables, put onto the bounds that hold them; their sums are those of the start."""
        x, P = self.x.copy(), self.P
        x[(self.z > 0.25 * tol) & (self.z > self.v)] = 0.0
        held = (self.v > 0.25 * tol) & (self.v >= self.z)
        x[held] = self.width[held]
        for row, total in zip(self.A, self.sums, strict=True):
            for held_too in (False, True):  # first by those that are free
                wrong = float(total - row @ x)
                if abs(wrong) <= 1e-13 * float(np.abs(row) @ x):
                    break
                room = np.where(row * wrong > 0, self.width - x, x) * (row != 0)
                room *= held_too | ((x > 0) & (x < self.width))
                share = min(1.0, abs(wrong) / max(float(room.sum()), 1e-300))
                x += np.sign(row * wrong) * share * room
        beta = self.beta(x)
        slack = 1e-14 * np.maximum(np.abs(beta), P.high - P.low)  # shift + width is not quite high
        beta = np.where(beta >= P.high - slack, P.high, beta)
        return np.where(beta <= P.low + slack, P.low, beta)


def _longest(pairs: list[tuple[Array, Array]]) -> float:
    """The longest step that keeps every value + step * change at zero or above."""
    longest = 1.0 / CLOSEST
    for value, change in pairs:
        falls = change < 0
        longest = min(longest, float((-value[falls] / change[falls]).min(initial=np.inf)))
    return longest


def _factor(B: Array) -> Array:
    """A triangle of B, of a slightly larger matrix where rounding has made B indefinite.

    Whoever uses it refines the solution by B itself.
    """
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            S = B if ridge == 0.0 else B + np.diag(ridge * len(B) * B.diagonal())
            return np.asarray(cholesky(S, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("no multiple of the diagonal makes the matrix definite")


def _behind(L: Array, b: Array) -> Array:
    return np.asarray(cho_solve((L, True), b, check_finite=False))
