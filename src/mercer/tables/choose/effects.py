"""Candidates for rows with a structure: an effect of each group; trend, season and recency in time.

The group stands in the last column of the inputs, as a number that only says which rows share it;
all other parts of a kernel are of the columns before it. A new group is no number that a row has,
so that its effect is unknown, and the variance of groups is in its predictions (Nugget).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.gaussian_process.classifier import GPClassifier
from mercer.estimators.gaussian_process.regressor import GPRegressor
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.kernels import RBF, Kernel, Linear, Matern, Nugget, Periodic, as_kernel
from mercer.tables.choose.candidates import Candidate
from mercer.tables.data.target import Target

ALIKE = 30  # columns above which all share one length scale
LATEST = 1000  # rows in which a season is looked for
SEASONS = 3  # periods that the data must span before a season is one


def apart(candidates: list[Candidate], X: Array, size: float) -> tuple[list[Candidate], list[str]]:
    """Return the candidates that can leave the last column of X (n, d) out, and what they lack.

    Those whose machines have a kernel of columns get one of the other columns; ``size`` is the
    variance of the target, at which a search begins.
    """
    kept, lost = [], []
    for candidate in candidates:
        machines = candidate.make(X, None)
        if all(_takes(machine) for machine in machines):
            kept.append(_restricted(candidate, size))
        else:
            lost.append(candidate.name)
    notes = [f"not tried, since they know no effect of groups: {', '.join(lost)}"] if lost else []
    return kept, notes


def _takes(machine: Any) -> bool:
    params = machine.get_params(deep=False)
    free = params.get("basis") in (None, "constant") and "gamma" not in params
    if isinstance(machine, KernelRegressor) and not isinstance(machine, GPRegressor):
        return False  # it is centred with kernels by name alone
    return free and params.get("kernel") is not None and not as_kernel(params["kernel"]).pairwise


def _restricted(candidate: Candidate, size: float) -> Candidate:
    def make(X: Array, w: Array | None) -> list[Any]:
        columns = list(range(X.shape[1] - 1))
        machines = candidate.make(X, w)
        for machine in machines:
            params = machine.get_params(deep=False)
            start = size if params.get("loss") == "gaussian" else 1.0
            machine.set_params(kernel=_on(params["kernel"], columns, start))
            if isinstance(machine, GPRegressor):
                machine.set_params(basis="constant")  # a kernel of columns is not centred
        return machines

    return replace(candidate, make=make)


def _on(kernel: Any, columns: list[int], size: float) -> Kernel:
    """Return a kernel, or the one of a name, on some columns: a scale for each, and a variance."""
    part = as_kernel(kernel)
    lengths: Any = np.ones(len(columns)) if len(columns) <= ALIKE else 1.0
    if isinstance(kernel, str) and "length_scale" in part.get_params(deep=False):
        part = part.set_params(length_scale=lengths)
    return size * part.on(columns) if isinstance(kernel, str) else part.on(columns)


def of_groups(X: Array, k: int, size: float) -> list[Candidate]:
    """Return the candidates with an effect of each group, whose number is the last column of X."""
    d = X.shape[1] - 1
    columns, effect = list(range(d)), Nugget(0.5 * size).on([d])
    line = "a straight line in every input, and an effect of each group"
    smooth = "a smooth function, and an effect of each group"
    return [
        _process("linear, groups", line, _on("linear", columns, size) + effect, k),
        _process("Gaussian process, groups", smooth, _on("rbf", columns, size) + effect, k),
    ]


def in_time(X: Array, at: int, k: int, size: float, season: float | None) -> list[Candidate]:
    """Return the candidates for rows in time, which column ``at`` of X (n, d) holds.

    What is near in time is alike (recency, an Ornstein-Uhlenbeck process), about a trend that is a
    straight line; a ``season`` of that length, in units of the column, repeats and changes slowly.
    """
    others = [j for j in range(X.shape[1]) if j != at]
    span, half = float(np.ptp(X[:, at])) or 1.0, 0.5 * size
    base: Kernel = half * Matern(nu=0.5, length_scale=span / 5.0).on([at])
    base = base + half * Linear().on([at])
    base = base + _on("rbf", others, size) if others else base
    near = "rows that are near in time are alike"
    found = [_process("trend and recency", f"a trend, and {near}", base, k)]
    if season is not None:
        wave = Periodic(length_scale=1.0, period=season).on([at]) * RBF(span).on([at])
        sentence = f"a trend, a season that changes slowly, and {near}"
        found.append(_process("trend, season and recency", sentence, base + half * wave, k))
    return found


def for_kernel(candidate: Candidate, X: Array, target: Target) -> list[Candidate]:
    """Return the candidate with a kernel that was asked for, of the columns before the group."""
    structure = target.structure
    grouped = structure is not None and structure.groups is not None
    return apart([candidate], X, size_of(target))[0] if grouped else [candidate]


def size_of(target: Target) -> float:
    """Return the variance of a quantity, one of classes: where the search of a scale begins."""
    return 1.0 if target.k else float(np.var(target.values[target.known])) or 1.0


def at_time(X: Array, times: Array) -> int | None:
    """Return which column of X (n, d) is the time, but for shift and scale; None if none is."""
    t = times - times.mean()
    for j in range(X.shape[1]):
        x = X[:, j] - X[:, j].mean()
        xx, tt, xt = float(x @ x), float(t @ t), float(x @ t)
        if xx > 0.0 < tt and xx * tt - xt * xt <= 1e-9 * xx * tt:
            return j
    return None


def for_structure(
    candidates: list[Candidate], X: Array, target: Target
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates for rows with a structure, and notes about those that are none."""
    structure, k = target.structure, target.k
    if structure is None:
        return candidates, []
    if structure.groups is not None:
        found, notes = apart(candidates, X, size_of(target))
        return found + of_groups(X, k, size_of(target)), notes
    assert structure.times is not None
    at = at_time(X, structure.times)
    if at is None:
        return candidates, []
    known = np.flatnonzero(target.known)
    late = known[np.argsort(structure.times[known], kind="stable")][-LATEST:]
    season = None if k > 2 else season_of(X[late, at], target.values[late])
    return candidates + in_time(X, at, k, size_of(target), season), []


