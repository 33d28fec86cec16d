"""Several outputs with the covariance B k(x, z), all observed at the same n points.

With noise D = diag(noise), S = D^-1/2 and S B S = V diag(l) V' the outputs rotated by V'S are m
independent functions of variance l_j and unit noise, whose factors are E_j = (K + 1/l_j)^-1:

    (K x B + I x D)^-1 = S V diag_j(E_j / l_j) V'S

That is m factorisations of n x n in place of one of mn x mn.

Reference: Stegle, Lippert, Mooij, Lawrence and Borgwardt (2011), Efficient inference in
matrix-variate Gaussian models; theory (G15).
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.kernels.base import Gradient, prefixed
from mercer.kernels.equality import Coregionalised
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Covariance, Factor, Gram
from mercer.linalg.operators import PosteriorOperator


def complete(points: Array, m: int) -> bool:
    """Whether points (nm, d + 1) are n rows with the outputs 0 .. m - 1 of each, in this order."""
    if not len(points) or len(points) % m:
        return False
    rows = points.reshape(-1, m, points.shape[1])
    same = np.all(rows[:, :, :-1] == rows[:, :1, :-1])
    return bool(same and np.all(rows[:, :, -1] == np.arange(m)))


class OutputsGram(Gram):
    """K x B + I x D at n rows times m outputs, the outputs of a row side by side.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> kernel = Coregionalised(RBF(), np.ones((2, 1)), np.ones(2), np.array([0.1, 0.2]))
    >>> P = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
    >>> bool(np.allclose(OutputsGram(kernel, P, scratch=False) @ np.eye(4), kernel(P)))
    True
    """

    name = "by output"

    def __init__(self, kernel: Coregionalised, points: Array, *, scratch: bool) -> None:
        assert kernel.noise is not None
        self.kernel, self.points, self.noise = kernel, points, np.asarray(kernel.noise)
        self.B, self.m = kernel.covariance, len(kernel.own)
        rows = np.ascontiguousarray(points[:: self.m, :-1])
        self.inner = DenseGram(kernel.kernel, rows, keep=True, scratch=scratch)

    def grid(self, V: Array) -> Array:
        """V (nm, q) as (n, m, q)."""
        return V.reshape(-1, self.m, V.shape[1])

    def __matmul__(self, V: Array) -> Array:
        G = self.grid(V)
        n, m, q = G.shape
        mixed = np.einsum("ab,nbq->naq", self.B, G).reshape(n, m * q)
        smooth = np.asarray(self.inner @ mixed).reshape(n, m, q)
        return np.asarray((smooth + self.noise[:, None] * G).reshape(V.shape))

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        found = self.kernel(self.points[index], self.points)
        found[np.arange(len(index)), index] += self.noise[index % self.m]
        return found

    def factor(self, W: Array) -> Factor:
        if not np.all(np.isinf(W)):
            raise ValueError("the noise of several outputs is that of their kernel: Gaussian(0.0)")
        return OutputsFactor(self)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        """Formula (3) by the rotated outputs; alpha is (nm, 1).

        dE/dB = (a'K a - S V diag(tr E_j K / l_j) V'S)/2 and dE/dK = (a B a' - sum_j E_j)/2.
        """
        assert isinstance(factor, OutputsFactor)
        a = alpha.reshape(-1, self.m)
        n, turn = len(a), factor.turn
        noise = 0.5 * (np.square(a) - factor.diag().reshape(a.shape)).sum(axis=0)
        # tr (l K + I)^-1 K = (n - tr E / l) / size
        shares = [
            one.diag().sum() / size for one, size in zip(factor.each, factor.spectrum, strict=True)
        ]
        left = (n - np.array(shares)) / factor.spectrum
        G = 0.5 * (a.T @ np.asarray(self.inner @ a) - (turn * left) @ turn.T)
        Q = 0.5 * (a @ self.B @ a.T)
        for one in factor.each:
            Q -= one.gradient_weights(np.zeros((n, 1)), -1.0)
        return prefixed("kernel", self.inner.contract(Q)) | self.kernel.slopes(G, noise)

    def contract(self, Q: Array) -> Gradient:
        return self.kernel.pullback(self.points, None, Q)


class OutputsFactor(Factor):
    """(K x B + I x D)^-1; weights are infinite, as the noise is that of the kernel."""

    def __init__(self, gram: OutputsGram) -> None:
        self.gram = gram
        S = 1.0 / np.sqrt(gram.noise)
        self.spectrum, vectors = np.linalg.eigh(S[:, None] * gram.B * S)
        self.turn = S[:, None] * vectors  # S V
        n = len(gram.inner.points)
        self.each = [gram.inner.factor(np.full(n, size)) for size in self.spectrum]
        self.jitter = max(one.jitter or 0.0 for one in self.each)

    @property
    def W(self) -> Array:
        """The weights (nm,)."""
        return np.full(len(self.gram.points), np.inf)

    def solve(self, V: Array) -> Array:
        G = np.einsum("bj,nbq->njq", self.turn, self.gram.grid(V))
        for j, (one, size) in enumerate(zip(self.each, self.spectrum, strict=True)):
            G[:, j] = one.solve(np.ascontiguousarray(G[:, j])) / size
        return np.asarray(np.einsum("bj,njq->nbq", self.turn, G).reshape(V.shape))

    def diag(self) -> Array:
        each = np.column_stack(
            [one.diag() / size for one, size in zip(self.each, self.spectrum, strict=True)]
        )
        return np.asarray((each @ np.square(self.turn).T).ravel())

    def cov_diag(self) -> Array:
        return np.zeros(len(self.gram.points))

    def logdet(self) -> float:
        raise NotImplementedError("weights are infinite: use logdet_noisy")

    def logdet_noisy(self) -> float:
        n = len(self.gram.inner.points)
        return sum(one.logdet() for one in self.each) + n * float(np.log(self.gram.noise).sum())

    def gradient_weights(self, a: Array, count: float) -> Array:
        C = self.solve(np.eye(len(self.gram.points)))
        return np.asarray(0.5 * (a @ a.T - 0.5 * count * (C + C.T)))

    def operator(self) -> PosteriorOperator:
        return OutputsOperator(self)


class OutputsOperator(PosteriorOperator):
    """C of several outputs at the same points."""

    def __init__(self, factor: OutputsFactor) -> None:
        self.factor = factor

    @property
    def count(self) -> int:
        """The number of outputs."""
        return self.factor.gram.m

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        return np.asarray(A.T @ self.factor.solve(B))

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        return np.asarray(np.einsum("ij,ij->j", A, self.factor.solve(A)))


def outputs_gram(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
    """Return the Gram of several outputs: dense where some of them are missing in some rows."""
    assert isinstance(kernel, Coregionalised)
    if kernel.noise is not None and complete(points, len(kernel.own)):
        return OutputsGram(kernel, points, scratch=scratch)
    return DenseGram(kernel, points, scratch=scratch)
