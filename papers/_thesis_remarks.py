"""What there is to say about the columns without a tolerance: factor-analysed, and committees."""

from __future__ import annotations

import numpy as np
from _thesis_data import SETS
from _thesis_numbers import Store, differences, held, verdict

NOTES = {
    "fagp": "At the same parameters it is the same function, or lower where the other inner search "
    "ended in another of its local minima.",
    "fasvm": "At the same parameters it is lower, since the listed figures bound the average of "
    "the loss (C.2.3) where mercer computes it.",
}


def factored(title: str, store: Store, method: str) -> list[str]:
    """How the cells of a factor-analysed column compare."""
    cells = held(store, (method,))
    if not cells:
        return []
    run = sum(cell.method == method for cell in store)
    met = sum(verdict(c, row, SETS[c.data].tests) == "met" for c, row, _ in cells)
    gaps = np.array([differences(row, other)["F"] for _, row, other in cells])
    there = np.array([row["F_there"] - other["F"] for _, row, other in cells])
    late = sum(row["unconverged"] > 0 for _, row, _ in cells)
    seconds = np.median([row["seconds"] for _, row, _ in cells])
    return [
        f"{title}: {run} searches, {len(cells)} of them listed, {met} within the tolerances of the "
        f"others although none applies; F ours less listed {np.median(gaps):+.4f} in the median, "
        f"from {gaps.min():+.3f} to {gaps.max():+.3f}, at the listed parameters from "
        f"{there.min():+.3f} to {there.max():+.3f}. {NOTES[method]} Searches in which an inner "
        f"iteration did not converge: {late}. Median {seconds:.1f} s of one core for a search.",
        "",
    ]


def committees(store: Store) -> list[str]:
    """How well the chains agree, and how far the committees are from the listed ones."""
    cells = held(store, ("hmc",))
    if not cells:
        return []
    gaps = [100.0 * differences(row, o)["err"] / SETS[c.data].tests for c, row, o in cells]
    nlpd = [row["nlpd"] - other["nlpd"] for _, row, other in cells]
    rhat, work = ([row[k] for _, row, _ in cells] for k in ("rhat", "nev"))
    return [
        f"Committees: {len(cells)} runs, all listed. Errors ours less listed {np.mean(gaps):+.2f} "
        f"per cent of the test set on average (from {min(gaps):+.2f} to {max(gaps):+.2f}), minus "
        f"log predictive density {np.mean(nlpd):+.4f} (from {min(nlpd):+.4f} to {max(nlpd):+.4f}); "
        f"{np.median(work):.0f} evaluations in the median. Two short chains: R-hat of the slowest "
        f"parameter is {np.median(rhat):.2f} in the median and {max(rhat):.2f} at most, so that "
        "other draws would give other figures.",
        "",
    ]
