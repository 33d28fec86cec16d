"""The variational Gaussian: the best Gaussian posterior, and a guaranteed bound on the evidence.

The unknowns are the 2n site parameters (h, W): Sigma = (K^-1 + W)^-1 and a = h - W K a. Per point,
nu_i = w_i E[g(y_i, f_i)] under the Gaussian. Theory (A11), (A12).
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from mercer.core.arrays import Array, host
from mercer.core.deadline import check_time
from mercer.inference.base import Evidence, Solution, check_limits
from mercer.inference.mode.newton import refuse_basis
from mercer.inference.sites.base import SiteInference, Sites, Task
from mercer.inference.variational import apart, factored
from mercer.inference.variational.natural import Point, begin, climb, place, seen, settled
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss, is_number
from mercer.losses.numbers.defaults import slopes

NOISE = 1e-12  # relative rounding error of the free energy that a step is forgiven
FAR = 10.0  # factor by which a fixed-point step changes W at most, where W > 0
SHRINK = 0.7  # a Newton step must bring the residual down to this share,
GAIN = 1e-3  # or the free energy down by this much
STUCK = 1e8  # a damping beyond which nothing moves any more
FORCING = 1e-3  # relative accuracy of the linear system while far from the solution
CACHE = 2**16  # numbers squared at a time
KRYLOV = 60  # products with its matrix at most; what is left is made up by the next step


class Variational(SiteInference):
    """The Gaussian q(f) = N(mu, Sigma) with the smallest divergence KL(q || posterior).

    E = -F is a lower bound on the log evidence, for every normalised loss:

        F = sum_i w_i E_q[g(y_i, f_i)] + 1/2 a'K a + 1/2 log|I + K W| - 1/2 sum_i W_i Sigma_ii

    with mu = mean + K a and Sigma = (K^-1 + W)^-1. At the optimum a_i = -dE[w g]/dmu_i and
    W_i = 2 dE[w g]/dSigma_ii: 2n numbers, found by a safeguarded Newton method that never raises F.
    W_i is negative where the loss is concave on average (normalised hinge, Student's t). For a
    convex loss the optimum is unique; otherwise it is a local one. Several latent functions are
    independent under q: a bound all the same. On few inducing points natural
    gradient steps find it, in O(n m^2) each.

    Parameters
    ----------
    factors : None for the best covariance, or M >= 1 for the smaller family Sigma = D + C C' of the
        thesis, D diagonal and C (n, M): a looser bound, slower, and dependent on ``jitter``.
    tol : stop when |a + dE/dmu| sqrt(Sigma_ii) and |W - 2 dE/dSigma| Sigma_ii are below; with
        ``factors``, when no component of the gradient of F in whitened variables is above.
    max_iter : factorisations at most (with ``factors``, evaluations of F after them); reaching it
        is reported, not raised.
    jitter : with ``factors`` only, which needs K^-1: K_ii is raised by this share of itself; 0 if
        the kernel has white noise of its own.

    Reference: M. Seeger's thesis (4.7), (5.2)-(5.3), appendix C; Opper & Archambeau (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(4.0 * kernels.RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> y = np.array([[1.0], [-1.0]])
    >>> solution = Variational().solve(gram, y, losses.NormalizedHinge())
    >>> solution.report.converged, solution.alpha.ravel().round(4)
    (True, array([ 0.515, -0.515]))
    """

    needs: ClassVar[tuple[str, ...]] = ("expected", "expected_higher")
    latent_needs: ClassVar[tuple[str, ...] | None] = ("expected",)
    takes_latents: ClassVar[bool] = True
    serves_device: ClassVar[bool] = True
    bounds_evidence: ClassVar[bool] = True

    def __init__(
        self,
        factors: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        jitter: float = 1e-6,
    ) -> None:
        if factors is not None and not (isinstance(factors, (int, np.integer)) and factors >= 1):
            raise ValueError(
                f"Variational needs factors=None or a whole number >= 1, not {factors!r}"
            )
        check_limits("Variational", tol, max_iter)
        if not (jitter == 0.0 or is_number(jitter, 0.0, 1.0)):
            raise ValueError(f"Variational needs 0 <= jitter < 1, not {jitter!r}")
        self.factors, self.tol, self.max_iter, self.jitter = factors, tol, max_iter, jitter

    @property
    def serves_inducing(self) -> bool:
        return self.factors is None

    def check_basis(self, loss: Loss, y: Array, H: Array) -> None:
        if self.factors is not None:
            raise ValueError(
                "a factor-analysed covariance needs K^-1, and functions without a penalty leave it "
                "none: use Variational(factors=None), or basis=None with the functions in the "
                "kernel, e.g. kernel + Constant() + Linear()"
            )
        super().check_basis(loss, y, H)

    def infer(self, task: Task, start: Solution | None) -> Solution:
        if not task.loss.latents:
            return super().infer(task, start)
        refuse_basis(task)
        if self.factors is not None:
            raise ValueError(
                "a factor-analysed covariance is that of one latent function, and "
                f"{type(task.loss).__name__} has several: use Variational()"
            )
        return apart.solved(task, start, self.tol, self.max_iter)

    def evidence(
        self, gram: Gram, y: Array, loss: Loss, solution: Solution, *, spread: Array | None = None
    ) -> Evidence:
        """See :meth:`Inference.evidence`."""
        if loss.latents:
            return apart.bound(gram, y, loss, solution)
        return super().evidence(gram, y, loss, solution, spread=spread)

    def sites(self, task: Task, start: Sites | None) -> Sites:
        best = partial(climb if task.gram.few else descend, task, start, self.tol, self.max_iter)
        if self.factors is None:
            return best()
        given = (self.factors, self.tol, self.max_iter, self.jitter)
        return factored.sites(task, start, best, *given)

    def score(self, task: Task, sites: Sites) -> Evidence:
        rest = getattr(sites.factor, "divergence", None)  # known to factor-analysed covariances
        if rest is None:
            var, rest = seen(sites.factor, sites.W)
            rest += 0.5 * float(sites.a @ (sites.f - task.mean))
        else:
            var = sites.factor.cov_diag()

        def expected(loss: Loss) -> float:
            return float(task.w @ loss.expected(task.y, sites.f, var)[0])

        gradient = {name: -slope for name, slope in slopes(task.loss, expected).items()}
        return Evidence(-expected(task.loss) - rest, loss_gradient=gradient)


def descend(task: Task, start: Sites | None, tol: float, max_iter: int) -> Sites:
    """Return the optimum from ``start`` or from the prior.

    Newton steps; one that fails is tried again with more damping, one that does well lessens it. A
    cold start makes two fixed-point steps first, halved while F rises.
    """
    point, used = begin(task, start)
    path = [point.free]
    waiting = 0 if start is not None and used == 1 else 2
    rate, damping = 1.0, 0.0
    while point.residual > tol and used < max_iter and damping < STUCK:
        check_time()
        h, W = mixed(task, point, rate) if waiting else newton(task, point, damping)
        trial = place(task, h, W)
        rounding = NOISE * (1.0 + abs(point.free))
        gain = -np.inf if trial is None else point.free - trial.free
        good = trial is not None and trial.free <= point.free + rounding
        if waiting:
            waiting, rate = waiting - 1, 0.5 * rate
        else:  # the residual or F must fall clearly; a damped step need not lower the residual
            least = GAIN if damping == 0.0 else 1e2 * rounding
            lower = trial is not None and trial.residual < SHRINK * point.residual
            good = good and (lower or gain > least)
            damping = damping / 4.0 if good else max(4.0 * damping, 0.5)
            damping = 0.0 if damping < 0.05 else damping
        used += 1
        if good:
            assert trial is not None
            point, trial, rate = trial, point, 1.0
            path.append(point.free)
        if trial is not None:
            trial.factor.release()  # K, the factor that is kept and the next: three n x n arrays
    return settled(task, point, used, path, tol)


def mixed(task: Task, point: Point, rate: float) -> tuple[Array, Array]:
    """Sites after a fixed-point step of length ``rate`` <= 1 towards thesis (5.2)-(5.3).

    The mean's part is Newton's step for the mean. W goes straight to 2 d nu/dv (a natural gradient
    step); where it stays positive, for convex losses, it goes along the logarithm and by a factor
    of ten at most: W spans many decades there.
    """
    if task.loss.convex:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.clip(point.bend / point.W, 1.0 / FAR, FAR)
        new = np.where(point.W > 0.0, point.W * ratio**rate, rate * point.bend)
    else:
        new = point.W + rate * (point.bend - point.W)
    return point.h + rate * (-point.slope - point.a) + point.shift * (new - point.W), new


def newton(task: Task, point: Point, damping: float = 0.0) -> tuple[Array, Array]:
    """Sites after a Newton step on the fixed-point equations, shortened where it goes far.

    With r_W = bend - W, r_p = -slope - a, T3 and T4 the third and fourth derivatives of nu in m,
    Q = Sigma o Sigma (elementwise) and c = 1 + damping,

        [c I + 1/2 T4 Q - 1/(2c) T3 Sigma T3 Q] dW = r_W + T3 o (Sigma r_p) / c
        dh = (r_p + 1/2 T3 o (Q dW)) / c + K a o dW

    from dm = Sigma (dh - K a o dW) and dSigma_ii = -(Q dW)_i. Damping > 0 is an implicit Euler step
    of length 1/damping along the natural gradient flow of F, and so goes downhill if it is large
    enough. GMRES solves the system in the free-of-scale unknown Sigma_ii dW_i. dW is kept to a
    factor of four of W for convex losses, to 0.75 of |W| or 1/Sigma_ii otherwise (the fixed point
    is never cut off), and dh follows from it.
    """
    if point.higher is None:
        m = task.mean + point.shift
        third, fourth = task.loss.expected_higher(task.y, m, point.var)
        point.higher = task.w * third, task.w * fourth
    third, fourth = point.higher
    sigma = point.factor.cov()
    c = 1.0 + damping
    r_W, r_p = point.bend - point.W, -point.slope - point.a

    def product(x: Array) -> Array:
        u = 0.5 * _squared(sigma, x / point.var)
        v = host(sigma @ (third * u))
        return np.asarray(c * x + point.var * (fourth * u - third * v / c))

    n = len(r_W)
    right = point.var * (r_W + third * host(sigma @ r_p) / c)
    system = LinearOperator((n, n), matvec=product, dtype=np.float64)
    accuracy = max(min(FORCING, 0.1 * point.residual), 1e-10)
    x, _ = gmres(system, right, rtol=accuracy, restart=min(n, KRYLOV), maxiter=1)
    W = point.W
    if task.loss.convex:
        low, high = W / 4.0, 4.0 * W
    else:
        reach = 0.75 * np.maximum(np.abs(W), 1.0 / point.var)
        low, high = W - reach, W + reach
    low, high = np.minimum(low, point.bend), np.maximum(high, point.bend)
    dW = np.clip(W + x / point.var, low, high) - W
    p = (r_p + 0.5 * third * _squared(sigma, dW)) / c
    task.gram.give(sigma)  # its memory serves the next factor
    return point.h + p + point.shift * dW, W + dW


def _squared(sigma: Array, x: Array) -> Array:
    """(Sigma o Sigma) x, some rows at a time: the squares stay in the cache."""
    rows = max(1, CACHE // len(x))
    parts = [host(np.square(sigma[i : i + rows]) @ x) for i in range(0, len(x), rows)]
    return np.concatenate(parts)
