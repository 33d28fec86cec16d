"""The factor-analysed variational Gaussian: Sigma = D + C_f C_f', D diagonal, C_f (n, M).

A smaller family than the best Gaussian's. White noise in Sigma is charged at diag K^-1, so that for
smooth kernels D is forced to nearly nothing and only M directions keep any posterior variance: the
bound is looser by tens of nats, and depends on the jitter that K^-1 needs.

F is not convex in C_f. The descent begins at the best Gaussian of the same problem, which has only
2n parameters and is found fast: its mean, and the M directions in which its covariance most
exceeds a diagonal one. Newton's method in a trust region goes on from there: conjugate gradients on
exact products with the Hessian, so that the averages of the losses, which are quadratures and cost
more than everything else, are needed once for each step.
Reference: M. Seeger's thesis, section 4.3 and appendix C.1. Theory (A11).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import cho_solve, eigh

from mercer.core.arrays import Array
from mercer.inference.base import Report
from mercer.inference.sites.base import Sites, Task
from mercer.inference.variational.energy import UNIT, FactoredFactor, Family, at
from mercer.inference.variational.trust_region import minimise

LEVEL = 0.05  # least d_i / scale_i to begin with,
KEPT = 1e-3  # or at a nearby problem: where d_i is nearly 0, F does not depend on log d_i any more
FAR = 3.0  # most that a step changes log d_i by: beyond, F is flat and the way back long
SPLIT = 1.01  # least ratio of the variance with a factor to that without: off the saddle at none
PATIENCE = 15  # evaluations after which the start at a nearby problem is given up


def sites(
    task: Task,
    start: Sites | None,
    best: Callable[[], Sites],
    M: int,
    tol: float,
    max_iter: int,
    jitter: float,
) -> Sites:
    """Minimise F over mu, D and C_f jointly.

    It begins at ``start``, a factor-analysed posterior of a problem nearby, if that leads to the
    end in a few steps; otherwise at the ``best`` Gaussian of this one.
    """
    n = len(task.y)
    kept = continued(start, n, M)
    if kept is not None:
        found = _descend(task, kept, min(M, n), tol, min(PATIENCE, max_iter), jitter)
        if found.report.converged:
            return found
    return _descend(task, best(), min(M, n), tol, max_iter, jitter)


def continued(start: Sites | None, n: int, M: int) -> Sites | None:
    """``start``, if it is a factor-analysed posterior of n points with M factors."""
    white = None if start is None else getattr(start.factor, "whitened", None)
    return start if white is not None and white.shape == (n, min(M, n)) else None


def _descend(task: Task, begun: Sites, M: int, tol: float, max_iter: int, jitter: float) -> Sites:
    family = Family(task, jitter, begun.W)
    Z = begin(task, family, begun, M)
    limits = np.full_like(Z, np.inf)
    limits[:, -1] = FAR / UNIT
    x, found, count = minimise(
        partial(at, family), Z.ravel(), limits.ravel(), np.sqrt(len(Z)), tol, max_iter
    )
    factor = FactoredFactor(family, found, x)
    residual = float(np.abs(found.gradient).max())
    converged = residual <= tol
    before = 0 if continued(begun, len(Z), M) else begun.report.details["factorisations"]
    details = {
        "factorisations": 2 + before,  # K and K^-1 + W_0
        "evaluations": count.evaluations,
        "products": count.products,
        "residual": residual,
        **factor.report,
    }
    message = ""
    if not converged:
        message = (
            f"the factor-analysed Gaussian stopped at a gradient of {residual:.2g}, not {tol:g}: "
            "raise max_iter or tol, or use factors=None, which is faster and tighter"
        )
    a = cho_solve((family.L, True), found.shift)
    report = Report(converged, count.steps, message=message, details=details)
    return Sites(a, found.bend, task.mean + found.shift, factor, report)


def begin(task: Task, family: Family, begun: Sites, M: int) -> Array:
    """The coordinates (n, M + 2) to begin with: columns m, C^ and e.

    The mean is that of the sites of ``begun`` under this prior. Given D and W_0, the best C_f is
    known: D^1/2 V (1/lambda - 1)^1/2 with the eigenvectors V of D^1/2 (K^-1 + W_0) D^1/2 that
    belong to the M smallest eigenvalues lambda; they are the largest of the inverse's.
    """
    h = begun.a + family.W * (begun.f - task.mean)
    m = family.A.T @ h  # A^-1 mu for mu = (K^-1 + W_0)^-1 h
    white = getattr(begun.factor, "whitened", None)
    if white is not None:
        shares: Array = begun.factor.shares  # type: ignore[attr-defined]  # beside ``whitened``
        shares = np.maximum(shares, np.log(KEPT) / UNIT)
    else:
        n = len(m)
        # on average d_i / scale_i is 1 less the share M / n that the factors take
        shares = np.full(n, np.log(max(1.0 - M / n, LEVEL)) / UNIT)
        scaled = family.A / np.sqrt(family.variances(shares))[:, None]
        values, vectors = eigh(scaled.T @ scaled, subset_by_index=[n - M, n - 1])
        white = vectors * np.sqrt(1.0 - 1.0 / np.maximum(values, SPLIT))
    return np.column_stack([m, white, shares])
