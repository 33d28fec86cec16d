"""The contracts of a Gram and its Factor, by dense linear algebra, and of a process: one law."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.linalg.gram import Factor, Gram
from mercer.process.process import Process
from mercer.testing.clauses import close_whole, gradient, holds


def check_gram(gram: Gram, tol: float = 1e-8) -> None:
    """Products, rows, and the Factor against dense linear algebra.

    Weights are positive, with one of zero. Where the Gram has a kernel with parameters, the
    gradients by formula (3) are compared with differences, too. A Gram that is not ``exact`` is
    compared with its own K; its gradients, which may be charged for what it leaves out, are not. A
    Gram that estimates a determinant (that of :mod:`mercer.linalg.iterative`) fails here.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: a method of :class:`~mercer.linalg.Gram` or
        :class:`~mercer.linalg.Factor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg import DenseGram
    >>> check_gram(DenseGram(RBF(), np.arange(5.0)[:, None]))
    """
    n, rng = len(gram.points), np.random.default_rng(0)
    K = gram @ np.eye(n)
    V = rng.standard_normal((n, 2))
    close_whole("product", K, K.T, tol, "K must be symmetric")
    close_whole("product", gram @ V, K @ V, tol, "gram @ V must be K V")
    close_whole("diag", gram.diag(), np.diagonal(K), tol, "diag() must be the diagonal of K")
    some = np.array([n - 1, 0])
    close_whole("rows", gram.rows(some), K[some], tol, "rows(i) must be rows of K, in order")
    W = rng.uniform(0.5, 2.0, n)
    check_factor(gram.factor(W), K, W, tol, gram)
    W[0] = 0.0
    check_factor(gram.factor(W), K, W, tol, gram)
    before = gram @ V
    gram.factor(2.0 * W).release()
    close_whole("release", gram @ V, before, 1e-14, "the Gram must be as it was")
    close_whole("factor", gram.factor(W).solve(V), gram.factor(W).solve(V), 0.0, "it must repeat")
    if gram.exact:
        _check_pullback(gram, rng, tol)


def check_factor(factor: Factor, K: Array, W: Array, tol: float, gram: Gram | None = None) -> None:
    """Compare C = (K + W^-1)^-1, W >= 0, with its dense form.

    The operator stands for it on the support of the ``gram``: carry C carry', if that is not all.
    """
    n, rng = len(K), np.random.default_rng(1)
    V, A = rng.standard_normal((n, 2)), rng.standard_normal((n, 3))
    C = np.diag(W) @ np.linalg.inv(np.eye(n) + K @ np.diag(W))
    Sigma = K - K @ C @ K
    close_whole("solve", factor.solve(V), C @ V, tol, "solve(V) must be C V")
    close_whole("quad", factor.quad(A, V), A.T @ C @ V, tol, "quad(A, B) must be A' C B")
    diagonal = np.diagonal
    close_whole("quad_diag", factor.quad_diag(A), diagonal(A.T @ C @ A), tol, "its diagonal")
    close_whole("diag of C", factor.diag(), diagonal(C), tol, "diag() is the diagonal of C")
    close_whole("cov_diag", factor.cov_diag(), diagonal(Sigma), tol, "the diagonal of K - K C K")
    logdet = np.linalg.slogdet(np.eye(n) + K * W)[1]
    close_whole("logdet", factor.logdet(), logdet, tol, "logdet() must be log |I + K W|")
    if np.all(W > 0.0):
        noisy = np.linalg.slogdet(K + np.diag(1.0 / W))[1]
        found, size = factor.logdet_noisy(), max(1.0, abs(noisy))
        close_whole("logdet_noisy", found / size, noisy / size, tol, "it must be log |K + W^-1|")
    carried = np.eye(n) if gram is None else gram.carry(np.eye(n))
    B = rng.standard_normal((len(carried), 3)) if len(carried) < n else A
    reduced, wanted = factor.operator().reduce(B, B, None, None), carried.T @ B
    close_whole("operator", reduced, wanted.T @ C @ wanted, 10 * tol, "operator() stands for C")
    try:
        cov = factor.cov()
    except NotImplementedError:
        return
    close_whole("cov", cov, Sigma, tol, "cov() must be K - K C K")
    Q = factor.gradient_weights(V, 2.0)
    weights = 0.5 * (V @ V.T - 2.0 * C)
    close_whole("gradient_weights", Q, weights, tol, "it must be (a a' - count C) / 2")
    M = np.zeros((n, n))
    factor.add_to(M)
    close_whole("add_to", np.triu(M), np.triu(C), tol, "C must be added to the upper triangle")


def _check_pullback(gram: Gram, rng: np.random.Generator, tol: float) -> None:
    """Gradients in the kernel's parameters, by a new Gram of the same class at moved ones."""
    kernel = getattr(gram, "kernel", None)
    if kernel is None or not list(getattr(kernel, "differentiable", list)()):
        return
    n = len(gram.points)
    a, U, V, W = *rng.standard_normal((3, n, 1)), rng.uniform(0.5, 2.0, n)
    C = gram.factor(W).solve(np.eye(n))
    Q = 0.5 * (a @ a.T - C) + 0.5 * (U @ V.T + V @ U.T)
    moved = kernel.__sklearn_clone__()
    found = {"pullback": gram.pullback(a, gram.factor(W), U, V), "contract": gram.contract(Q)}
    size = float(np.abs(Q * moved(gram.points)).sum())
    for path, owner, name in moved.differentiable():
        numeric = gradient(lambda: float((Q * moved(gram.points)).sum()), owner, name)
        bound = 1e-6 * float(np.abs(numeric).max()) + max(1e-9, tol) * size
        for clause, given in found.items():
            error = float(np.abs(np.asarray(given[path]) - numeric).max())
            text = f"gradient {numeric} is expected, not {given[path]}"
            holds(f"{clause} of {path}", error <= bound, text)


def check_process(process: Process, X: Array, tol: float = 1e-8) -> None:
    """Variance is the diagonal of the covariance, which is symmetric and positive semidefinite.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: symmetric, variance, positive semidefinite,
        rectangle, mean, rows or draws.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.process.process import Prior
    >>> check_process(Prior(RBF()), np.arange(4.0)[:, None])
    """
    cov, mean = process.cov(X), process.mean(X)
    holds("mean", mean.ndim == 2 and len(mean) == len(X), "mean(X) must be (n, m)")
    holds("mean", np.all(np.isfinite(mean)), "mean(X) must be finite")
    close_whole("symmetric", cov, cov.T, tol, "the covariance must be symmetric")
    size = float(max(1.0, np.abs(cov).max()))
    close_whole("variance", process.var(X), np.diagonal(cov), tol, "var(X) is the diagonal")
    close_whole("variance", process.diag(X), np.diagonal(cov), tol, "diag(X) is the diagonal")
    holds("variance", np.all(process.var(X) >= 0.0), "no variance may be negative")
    lowest = np.linalg.eigvalsh(0.5 * (cov + cov.T))[0]
    sentence = f"the covariance must have no negative eigenvalue, and has {lowest:.2e}"
    holds("positive semidefinite", lowest > -tol * size, sentence)
    close_whole("rectangle", process(X[:2], X), cov[:2], 10 * tol, "k(X[:2], X) is part of k(X)")
    order = np.arange(len(X))[::-1]
    close_whole("rows", process.mean(X[order]), mean[order], tol, "the order must not matter")
    close_whole("rows", process.var(X[:1]), process.var(X)[:1], tol, "a row stands by itself")
    draws = process.sample(X, 3, np.random.default_rng(0))
    holds("draws", draws.shape == (*mean.shape, 3), "sample(X, s) must be (n, m, s)")
    again = process.sample(X, 3, np.random.default_rng(0))
    holds("draws", np.array_equal(draws, again), "draws must repeat with the random numbers")
    many = process.sample(X, 4000, np.random.default_rng(1))
    deviation = np.sqrt(np.maximum(process.var(X), tol * size))[:, None]
    off = np.abs(many.mean(axis=2) - mean) / deviation
    holds("draws", np.all(off < 6.0 / np.sqrt(4000)), "draws must have the mean of the process")
    ratio = many.var(axis=2) / deviation**2
    known = process.var(X) > 1e3 * tol * size
    holds("draws", np.all(np.abs(ratio[known] - 1.0) < 0.2), "draws must have its variance")
