"""Elliptical slice sampling: draws from a Gaussian prior times any likelihood, nothing to tune.

Many chains move at once: the first axis of a state counts them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.core.arrays import Array

Likelihood = Callable[[Array], Array]  # states (b, ...) -> log likelihood (b,)
Random = np.random.Generator


def elliptical(
    state: Array,
    value: Array,
    prior: Array,
    likelihood: Likelihood,
    rng: Random,
    power: float = 1.0,
) -> tuple[Array, Array]:
    """Return the next state (b, ...) of each chain and its log likelihood (b,).

    With f ~ N(0, K) and an independent prior draw h, every point of the ellipse
    f cos t + h sin t has the prior's law again. A level is drawn under the likelihood, and an angle
    from a bracket about 0 that shrinks until the likelihood there is above the level: at t = 0 it
    is, so that every transition moves. It leaves N(0, K) likelihood^power as it is, exactly, for
    likelihoods without a slope, too.

    Parameters
    ----------
    state, value : (b, ...) and (b,), where the chains are and their log likelihoods.
    prior : (b, ...) a fresh draw of the prior (mean zero) for each chain.
    likelihood : log likelihood of some states; nan counts as zero likelihood.
    power : of the likelihood, for annealing.

    Reference: Murray, Adams & MacKay (2010), Elliptical slice sampling, figure 2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> loglik = lambda f: -2.0 * (f[:, 0] - 1.0) ** 2  # y = 1 with noise 1/4
    >>> f, seen = np.zeros((500, 1)), []
    >>> for _ in range(20):
    ...     f, _ = elliptical(f, loglik(f), rng.standard_normal(f.shape), loglik, rng)
    >>> bool(abs(f.mean() - 0.8) < 0.08), bool(abs(f.var() - 0.2) < 0.05)
    (True, True)
    """
    b = len(state)
    wide = (-1,) + (1,) * (state.ndim - 1)
    level = power * value - rng.standard_exponential(b)
    angle = rng.uniform(0.0, 2.0 * np.pi, b)
    low, high = angle - 2.0 * np.pi, angle.copy()
    state, value = state.copy(), value.copy()
    active = np.arange(b)
    while len(active):
        turn = angle[active].reshape(wide)
        new = np.cos(turn) * state[active] + np.sin(turn) * prior[active]
        found = likelihood(new)
        good = power * found >= level[active]  # False for nan
        taken = active[good]
        state[taken], value[taken] = new[good], found[good]
        active = active[~good]
        below = angle[active] < 0.0
        low[active] = np.where(below, angle[active], low[active])
        high[active] = np.where(below, high[active], angle[active])
        angle[active] = rng.uniform(low[active], high[active])
    return state, value
