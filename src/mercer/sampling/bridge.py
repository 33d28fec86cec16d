"""Bridge sampling: the mass under an unnormalised density, between its draws and a Gaussian's.

Draws of a normalised q and of p* / Z meet where both are: with l = log p* - log q,

    Z = E_q[e^l / (s_p e^l / Z + s_q)] / E_p[1 / (s_p e^l / Z + s_q)]

for every Z that the right side holds; the fixed point has the least error. Both averages are of
bounded numbers: tails of q that are too thin cannot spoil them. Theory (T6). Meng & Wong (1996),
Simulating ratios of normalizing constants via a simple identity, (4.1).
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.sampling.mixing import ess

STEPS = 1000  # of the fixed point, which is a contraction


def bridged(drawn: Array, guessed: Array, independent: bool = False) -> tuple[float, float]:
    """Return log Z and its standard error.

    Parameters
    ----------
    drawn : (chains, samples) l at draws of p, as they came: their correlation is counted.
    guessed : (k,) l at independent draws of q.
    independent : whether the draws of p are, too. Forward and reverse paths of annealing are such
        draws, with their log weights for l: Bennett's acceptance ratio.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> log_ratio = lambda x: np.log(3.0) - 2.0 * x**2 + 0.5 * x**2 + np.log(2.0)  # 3 N(0, 1/4)
    >>> drawn, guessed = 0.5 * rng.normal(size=(4, 500)), rng.normal(size=2000)
    >>> value, error = bridged(log_ratio(drawn), log_ratio(guessed))
    >>> bool(abs(value - np.log(3.0)) < 4 * error), bool(error < 0.03)
    (True, True)
    """
    worth = float(drawn.size) if independent else ess(drawn)
    k = len(guessed)
    s_p, s_q = worth / (worth + k), k / (worth + k)
    value = float(np.median(drawn))
    for _ in range(STEPS):
        above, below = _shares(drawn, guessed, value, s_p, s_q)
        last, value = value, value + float(np.log(above.mean()) - np.log(below.mean()))
        if abs(value - last) <= 1e-12 * (1.0 + abs(value)):
            break
    above, below = _shares(drawn, guessed, value, s_p, s_q)
    relative = np.var(above, ddof=1) / (k * above.mean() ** 2)
    size = below.size if independent else ess(below)
    relative += np.var(below, ddof=1) / (size * below.mean() ** 2)
    return value, float(np.sqrt(relative))


def _shares(
    drawn: Array, guessed: Array, value: float, s_p: float, s_q: float
) -> tuple[Array, Array]:
    """Return p / (s_p p + s_q q) at draws of q, and q / (s_p p + s_q q) at draws of p."""
    above = np.exp(guessed - value - np.logaddexp(np.log(s_p) + guessed - value, np.log(s_q)))
    below = np.exp(-np.logaddexp(np.log(s_p) + drawn - value, np.log(s_q)))
    return above, below
