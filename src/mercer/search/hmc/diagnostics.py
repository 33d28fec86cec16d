"""Have the chains mixed? R-hat and effective sample sizes of draws (chains, samples); the report.

All of it after Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), Rank-normalization, folding,
and localization: an improved R-hat for assessing convergence of MCMC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from mercer.core.arrays import Array
from mercer.search.hmc.nuts import Chain
from mercer.search.space import Space

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


def report(space: Space, chains: Sequence[Chain], asked: int, interrupted: bool) -> dict[str, Any]:
    """Return how the sampling went, as plain values; mean and sd are those of u."""
    counts = [len(chain.draws) for chain in chains]
    n = min(counts)
    parameters: dict[str, dict[str, float]] = {}
    if n >= FEWEST:  # chains of equal length, even if an interrupt cut them differently
        u = np.array([chain.draws[:n] for chain in chains])
        for entry in space.entries:
            for i in range(entry.where.start, entry.where.stop):
                x = u[:, :, i]
                name = f"{entry.name}[{i - entry.where.start}]" if entry.shape else entry.name
                parameters[name] = {
                    "mean": float(x.mean()),
                    "sd": float(x.std()),
                    "rhat": rhat(x),
                    "ess_bulk": ess_bulk(x),
                    "ess_tail": ess_tail(x),
                }
    complaints = _complaints(parameters, interrupted)
    divergences = sum(chain.divergences for chain in chains)
    if divergences:
        complaints.append(
            f"{divergences} of {sum(counts)} transitions lost the energy, so that a narrow region "
            "may be missing: raise target towards 1, or give tighter hyperpriors"
        )
    acceptance = [a for chain in chains for a in chain.acceptance]
    depths = [d for chain in chains for d in chain.depths]
    return {
        "sampler": "NUTS",
        "starts": len(chains),
        "draws": counts,
        "converged": not complaints and n == asked,
        "message": "; ".join(complaints) or "the chains agree",
        "interrupted": interrupted,
        "divergences": divergences,
        "acceptance": float(np.mean(acceptance)) if acceptance else None,
        "mean_depth": float(np.mean(depths)) if depths else None,
        "step_sizes": [chain.step_size for chain in chains],
        "parameters": parameters,
        "at_bounds": [],
    }


def _complaints(parameters: dict[str, dict[str, float]], interrupted: bool) -> list[str]:
    """Sentences on what is wrong and what to do."""
    found = ["interrupted; what was drawn so far is kept"] if interrupted else []
    if not parameters:
        return [*found, f"fewer than {FEWEST} draws of each chain: nothing is known of convergence"]
    worst = max(parameters, key=lambda name: parameters[name]["rhat"])
    if not parameters[worst]["rhat"] <= AGREE:
        found.append(
            f"R-hat is {parameters[worst]['rhat']:.3f} for {worst}, above {AGREE}: the chains do "
            "not agree yet; give more warmup and samples, or tighter hyperpriors"
        )
    sizes = {k: min(v["ess_bulk"], v["ess_tail"]) for k, v in parameters.items()}
    fewest = min(sizes, key=lambda name: sizes[name])
    if not sizes[fewest] >= ENOUGH:
        found.append(
            f"the effective sample size is {sizes[fewest]:.0f} for {fewest}, below {ENOUGH}: "
            "give more samples"
        )
    return found
