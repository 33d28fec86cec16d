"""Newton: the mode of a smooth loss under a kernel prior; theory (K1), (K4).

Several classes that share a kernel are solved for at once; theory (K2), (A15).
"""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np
from scipy.special import softmax

from mercer.core.arrays import Array, half_solve
from mercer.inference.base import Inference, Report, Solution, Task, joined_report
from mercer.inference.mode.descent import Landscape, Local, Mode, NoSpread, Prepare, Step, single
from mercer.inference.mode.joint import JointSteps, pairs
from mercer.inference.mode.prox import conjugate
from mercer.linalg.dense.coupled import CoupledFactor, coupled
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.losses.several.base import SeveralLatents
from mercer.losses.softmax import Softmax


def shared(loss: Loss, codes: Array, w: Array, classes: int) -> Local:
    """Return f (n, c) -> the weighted loss, its slope w (p - own) and, for the curvature, w p."""
    own = np.eye(classes)[codes.astype(np.intp)]

    def local(f: Array) -> tuple[float, Array, Array]:
        p = softmax(f, axis=1)
        return float(w @ loss.value(codes, f)), w[:, None] * (p - own), w[:, None] * p

    return local


def blocks(gram: Gram, H: Array) -> Prepare:
    """Newton steps for c latent functions with one K; the curvature is given by w p (n, c).

    With E_c = (K + diag(w p_c)^-1)^-1 and M = sum_c E_c, the operator C of formula (2) is
    C v = E_c v_c - E_c M^-1 sum_e E_e v_e: c + 1 factorisations (GPML 3.5; Seeger & Jordan 2004).
    Basis coefficients sum to zero over classes: a function added to all changes no probability.
    """

    def prepare(curvature: Array) -> Step:
        c = curvature.shape[1]
        factor = coupled(gram, curvature)
        A = _basis_matrix(factor, H, c) if H.shape[1] else H

        def step(s: Array, a: Array) -> tuple[Array, Array]:
            da = gram.step(factor, s, a)[0]
            if not H.shape[1]:
                return da, np.zeros((0, c))
            rhs = (H.T @ (a + da)).T.ravel()  # class by class
            db = np.asarray(np.linalg.solve(A, rhs), dtype=np.float64).reshape(c, -1).T
            return da - factor.solve(H @ db), db

        return step

    return prepare


def _basis_matrix(factor: CoupledFactor, H: Array, c: int) -> Array:
    """H'C H over c classes and functions, made regular where all classes move together."""
    assert factor.shared is not None
    if not factor.factors:  # one factor for the weights of all classes
        units = np.eye(c)[:, None, :, None] * H.T[None, :, None, :]  # class, function, class, row
        A = np.array([[H.T @ factor.solve(V.T) for V in one] for one in units])
        A = np.moveaxis(A, 3, 2).reshape(c * H.shape[1], -1)
        size = np.diagonal(A).reshape(c, -1).sum(axis=0)
        return np.asarray(A + np.kron(np.ones((c, c)), np.diag(size)))
    G = [one.solve(H) for one in factor.factors]
    halves = [half_solve(factor.shared, g) for g in G]
    A = np.block([[-left.T @ right for right in halves] for left in halves])
    for c, g in enumerate(G):
        own = slice(c * H.shape[1], (c + 1) * H.shape[1])
        A[own, own] += H.T @ g
    together = np.diag(np.diagonal(sum(H.T @ g for g in G)))
    return np.asarray(A + np.kron(np.ones((len(G), len(G))), together))


class ModeInference(Inference):
    """What every inference that ends in a mode shares: it has no evidence."""

    abstract: ClassVar[bool] = True
    has_evidence: ClassVar[bool] = False
    factors_repeatedly: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ("converged", "iterations", "objective", "gap")


