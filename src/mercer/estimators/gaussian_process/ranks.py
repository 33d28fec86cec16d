"""How many functions several outputs share: those that pay for their parameters in evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.gaussian_process.regressor import GPRegressor
from mercer.kernels.base import Kernel
from mercer.kernels.equality import Coregionalised
from mercer.kernels.stationary.base import untied
from mercer.search import Search
from mercer.search.space import PRICE

# kernel, search -> the machine of all entries that are known
Fitted: TypeAlias = Callable[[Kernel, Search | None], GPRegressor]
SIGNAL, NOISE, LEAST = 0.9, 0.1, 0.05  # of standardised outputs, where a search begins


def started(kernel: Kernel, Z: Array, rank: int) -> Coregionalised:
    """Return where a search begins: the leading directions of the correlations of Z (n, m)."""
    m, known = Z.shape[1], ~np.isnan(Z)
    filled = np.where(known, Z, 0.0)
    both = np.maximum((known.T * 1.0) @ known, 1.0)
    values, vectors = np.linalg.eigh(filled.T @ filled / both)
    if not rank:
        return Coregionalised(kernel, None, np.full(m, SIGNAL), np.full(m, NOISE))
    sizes = np.maximum(values[::-1][:rank], LEAST)
    A = np.sqrt(SIGNAL * sizes) * vectors[:, ::-1][:, :rank]
    own = np.maximum(SIGNAL - np.square(A).sum(axis=1), LEAST)
    return Coregionalised(kernel, A, own, np.full(m, NOISE))


def once(search: Search) -> Search:
    """Return the search from the given start alone."""
    one = search.__sklearn_clone__()
    if "restarts" in one.parameter_names():
        one.set_params(restarts=0)
    return one


def by_rank(
    fitted: Fitted, kernel: Kernel, Z: Array, rank: Any, search: Search | None
) -> tuple[GPRegressor, dict[str, Any]]:
    """Return the machine of the rank that is asked for, or of that which pays, and what was tried.

    One more function has m - r + 1 parameters that count, its direction apart from the others'.
    """
    m, count = Z.shape[1], float((~np.isnan(Z)).sum())
    whole = isinstance(rank, (int, np.integer)) and not isinstance(rank, bool)
    if not (whole or (isinstance(rank, str) and rank == "auto")) or (whole and not 0 <= rank < m):
        raise ValueError(
            f"rank must be 'auto' or a number from 0 to {m - 1}, one less than the outputs, not "
            f"{rank!r}"
        )
    if whole or search is None:
        given = int(rank) if whole else min(1, m - 1)
        return fitted(started(kernel, Z, given), search), {"chosen": given, "tried": []}
    best, tried, chosen = fitted(started(kernel, Z, 0), search), list[dict[str, Any]](), 0
    for more in range(1, m):
        assert isinstance(best.kernel_, Coregionalised)
        start = started(best.kernel_.kernel, Z, more)
        trial = fitted(start, once(search) if more > 1 else search)
        gain = float(trial.log_evidence_ or -np.inf) - float(best.log_evidence_ or -np.inf)
        needed = PRICE * (m - more + 1) * float(np.log(count))
        tried.append({"rank": more, "gain": gain, "needed": needed})
        if gain <= needed:
            break
        best, chosen = trial, more
    return best, {"chosen": chosen, "tried": tried}


def by_column(
    fitted: Fitted, tied: GPRegressor, d: int, Z: Array, search: Search
) -> tuple[GPRegressor, dict[str, Any]]:
    """Return the machine with a length scale for each of d columns, if the evidence pays for it."""
    kernel = tied.kernel_
    assert isinstance(kernel, Coregionalised)
    other = fitted(kernel._rebuilt({"kernel": untied(kernel.kernel, d)}), once(search))
    gain = float(other.log_evidence_ or -np.inf) - float(tied.log_evidence_ or -np.inf)
    needed = PRICE * (d - 1) * float(np.log((~np.isnan(Z)).sum()))
    found = {"kept": gain > needed, "gain": gain, "needed": needed, "extra_parameters": d - 1}
    return (other if gain > needed else tied), found | {"search": other.report_["search"]}
