"""What a report says of chains of hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.sampling.mixing import AGREE, ENOUGH, FEWEST, ess_bulk, ess_tail, rhat
from mercer.sampling.nuts import Chain
from mercer.search.space import Space


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
