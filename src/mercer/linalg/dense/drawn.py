"""C of a posterior that is known by draws: a mixture of processes that know the latent values.

Given the values f_s of a draw at the points, the function elsewhere is formula (1)-(2) with
alpha_s = K^+ f_s and C = K^+ = Q'Q, the same for every draw. The mixture of all of them has

    mean(x) = k(x, P) mean(alpha_s),    C = K^+ - cov(alpha_s)                   theory (T1), (T2)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.gram import Factor
from mercer.linalg.graph import RootOperator
from mercer.linalg.operators import PosteriorOperator, SeveralOperator


@dataclass(eq=False)
class DrawnFactor(Factor):
    """Draws of one latent function, or of the m functions of a softmax.

    Parameters
    ----------
    root : Q (r, n) with K^+ = Q'Q.
    f, alpha : (S, n, m) latent values of the draws, and K^+ (f - prior mean).
    W, variance : (n,), or (n, m) for classes: the precision Cov(f_i, w_i g'_i) / Var(f_i) that the
        data give to each value on average, and Var(f_i).
    keep : how many of the draws predict.
    """

    root: Array
    f: Array
    alpha: Array
    W: Array
    variance: Array
    keep: int

    def solve(self, V: Array) -> Array:
        """C V for V (n, m) of m functions, or (n, q) of one."""
        centred = self.alpha - self.alpha.mean(axis=0)
        several = centred.shape[2] > 1
        along = "snm,nm->s" if several else "sni,nq->sq"
        back = "snm,s->nm" if several else "sni,sq->nq"
        shares = np.einsum(along, centred, V, optimize=True) / len(centred)
        known = np.einsum(back, centred, shares, optimize=True)
        return np.asarray(self.root.T @ (self.root @ V) - known)

    def diag(self) -> Array:
        return np.asarray(self.W - self.W**2 * self.variance)  # C = W - W Sigma W

    def cov_diag(self) -> Array:
        return self.variance

    def logdet(self) -> float:
        raise NotImplementedError("draws have no log |I + K W|: the evidence is annealed")

    def operator(self) -> DrawnOperator:
        chosen = np.linspace(0, len(self.alpha) - 1, min(self.keep, len(self.alpha)))
        own = RootOperator(partial(np.asarray, self.root))
        return DrawnOperator(own, self.alpha[chosen.round().astype(int)])


class DrawnOperator(SeveralOperator):
    """C of the mixture of all draws, alpha_s (S, n, m) on the points; ``own`` is K^+."""

    def __init__(self, own: PosteriorOperator, alphas: Array) -> None:
        super().__init__([own] * alphas.shape[2], None)
        self.own, self.alphas = own, alphas
        self.apart = (alphas - alphas.mean(axis=0)) / np.sqrt(len(alphas))

    def blocks(self, A: Array | list[Array], hA: Array | None = None) -> Array:
        assert not isinstance(A, list)  # functions with kernels of their own have no draws
        spread = np.einsum("snm,np->spm", self.apart, A, optimize=True)
        known = self.own.reduce_diag(A, None)[:, None, None] * np.eye(len(self.operators))
        return np.asarray(known - np.einsum("spc,spe->pce", spread, spread, optimize=True))

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        if len(self.operators) > 1:
            return super().reduce(A, B, hA, hB)
        apart = self.apart[:, :, 0]
        return np.asarray(self.own.reduce(A, B, hA, hB) - (apart @ A).T @ (apart @ B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        if len(self.operators) > 1:
            return super().reduce_diag(A, hA)
        spread = self.apart[:, :, 0] @ A
        return np.asarray(self.own.reduce_diag(A, hA) - np.einsum("sp,sp->p", spread, spread))

    def members(self) -> Iterator[tuple[Array, PosteriorOperator]]:
        """Yield alpha (n, m) and C of each draw; they share one C."""
        for s, alpha in enumerate(self.alphas):
            yield alpha, self.own if s == 0 else SharedOperator(self.own)


@dataclass(eq=False)
class SharedOperator(PosteriorOperator):
    """C of another member of the same mixture, which a file keeps once."""

    follows: ClassVar[bool] = True
    of: PosteriorOperator

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        return self.of.reduce(A, B, hA, hB)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        return self.of.reduce_diag(A, hA)


class DrawnFactors(CoupledFactor):
    """C of functions that were drawn one by one."""

    def operator(self) -> DrawnOperator:
        each = [one.operator() for one in drawn(self)]
        kept = min(len(one.alphas) for one in each)  # an interrupt may have left one with fewer
        # chains that began with the same numbers would make independent functions look alike
        order = [np.arange(kept), *map(np.random.default_rng(0).permutation, [kept] * len(each))]
        alphas = [one.alphas[:kept][at] for one, at in zip(each, order, strict=False)]
        return DrawnOperator(each[0].own, np.concatenate(alphas, axis=2))


def drawn(factor: Factor) -> list[DrawnFactor]:
    """Return the draws behind a factor, of each function that was solved by itself; else none."""
    factors = factor.factors if isinstance(factor, CoupledFactor) else [factor]
    return [one for one in factors if isinstance(one, DrawnFactor)]
