"""Dual: the mode of any convex loss, kinked ones included, through its dual; theory (K3), (K4)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.inference.base import Solution, ones_if_none
from mercer.inference.mode import Block, Mode, NoSpread, check_bounded
from mercer.inference.newton import ModeInference, weighted
from mercer.inference.prox import prox, states_derivatives
from mercer.inference.proximal import Observed, maximise
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss


class Dual(ModeInference):
    """The maximum of -1/2 a'K a - sum_i w_i g*(-a_i / w_i), H'a = 0, for a convex loss g.

    Block-coordinate ascent: the coefficients of one block of points are maximised at a time, the
    others fixed, and the blocks are swept until the duality gap

        gap = sum_i w_i [ g(f_i) + g*(-a_i / w_i) ] + a'f

    is small. Inside a block the maximum is found by proximal steps on the dual: each replaces the
    loss by its Moreau envelope, which is smooth, and takes damped Newton steps on it. One block
    (the default up to 2000 points, and always with a basis, which ties all coefficients together)
    ends after some tens of factorisations whatever the kernel; single coordinates (block=1) are
    the classical ascent, which is slow for strongly correlated kernels.

    Parameters
    ----------
    tol : stop at a gap of tol * max(1, |objective|); a loss that states no derivatives is known
        to about 1e-8 only, and stops at 1e-6 at best.
    max_iter : sweeps at most; reaching it is reported, and an estimator warns of it.
    block : points per block, or None for all of up to 2000 and 1000 beyond.

    Reference: Jaakkola & Haussler (1999), Theorem 1, (26)-(27); Rockafellar (1976) for the
    proximal steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg import DenseGram
    >>> from mercer.losses import Hinge
    >>> gram = DenseGram(RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> solution = Dual().solve(gram, np.array([[1.0], [-1.0]]), Hinge())
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 1., -1.])
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("conjugate",)

    def __init__(self, tol: float = 1e-10, max_iter: int = 1000, block: int | None = None) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.block = block

    def check(self, loss: Loss) -> None:
        """Refuse a loss with several latent functions."""
        super().check(loss)
        if loss.response == "multiclass":
            raise ValueError(
                f"Dual inference is for one latent function, and {type(loss).__name__} has one for "
                "each class; use inference='newton'"
            )

    def solve(
        self,
        gram: Gram,
        y: Array,
        loss: Loss,
        *,
        mean: Array | None = None,
        basis: Array | None = None,
        weights: Array | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """See :meth:`Inference.solve`."""
        n, w = len(y), ones_if_none(weights, len(y))
        H = np.zeros((n, 0)) if basis is None else basis
        size = (n if n <= 2000 else 1000) if self.block is None else max(1, self.block)
        size = n if H.shape[1] else size
        tol = self.tol if states_derivatives(loss) else max(self.tol, 1e-6)
        columns, reports = [], []
        for j, column in enumerate(y.T):
            offset = np.zeros(n) if mean is None else mean[:, j]
            a, b = np.zeros(n), np.zeros(H.shape[1])
            if start is not None:
                a = start.alpha[:, j].copy()
                b = b if start.beta is None else start.beta[:, j].copy()
            seen = Observed(loss, column, w)
            a, b, f, report = self._ascend(gram, seen, offset, H, a, b, min(size, n), tol)
            local = weighted(loss, column, w)
            mode = Mode(a[:, None], b[:, None], f[:, None], f[:, None], *local(f[:, None]))
            if not hasattr(loss, "pieces"):  # straight lines have an end, curves may not
                check_bounded(mode, local, H)
            columns.append((a, b, f, curvature(seen, a, f, gram.diag())))
            reports.append(report)
        alpha, beta, latent, W = (np.column_stack(parts) for parts in zip(*columns, strict=True))
        total = {
            "converged": all(r["converged"] for r in reports),
            "iterations": max(r["iterations"] for r in reports),
            "objective": sum(r["objective"] for r in reports),
            "gap": sum(r["gap"] for r in reports),
        }
        if len(reports) > 1:
            total["columns"] = reports
        spread = NoSpread(gram.diag())
        W = W[:, 0] if W.shape[1] == 1 else W
        return Solution(alpha, W, latent, spread, beta if len(beta) else None, w, total)

    def _ascend(
        self,
        gram: Gram,
        seen: Observed,
        mean: Array,
        H: Array,
        a: Array,
        b: Array,
        size: int,
        tol: float,
    ) -> tuple[Array, Array, Array, dict[str, Any]]:
        """Sweep the blocks; return a (n,), b (k,), f (n,) and the report."""
        n = len(mean)
        if size == n:
            a, b, f, gap, steps = maximise(gram, seen, mean, H, a, b, tol, self.max_iter)
            return a, b, f, _report(seen, a, f, f - H @ b - mean, gap, steps, tol)
        rng = np.random.default_rng(0)
        f = mean + np.asarray(gram @ a[:, None])[:, 0]
        sweeps, gap = 0, seen.gap(a, f, f)
        while sweeps < self.max_iter and not gap <= tol * max(1.0, abs(_primal(seen, a, f, mean))):
            order = rng.permutation(n)
            for begin in range(0, n, size):
                index = np.sort(order[begin : begin + size])
                rows = gram.rows(index)
                new = _block(rows[:, index], seen.part(index), a[index], f[index], tol)
                f += (new - a[index]) @ rows
                a[index] = new
            f = mean + np.asarray(gram @ a[:, None])[:, 0]  # rounding does not add up
            sweeps, gap = sweeps + 1, seen.gap(a, f, f)
        return a, b, f, _report(seen, a, f, f - mean, gap, sweeps, tol)


def _block(K: Array, seen: Observed, a: Array, f: Array, tol: float) -> Array:
    """The best coefficients of one block, K (m, m), the others fixed."""
    if len(a) == 1:
        kappa = np.maximum(np.diagonal(K), 1e-300)
        return prox(seen.loss, seen.y, seen.w, f - kappa * a, kappa)[1]
    rest = f - K @ a
    H = np.zeros((len(a), 0))
    return maximise(Block(K).gram(), seen, rest, H, a, np.zeros(0), 0.1 * tol, 8)[0]


def _primal(seen: Observed, a: Array, f: Array, mean: Array) -> float:
    return float(seen.w @ seen.loss.value(seen.y, f) + 0.5 * a @ (f - mean))


def _report(
    seen: Observed, a: Array, f: Array, Ka: Array, gap: float, steps: int, tol: float
) -> dict[str, Any]:
    objective = float(seen.w @ seen.loss.value(seen.y, f) + 0.5 * a @ Ka)
    return {
        "converged": bool(gap <= 1.001 * tol * max(1.0, abs(objective))),
        "iterations": int(steps),
        "objective": objective,
        "gap": float(gap),
    }


def curvature(seen: Observed, a: Array, f: Array, variance: Array) -> Array:
    """How firmly the loss holds each f_i (n,): infinitely at a kink, w g'' elsewhere.

    At a kink the coefficient lies strictly between the two slopes, and f_i does not move when
    other points do; it is found by a small proximal step that returns to where it started.
    """
    kappa = 1e-3 * np.maximum(variance, 1e-300)
    _, _, slope = prox(seen.loss, seen.y, seen.w, f - kappa * a, kappa)
    with np.errstate(divide="ignore"):
        return np.where(slope < 1e-6, np.inf, (1.0 / np.maximum(slope, 1e-6) - 1.0) / kappa)
