"""What there is to say about draws of hyperparameters, and which of them make a committee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from mercer.search.hmc.chain import Chain
from mercer.search.hmc.diagnostics import FEWEST, ess_bulk, ess_tail, rhat
from mercer.search.space import Space

T = TypeVar("T")
AGREE = 1.01  # R-hat up to which chains agree: Vehtari et al. (2021)
ENOUGH = 100  # effective draws: the error of a mean is then a tenth of the spread of the draws


def flat_names(space: Space) -> list[str]:
    """Names of the parameters without a hyperprior: uniform in u between their bounds.

    Refuses a parameter that has neither: the density would have no finite mass.
    """
    names = []
    for entry in space.entries:
        if entry.prior is not None:
            continue
        if not np.all(np.isfinite(space.bounds[entry.where])):
            raise ValueError(
                f"{entry.name} has neither a hyperprior nor bounds, so that there is no posterior "
                f"to draw it from; give it one with .prior({entry.path}=...), or .bound("
                f"{entry.path}=(low, high)), or fix it"
            )
        names.append(entry.name)
    return names


def evenly(draws: Sequence[T], keep: int) -> list[T]:
    """Return ``keep`` of the draws at equal distances, or all if there are fewer.

    Examples
    --------
    >>> evenly(range(10), 2), evenly(range(3), 5)
    ([2, 7], [0, 1, 2])
    """
    n = len(draws)
    if n <= keep:
        return list(draws)
    return [draws[int((i + 0.5) * n / keep)] for i in range(keep)]


def labels(space: Space) -> list[str]:
    """One name for each coordinate of u; entries of an array are numbered."""
    found = []
    for entry in space.entries:
        size = entry.where.stop - entry.where.start
        found += [entry.name] if not entry.shape else [f"{entry.name}[{i}]" for i in range(size)]
    return found


def report(space: Space, chains: Sequence[Chain], asked: int, interrupted: bool) -> dict[str, Any]:
    """Return how the sampling went, as plain values; mean and sd are those of u."""
    counts = [len(chain.draws) for chain in chains]
    n = min(counts)
    parameters: dict[str, dict[str, float]] = {}
    if n >= FEWEST:  # chains of equal length, even if an interrupt cut them differently
        u = np.array([chain.draws[:n] for chain in chains])
        for j, name in enumerate(labels(space)):
            x = u[:, :, j]
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
