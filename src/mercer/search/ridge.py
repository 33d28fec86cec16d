"""The leave-one-out path: every value of the ridge parameter from one eigendecomposition.

Theory (Q2), (Q3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.arrays import Array
from mercer.inference.exact import Exact
from mercer.linalg.eigen import EigenGram
from mercer.linalg.gram import Covariance
from mercer.losses.regression import Gaussian
from mercer.search.criteria import Problem
from mercer.search.left import Left

# The default grid, relative to the mean prior variance.
GRID = np.logspace(3.0, -6.0, 20)


def default_lams(kernel: Covariance, problem: Problem) -> Array:
    """Return 20 values (largest first) from 1000 to 1e-6 times the mean of k(x, x)."""
    return np.asarray(GRID * (float(kernel.diag(problem.points).mean()) or 1.0))


def ridge_path(kernel: Covariance, problem: Problem, lams: Array) -> Iterator[tuple[float, Array]]:
    """Yield (lam, leave-one-out mean (N, m) of every observation) for each lam > 0.

    f minimises sum_i w_i (y_i - f(x_i))^2 + lam |f|^2_k, with the basis of the problem free of
    penalty. mean_i = y_i - alpha_i / P_ii with P of ``linalg.basis`` (C without a basis), for rows
    that share a point as in :class:`~mercer.search.left.Left`: no refit. One eigendecomposition in
    all, then O(n^2) for each lam, whatever the number m of outputs.

    Reference: Rifkin & Lippert (2007), Notes on regularized least squares; GPML (5.12).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.search import simple_problem
    >>> X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> path = ridge_path(Linear(), simple_problem(X, np.sign(X)), np.array([10.0, 0.1]))
    >>> [(lam, mean[:, 0].round(2).tolist()) for lam, mean in path]
    [(10.0, [-0.17, -0.1, 0.1, 0.17]), (0.1, [-1.25, -0.53, 0.53, 1.25])]
    """
    gram = EigenGram(kernel, problem.points, problem.weights)
    for lam in lams:
        loss = Gaussian(noise=float(lam))
        solution = Exact().solve(
            gram, problem.y, loss, basis=problem.basis, weights=problem.weights
        )
        left = Left(problem, solution, loss.quadratic(problem.y)[1])
        yield float(lam), problem.rows - left.residual
