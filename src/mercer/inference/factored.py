"""The factor-analysed variational Gaussian: Sigma = D + C_f C_f', D diagonal, C_f (n, M).

A smaller family than the best Gaussian's. White noise in Sigma is charged at diag K^-1, so that for
smooth kernels D is forced to nearly nothing and only M directions keep any posterior variance: the
bound is looser by tens of nats, and depends on the jitter that K^-1 needs.
Reference: M. Seeger's thesis, section 4.3 and appendix C.1, (C.3)-(C.12), (C.11) corrected in sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from mercer.arrays import Array
from mercer.inference.sites import Sites, Task
from mercer.inference.variational_newton import averages
from mercer.linalg.errors import NotPositiveDefiniteError
from mercer.linalg.gram import Factor

RANGE = (-32.0, 4.0)  # of log(d_i / K_ii)
MEMORY = 30  # pairs of vectors that L-BFGS keeps


class FactoredFactor(Factor):
    """C = K^-1 - K^-1 Sigma K^-1 for K with jitter on its diagonal; W plays no part.

    Attributes
    ----------
    d : (n,) diagonal of D.
    loadings : (n, M) C_f.
    whitened : (n, M) L^-1 C_f with K = L L': where a nearby problem begins.
    divergence : KL(q || prior), the part of F that does not depend on the loss.
    """

    def __init__(self, prior: Whitened, m: Array, d: Array, whitened: Array) -> None:
        self.d, self.whitened = d, whitened
        self.loadings = prior.L @ whitened
        self.jitter = prior.jitter
        T = solve_triangular(prior.L, whitened, lower=True, trans=1)  # K^-1 C_f
        self.C = prior.inverse - (prior.inverse * d) @ prior.inverse - T @ T.T
        self._logdet = prior.logdet - determined(d, self.loadings)[0]
        trace = float(d @ np.diagonal(prior.inverse)) + float(np.square(whitened).sum())
        self.divergence = 0.5 * (float(m @ m) + trace - len(d) + self._logdet)

    def solve(self, V: Array) -> Array:
        """See :meth:`Factor.solve`."""
        return np.asarray(self.C @ V)

    def quad(self, A: Array, B: Array) -> Array:
        """See :meth:`Factor.quad`."""
        return np.asarray(A.T @ (self.C @ B))

    def quad_diag(self, A: Array) -> Array:
        """See :meth:`Factor.quad_diag`."""
        return np.asarray(np.einsum("ij,ij->j", A, self.C @ A))

    def diag(self) -> Array:
        """See :meth:`Factor.diag`."""
        return np.diagonal(self.C).copy()

    def cov_diag(self) -> Array:
        """See :meth:`Factor.cov_diag`: the diagonal of Sigma."""
        return np.asarray(self.d + np.square(self.loadings).sum(axis=1))

    def cov(self) -> Array:
        """See :meth:`Factor.cov`: Sigma."""
        return np.asarray(np.diag(self.d) + self.loadings @ self.loadings.T)

    def logdet(self) -> float:
        """Return log|K| - log|Sigma|, which is log|I + K W| where Sigma = (K^-1 + W)^-1."""
        return self._logdet

    def logdet_noisy(self) -> float:
        """Refuse: there is no W."""
        raise NotImplementedError("a factor-analysed covariance has no weights W")

    def gradient_weights(self, a: Array, count: float) -> Array:
        """(a a' - count C)/2, thesis (C.4), with the diagonal times 1 + jitter.

        The jitter is a share of K_ii and moves with it: left out, the gradient would be wrong in
        the first digit where K^-1 is large.
        """
        Q = np.asarray(0.5 * (a @ a.T - count * self.C))
        Q.flat[:: len(Q) + 1] *= 1.0 + self.jitter
        return Q

    @property
    def report(self) -> dict[str, Any]:
        """The relative jitter on the diagonal of K."""
        return {"jitter": self.jitter}


class Whitened:
    """K + jitter diag K = L L', and its inverse."""

    def __init__(self, task: Task, jitter: float) -> None:
        n = len(task.y)
        K = np.array(task.gram.rows(np.arange(n)))
        self.variance = task.gram.diag()
        K.flat[:: n + 1] += jitter * self.variance
        self.jitter = jitter
        try:
            self.L = np.asarray(np.linalg.cholesky(K), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(
                f"a factor-analysed covariance needs K^-1, and with a jitter of {jitter:g} K is "
                "not positive definite: raise Variational(jitter=...), or use factors=None, which "
                "needs none"
            ) from error
        self.inverse = np.asarray(cho_solve((self.L, True), np.eye(n)))
        self.logdet = 2.0 * float(np.log(np.diagonal(self.L)).sum())


def determined(d: Array, loadings: Array) -> tuple[float, Array, Array]:
    """log|Sigma|, diag Sigma^-1 and Sigma^-1 C_f in O(M^2 n), thesis (C.5) by Woodbury."""
    scaled = loadings / d[:, None]
    A = loadings.T @ scaled
    A.flat[:: len(A) + 1] += 1.0
    root = np.linalg.cholesky(A)
    V = solve_triangular(root, scaled.T, lower=True)
    logdet = float(np.log(d).sum()) + 2.0 * float(np.log(np.diagonal(root)).sum())
    return logdet, 1.0 / d - np.square(V).sum(axis=0), cho_solve((root, True), scaled.T).T


def continued(start: Sites | None, n: int, M: int) -> Sites | None:
    """``start``, if it is a factor-analysed posterior of n points with M factors."""
    white = None if start is None else getattr(start.factor, "whitened", None)
    return start if white is not None and white.shape == (n, min(M, n)) else None


def sites(task: Task, begun: Sites, M: int, tol: float, max_iter: int, jitter: float) -> Sites:
    """Minimise F over mu = mean + L m, C_f = L C~ and log d jointly by L-BFGS.

    It begins at ``begun``: a factor-analysed posterior of a problem nearby, or the best Gaussian of
    this one, of which the M widest directions are taken.
    """
    n = len(task.y)
    M = min(M, n)
    prior = Whitened(task, jitter)

    def free(x: Array) -> tuple[float, Array]:
        m, log_d, white = _split(x, n)
        d, loadings = np.exp(log_d), prior.L @ white
        with np.errstate(over="ignore", invalid="ignore"):
            total, slope, bend = averages(
                task, task.mean + prior.L @ m, d + np.square(loadings).sum(axis=1)
            )
        logdet, precision, solved = determined(d, loadings)
        own = np.diagonal(prior.inverse)
        value = total + 0.5 * float(
            m @ m + d @ own + np.square(white).sum() + prior.logdet - logdet - n
        )
        # (C.3), with bend = 2 d nu/dv, carried over to the whitened variables
        in_m = prior.L.T @ slope + m
        in_d = 0.5 * d * (bend + own - precision)
        in_C = prior.L.T @ (bend[:, None] * loadings - solved) + white
        gradient = np.concatenate([in_m, in_d, in_C.ravel()])
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return 1e300, np.zeros_like(x)
        return value, gradient

    low, high = (np.log(prior.variance) + edge for edge in RANGE)
    limits = [(None, None)] * n + list(zip(low, high, strict=True)) + [(None, None)] * (n * M)
    found = minimize(
        free,
        _begin(task, prior, begun, M),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "maxcor": MEMORY,
            "ftol": 0.0,
            "gtol": tol,
        },
    )
    m, log_d, white = _split(np.asarray(found.x), n)
    factor = FactoredFactor(prior, m, np.exp(log_d), white)
    shift = prior.L @ m
    f = task.mean + shift
    bend = averages(task, f, factor.cov_diag())[2]
    a = solve_triangular(prior.L, m, lower=True, trans=1)
    gradient = free(np.asarray(found.x))[1]
    residual = float(np.abs(np.delete(gradient, np.arange(n, 2 * n)[log_d <= low])).max())
    converged = residual <= tol
    report: dict[str, Any] = {
        "converged": converged,
        "iterations": int(found.nit),
        "factorisations": 1 if continued(begun, n, M) else 1 + begun.report["factorisations"],
        "evaluations": int(found.nfev),
        "residual": residual,
        **factor.report,
    }
    if not converged:
        report["message"] = (
            f"the factor-analysed Gaussian stopped at a gradient of {residual:.2g}, not {tol:g}: "
            "raise max_iter or tol, or use factors=None, which is faster and tighter"
        )
    return Sites(a, bend, f, factor, report)


def _split(x: Array, n: int) -> tuple[Array, Array, Array]:
    return x[:n], x[n : 2 * n], x[2 * n :].reshape(n, -1)


def _begin(task: Task, prior: Whitened, begun: Sites, M: int) -> Array:
    white = getattr(begun.factor, "whitened", None)
    if white is not None:
        d = begun.factor.d  # type: ignore[attr-defined]  # beside ``whitened``
    else:
        # (I + L'W L)^-1 is the whitened covariance of the best Gaussian
        values, vectors = np.linalg.eigh(prior.L.T @ (begun.W[:, None] * prior.L))
        white = vectors[:, :M] / np.sqrt(np.maximum(1.0 + values[:M], 1e-8))
        d = 1.0 / (np.diagonal(prior.inverse) + np.maximum(begun.W, 0.0))
    share = np.clip(np.log(d / prior.variance), RANGE[0] + 1.0, RANGE[1] - 1.0)
    m = solve_triangular(prior.L, begun.f - task.mean, lower=True)
    return np.concatenate([m, share + np.log(prior.variance), white.ravel()])
