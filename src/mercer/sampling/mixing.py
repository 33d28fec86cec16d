"""Have the chains mixed? R-hat and effective sample sizes of draws (chains, samples).

All of it after Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), Rank-normalization, folding,
and localization: an improved R-hat for assessing convergence of MCMC.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from mercer.core.arrays import Array

FEWEST = 4  # draws of a chain below which neither halves nor lags mean anything
AGREE = 1.01  # R-hat up to which chains agree: Vehtari et al. (2021)
ENOUGH = 100  # effective draws: the error of a mean is then a tenth of the spread of the draws


def rhat(draws: Array) -> float:
    """Return the rank-normalised split R-hat: one if all halves of all chains say the same.

    The larger of two values, of the draws and of their distances from the median, so that chains
    of equal place and different width are seen, too. Below 1.01 is good.

    ``draws`` are (chains, samples); nan for fewer than four samples, inf for chains that never
    moved. Reference: Vehtari et al. (2021), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(rhat(x) < 1.01), bool(rhat(x + np.arange(4)[:, None]) > 1.5)
    (True, True)
    """
    if draws.shape[1] < FEWEST:
        return float("nan")
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_ratio(_normal_scores(halves)), _ratio(_normal_scores(folded)))


def ess_bulk(draws: Array) -> float:
    """Return how many independent draws (chains, samples) is worth for a mean or a median.

    Reference: Vehtari et al. (2021), section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1500 < ess_bulk(x) < 2500), bool(ess_bulk(np.repeat(x, 2, axis=1)) < 2500)
    (True, True)
    """
    few = draws.shape[1] < FEWEST
    return float("nan") if few else ess(_normal_scores(_halves(draws)))


def ess_tail(draws: Array) -> float:
    """Return how many independent draws (chains, samples) is worth for its 5 and 95 % quantiles.

    Reference: Vehtari et al. (2021), section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1200 < ess_tail(x) < 2500)
    True
    """
    if draws.shape[1] < FEWEST:
        return float("nan")
    below = [draws <= q for q in np.quantile(draws, [0.05, 0.95])]
    return min(ess(_halves(b.astype(np.float64))) for b in below)


def ess(draws: Array) -> float:
    """Return the effective sample size of the mean of draws (chains, samples), as they are.

    S / tau with tau = -1 + 2 (sum of the autocorrelations), cut off by Geyer's rule: sums of
    neighbouring pairs are positive and fall for a reversible chain, so the sum ends where an
    estimate is negative, and no pair counts more than the one before. Nan for fewer than three
    samples, which leave no lag to estimate.

    Reference: Vehtari et al. (2021), (10)-(13); Geyer (1992).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1500 < ess(x) < 2500)
    True
    """
    chains, n = draws.shape
    if n < 3:
        return float("nan")
    if np.ptp(draws) == 0.0:  # an event that never, or always, happened: nothing to estimate
        return float(draws.size)
    centred = draws - draws.mean(axis=1, keepdims=True)
    size = next_fast_len(2 * n, real=True)
    spectrum = np.abs(rfft(centred, size, axis=1)) ** 2
    covariance = irfft(spectrum, size, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1.0)
    between = float(np.var(draws.mean(axis=1), ddof=1)) if chains > 1 else 0.0
    rho = 1.0 - (within - covariance) / (covariance[0] + between)
    rho[0] = 1.0
    whole = (n - 1) // 2  # the very last lag rests on one product of a chain: it is left out
    even = rho[: 2 * whole : 2]
    pairs = even + rho[1 : 2 * whole : 2]
    last = int(np.argmax(pairs < 0.0)) if np.any(pairs < 0.0) else len(pairs) - 1
    kept = np.minimum.accumulate(pairs[:last])
    tau = -1.0 + 2.0 * float(kept.sum()) + max(float(even[last]), 0.0)
    # antithetic chains beat independent draws, but by how much cannot be told from few of them
    return float(draws.size / max(tau, 1.0 / np.log10(draws.size)))


def _halves(draws: Array) -> Array:
    half = draws.shape[1] // 2
    return np.vstack([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Array) -> Array:
    """Normal quantiles of the ranks (r - 3/8) / (S + 1/4), ties averaged."""
    ranks = stats.rankdata(draws, method="average").reshape(draws.shape)
    return np.asarray(ndtri((ranks - 0.375) / (draws.size + 0.25)))


def _ratio(draws: Array) -> float:
    """sqrt(variance of all draws / variance within chains), (1)-(4)."""
    n = draws.shape[1]
    within = float(np.var(draws, axis=1, ddof=1).mean())
    if within == 0.0:
        return float("inf")
    between = n * float(np.var(draws.mean(axis=1), ddof=1))
    return float(np.sqrt((between / within + n - 1.0) / n))


def mean_error(draws: Array) -> tuple[Array, Array]:
    """Return the mean of draws (chains, samples, ...) and its Monte Carlo standard error, (...).

    The error is the deviation of the draws over the square root of :func:`ess`, but draws count at
    most as independent ones: how much better antithetic chains are, short ones cannot tell. Where
    chains were too short to tell anything, it is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> mean, error = mean_error(x)
    >>> bool(abs(mean[0]) < 4 * error[0]), bool(0.015 < error[0] < 0.03)
    (True, True)
    """
    flat = draws.reshape(*draws.shape[:2], -1)
    most = float(flat.shape[0] * flat.shape[1])
    sizes = np.array([min(ess(flat[:, :, i]), most) for i in range(flat.shape[2])])
    error = flat.std(axis=(0, 1), ddof=1) / np.sqrt(sizes)
    error = np.where(np.isnan(error), np.inf, error)
    mean = np.asarray(flat.mean(axis=(0, 1)))
    return mean.reshape(draws.shape[2:]), error.reshape(draws.shape[2:])
