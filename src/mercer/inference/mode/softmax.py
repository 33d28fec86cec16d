"""The mode of several classes that share a kernel, all latent functions at once.

Theory (K2), (A15).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from mercer.core.arrays import Array, half_solve
from mercer.inference.base import Report, Solution
from mercer.inference.mode.descent import Local, Mode, NoSpread, Step, begin, check_bounded, descend
from mercer.linalg.dense.coupled import coupled
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.losses.softmax import Softmax


def joint(
    gram: Gram,
    y: Array,
    loss: Loss,
    mean: Array | None,
    H: Array,
    w: Array,
    start: Solution | None,
    tol: float,
    max_iter: int,
) -> Solution:
    """Minimise sum_i w_i g(y_i, f_i) + 1/2 sum_c a_c'K a_c over a (n, c), y (n, 1) class numbers.

    Reference: Jaakkola & Haussler (1999) (65)-(71); GPML algorithm 3.3, with a line search.
    """
    n, classes = len(y), int(y.max()) + 1
    codes = y[:, 0]
    offset = np.zeros((n, classes)) if mean is None else mean
    a, b = np.zeros((n, classes)), np.zeros((H.shape[1], classes))
    if start is not None and start.alpha.shape == a.shape:
        a = start.alpha
        b = b if start.beta is None else start.beta

    local = shared(loss, codes, w, classes)
    dual_of = loss if loss.offers("conjugate") else Softmax()  # the same function: see is_softmax

    def gap(state: Mode) -> float:
        u, dual = -state.slope, state.a - state.a.mean(axis=1, keepdims=True)
        feasible = np.where(np.abs(dual - u) <= 1e-9 * w[:, None], u, dual)
        star = dual_of.conjugate(codes, -feasible / w[:, None])
        return state.total + float(w @ star) + float(np.vdot(feasible, state.f))

    def done(state: Mode) -> bool:
        return gap(state) <= tol * max(1.0, abs(state.objective))

    state = begin(gram, local, offset, H, a, b)
    state = descend(state, gram, local, H, blocks(gram, H), done, max_iter)
    check_bounded(state, local, H)
    fine = done(state) or state.decrement <= 1e-15 * max(1.0, abs(state.objective))
    objective = {"objective": float(state.objective)}
    report = Report(bool(fine), state.steps, max(gap(state), 0.0), details=objective)
    beta = state.b if len(state.b) else None
    return Solution(state.a, state.curvature, state.f, NoSpread(gram.diag()), beta, w, report)


def shared(loss: Loss, codes: Array, w: Array, classes: int) -> Local:
    """Return f (n, c) -> the weighted loss, its slope w (p - own) and, for the curvature, w p."""
    own = np.eye(classes)[codes.astype(np.intp)]

    def local(f: Array) -> tuple[float, Array, Array]:
        p = softmax(f, axis=1)
        return float(w @ loss.value(codes, f)), w[:, None] * (p - own), w[:, None] * p

    return local


def blocks(gram: Gram, H: Array) -> Callable[[Array], Step]:
    """Newton steps for c latent functions with one K; the curvature is given by w p (n, c).

    With E_c = (K + diag(w p_c)^-1)^-1 and M = sum_c E_c, the operator C of formula (2) is
    C v = E_c v_c - E_c M^-1 sum_e E_e v_e: c + 1 factorisations (GPML 3.5; Seeger & Jordan 2004).
    Adding one function to all classes changes no probability: of the coefficients of a basis
    those are taken that sum to zero over the classes.
    """

    def prepare(curvature: Array) -> Step:
        c = curvature.shape[1]
        factor = coupled(gram, curvature)
        G = [one.solve(H) for one in factor.factors] if H.shape[1] else []
        A = _basis_matrix(H, G, factor.shared, c)

        def step(s: Array, a: Array) -> tuple[Array, Array]:
            da = s - factor.solve(np.asarray(gram @ s))
            if not H.shape[1]:
                return da, np.zeros((0, c))
            rhs = (H.T @ (a + da)).T.ravel()  # class by class
            db = np.asarray(np.linalg.solve(A, rhs), dtype=np.float64).reshape(c, -1).T
            return da - factor.solve(H @ db), db

        return step

    return prepare


def _basis_matrix(H: Array, G: list[Array], common: Array | None, c: int) -> Array:
    """H'C H over classes and functions, made regular where all classes move together."""
    k = H.shape[1]
    A = np.zeros((c * k, c * k))
    assert common is not None
    halves = [half_solve(common, g) for g in G]
    for i, left in enumerate(halves):
        for j, right in enumerate(halves):
            block = -left.T @ right
            if i == j:
                block = block + H.T @ G[i]
            A[i * k : (i + 1) * k, j * k : (j + 1) * k] = block
    if k:
        A += np.kron(np.ones((c, c)), np.diag(np.diagonal(sum(H.T @ g for g in G))))
    return A