class Newton(ModeInference):
    """The minimum of sum_i w_i g(y_i, f_i) + 1/2 a'K a, f = K a + H b, for a smooth loss g.

    Damped Newton steps in a and b, one factorisation of I + W^1/2 K W^1/2 with W = w g'' each. The
    answer is certified by the duality gap, where the loss is convex:

        gap = sum_i w_i [ g(f_i) + g*(-a_i / w_i) ] + a'f   >=   objective - minimum   >= 0,

    and by the gradient otherwise (a local minimum then). A mode has no spread: C = 0 in formula
    (2), and there is no evidence. Softmax is solved jointly over its classes.

    Parameters
    ----------
    tol : stop at a gap of tol * max(1, |objective|).
    max_iter : Newton steps at most; reaching it is reported, and an estimator warns of it.

    Reference: Jaakkola & Haussler (1999), Theorem 1 and (65)-(71); GPML algorithms 3.1 and 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(kernels.RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> solution = Newton().solve(gram, np.array([[1.0], [-1.0]]), losses.Logistic())
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 0.4553, -0.4553])
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("derivatives",)
    takes_weights: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    takes_latents: ClassVar[bool] = True
    takes_kinks: ClassVar[bool] = False

    def __init__(self, tol: float = 1e-10, max_iter: int = 100) -> None:
        self.tol, self.max_iter = tol, max_iter

    def infer(self, task: Task, start: Solution | None) -> Solution:
        gram, y, loss, w, H = task.gram, task.y, task.loss, task.w, task.H
        if loss.latents:
            return self._together(task, start)
        n, m = task.mean.shape
        classes = loss.response == "multiclass"
        modes, reports = [], []
        for j in [slice(0, m)] if classes else [slice(j, j + 1) for j in range(m)]:
            a, b = np.zeros((n, m))[:, j], np.zeros((H.shape[1], m))[:, j]
            if start is not None and start.alpha.shape == (n, m):
                a = start.alpha[:, j]
                b = b if start.beta is None else start.beta[:, j]
            column = y[:, 0 if classes else j.start]
            local = shared(loss, column, w, m) if classes else weighted(loss, column, w)
            prepare = (blocks if classes else single)(gram, H)
            certify = (JointCertificate if classes else Certificate)(loss, column, w, self.tol)
            landscape = Landscape(gram, local, task.mean[:, j], H)
            state = landscape.descend(landscape.at(a, b), prepare, certify, self.max_iter)
            landscape.check_bounded(state)
            modes.append(state)
            reports.append(certify.report(state))
        return solution(gram, modes, w, reports)

    def _together(self, task: Task, start: Solution | None) -> Solution:
        """The mode of several latent functions with kernels of their own."""
        refuse_basis(task)
        zero, loss, y = np.zeros_like(task.mean), cast(SeveralLatents, task.loss), task.y[:, 0]
        begun = start is not None and start.alpha.shape == zero.shape
        landscape = Landscape(task.gram, pairs(loss, y, task.w), task.mean, task.H)
        certify = Certificate(loss, y, task.w, self.tol)
        state = landscape.at(start.alpha if begun and start is not None else zero, zero[:0])
        steps = JointSteps(task.gram, loss.convex)
        state = landscape.descend(state, steps, certify, self.max_iter)
        return solution(task.gram, [state], task.w, [certify.report(state)])


def refuse_basis(task: Task) -> None:
    """Refuse unpenalised functions beside several latent functions."""
    if task.H.shape[1]:
        raise ValueError(
            f"{type(task.loss).__name__} has several latent functions, and an unpenalised basis "
            "does not say for which: set basis=None and put its functions into their kernels, "
            "e.g. kernel + Constant() or kernel + Linear()"
        )


def weighted(loss: Loss, y: Array, w: Array) -> Local:
    """Return f (n, 1) -> the weighted loss with its slope and curvature."""

    def local(f: Array) -> tuple[float, Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(w @ loss.value(y, f[:, 0]))
            d1, d2, _ = loss.derivatives(y, f[:, 0])
            return value, (w * d1)[:, None], (w * d2)[:, None]

    return local


class Certificate:
    """When a mode is good enough: by the duality gap, or by the gradient without a conjugate."""

    def __init__(self, loss: Loss, y: Array, w: Array, tol: float) -> None:
        self.loss, self.y, self.w, self.tol = loss, y, w, tol
        self.certified = loss.offers("conjugate")

    def gap(self, state: Mode) -> float:
        """Objective less dual objective, inf while a is not dual feasible."""
        a, u = state.a[:, 0], -state.slope[:, 0]
        # a differs from its limit u by rounding: take the one that lies in the domain
        close = np.abs(a - u) <= 1e-9 * np.maximum(np.abs(u), 1e-3 * np.abs(u).max())
        feasible = np.where(close, u, a)
        star = conjugate(self.loss, self.y, -feasible / self.w)
        return state.total + float(self.w @ star) + float(feasible @ state.f[:, 0])

    def __call__(self, state: Mode) -> bool:
        """Whether to stop."""
        if self.certified:
            return bool(self.gap(state) <= self.tol * max(1.0, abs(state.objective)))
        size = max(float(np.abs(state.slope).max()), 1e-3)
        return bool(np.abs(state.residual).max() <= 1e-3 * np.sqrt(self.tol) * size)

    def report(self, state: Mode) -> Report:
        """Iterations, objective, gap, convergence."""
        gap = max(self.gap(state), 0.0) if self.certified else None
        objective = {"objective": float(state.objective)}
        return Report(self(state) or state.at_rounding, state.steps, gap, details=objective)


class JointCertificate(Certificate):
    """The same for classes numbered y (n,), all latent functions at once."""

    def __init__(self, loss: Loss, y: Array, w: Array, tol: float) -> None:
        # without a conjugate that of Softmax, the same function: see is_softmax
        super().__init__(loss if loss.offers("conjugate") else Softmax(), y, w, tol)

    def gap(self, state: Mode) -> float:
        u, dual = -state.slope, state.a - state.a.mean(axis=1, keepdims=True)
        feasible = np.where(np.abs(dual - u) <= 1e-9 * self.w[:, None], u, dual)
        star = self.loss.conjugate(self.y, -feasible / self.w[:, None])
        return state.total + float(self.w @ star) + float(np.vdot(feasible, state.f))


def solution(gram: Gram, modes: list[Mode], w: Array, reports: list[Report]) -> Solution:
    """Return the solution of modes side by side, each of one latent function or of all classes."""
    a, b = np.hstack([mode.a for mode in modes]), np.hstack([mode.b for mode in modes])
    f, W = np.hstack([mode.f for mode in modes]), np.hstack([mode.curvature for mode in modes])
    if W.ndim > 2:  # of several latent functions, what each point says of each
        W = np.einsum("nii->ni", W[:, 0])
    W, beta = np.maximum(W[:, 0] if W.shape[1] == 1 else W, 0.0), b if len(b) else None
    report = joined_report(reports, "objective")
    return Solution(a, W, f, NoSpread(gram.diag()), beta, w, report)
