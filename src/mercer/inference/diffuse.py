"""Curves on a line with a flat prior on their polynomials, for losses that are no quadratic.

The function f has the prior of :class:`~mercer.linalg.markov.MarkovGram`: integrated white noise
and, beside it, polynomials of degree m - 1 about which nothing is known. For sites of precision W
and mean z one pass of its filter gives f, its variances and log |I + K W| + log |A|; K f = a is
never formed, since the flat part makes it a difference of large numbers: with P of
:mod:`mercer.linalg.basis`, a = P z = W (z - f), and the penalty is a'f.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from mercer.arrays import Array
from mercer.inference.base import Evidence, Inference, Solution
from mercer.inference.diffuse_mode import center, level, mode, mode_score
from mercer.inference.diffuse_sweeps import fixed_point
from mercer.inference.prox import has_kinks
from mercer.inference.sites import SiteInference, Task, columns, joined
from mercer.linalg.markov import MarkovGram
from mercer.losses.base import Loss

LOG_2PI = float(np.log(2.0 * np.pi))


class DiffuseGram(MarkovGram):
    """A :class:`MarkovGram` whose prior variance, the flat part included, is as good as infinite.

    Parameters
    ----------
    points, order, variance : see :class:`MarkovGram`.
    wide : the number that stands for the prior variance; nothing but checks depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> DiffuseGram(np.array([[0.0], [1.0]]), wide=9.0).diag()
    array([9., 9.])
    """

    wide = 1.0

    def __init__(
        self, points: Array, order: int = 2, variance: float = 1.0, wide: float = 1.0
    ) -> None:
        super().__init__(points, order, variance)
        self.wide = wide

    def diag(self) -> Array:
        """Return the stand-in for the prior variance, (n,)."""
        return np.full(len(self.points), self.wide)

    def with_variance(self, variance: float) -> DiffuseGram:
        """Return the same points with another variance of the process."""
        twin = copy(self)
        twin.variance = variance
        return twin


def solve_diffuse(
    inference: Inference, gram: DiffuseGram, y: Array, loss: Loss, w: Array, start: Solution | None
) -> Solution:
    """Return the posterior of targets y (n,) of weights w (n,), by Laplace or EP.

    ``z`` of the solution is f, as of every site method. EP begins with the sites of ``start``, of
    Laplace, or for losses with kinks of their widths: a flat prior has no moments to begin with.
    """
    begun = None if start is None else next(columns(start))
    task = Task(gram, y, loss, w, np.zeros(len(y)))
    given = inference.get_params()
    averages = "tilted" in inference.needs
    if not averages:
        return joined([mode(task, begun, given["tol"], given["max_iter"])], w)
    assert isinstance(inference, SiteInference)
    if begun is None:
        begun = center(task) if has_kinks(loss) else mode(task, None, 1e-6, 100)
    return joined([fixed_point(inference, task, begun)], w)


def diffuse_evidence(
    inference: Inference, gram: DiffuseGram, y: Array, loss: Loss, solution: Solution
) -> tuple[Evidence, float]:
    """Return the log evidence, and its slope in the logarithm of the process's variance.

    With a flat unit density on the coefficients of (x - x0)^j / j!, as for Gaussian noise: a factor
    (2 pi)^(m/2) |A|^(-1/2) besides what a proper prior has. By formula (3), tr(P K) = edf - m,

        dE / d log variance = (a'f - edf + m) / 2 - q'a,      q the shift of the mode with W.
    """
    (sites,) = columns(solution)
    task = Task(gram, y, loss, solution.weights, np.zeros(len(y)))
    task = replace(task, mean=level(task, sites.f))
    m = gram.order
    variance = sites.factor.cov_diag()
    if "tilted" in inference.needs:
        assert isinstance(inference, SiteInference)
        found, shift = inference.score(task, sites), np.zeros(len(y))
    else:
        found, shift = mode_score(task, sites, variance)
    slope = 0.5 * (float(sites.a @ (sites.f - task.mean)) - float(sites.W @ variance) + m)
    slope -= float(shift @ sites.a)
    value = found.value + 0.5 * m * LOG_2PI
    return Evidence(value, loss_gradient=found.loss_gradient), slope