def _process(name: str, sentence: str, kernel: Kernel, k: int) -> Candidate:
    def make(X: Array, w: Array | None) -> list[Any]:
        if k == 0:
            return [GPRegressor(kernel, basis="constant")]
        link: Any = {} if k == 2 else {"loss": "probit", "inference": "ep"}
        return [GPClassifier(kernel, **link)]

    return Candidate(name, sentence, make, "evidence")


def season_of(t: Array, y: Array) -> float | None:
    """Return the period of the strongest wave in y (n,) at times t (n,); None if there is none.

    By the periodogram of least squares (Lomb 1976) of what a straight line leaves, over periods of
    which the times hold at least three; its greatest value must be one in a thousand under noise.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(120.0)
    >>> round(season_of(t, np.sin(2 * np.pi * t / 12) + 0.01 * t), 1)
    12.0
    >>> season_of(t, np.random.default_rng(0).normal(size=120)) is None
    True
    """
    n, span = len(t), float(np.ptp(t))
    if n < 20 or span == 0.0:
        return None
    line = np.column_stack([np.ones(n), t - t.mean()])
    r = y - line @ np.linalg.lstsq(line, y, rcond=None)[0]
    total = float(r @ r)
    count = min(n // 2, 500)
    frequencies = np.linspace(SEASONS / span, 0.5 * len(np.unique(t)) / span, 4 * count)
    if total <= 0.0 or frequencies[-1] <= frequencies[0]:
        return None
    best, power = 0.0, 0.0
    for f in frequencies:
        wave = np.column_stack([np.cos(2 * np.pi * f * t), np.sin(2 * np.pi * f * t)])
        size = float(np.sum((r @ np.linalg.qr(wave)[0]) ** 2)) / total
        best, power = (f, size) if size > power else (best, power)
    # the share of a wave in noise exceeds p with probability (1 - p)^((n - 4) / 2)
    if count * (1.0 - min(power, 1.0 - 1e-12)) ** (0.5 * (n - 4)) > 1e-3:
        return None
    return float(1.0 / best)
