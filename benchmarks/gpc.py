"""Gaussian process classification: whole fits, their factorisations and their memory."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpc_peers import FITS, mercer, problem
from measure import Row, in_fresh_process, interleaved, peak_growth, serve

D = 8
NATS = ">= -0.01"  # log evidence of mercer less that of a peer
MEMORY_BAR = "<= 5"
COLD_BAR = "<= 16"  # factorisations of the variational Gaussian without a start nearby
WARM_UP = 100  # points of the fit that loads libraries before memory is measured
SAME = 1e-5  # relative difference of the evidence at the start up to which the models are the same


@dataclass(frozen=True)
class Contest:
    """mercer's fit, those of the peers that solve the same problem with a bar each, and its own."""

    mine: str
    bars: dict[str, str]
    factorisations: str
    small_only: bool = False


def contests(n: int) -> list[Contest]:
    """What is compared at n points."""
    logistic = {"scikit-learn": ">= 4", "gpboost": ">= 4" if n > 500 else ">= 3"}
    return [
        Contest("mercer Laplace logistic", logistic, "<= 4"),
        Contest("mercer Laplace probit", {"GPy Laplace": ">= 8"}, "<= 4"),
        Contest("mercer EP probit", {"GPy EP": ">= 3"}, "<= 15", small_only=True),
        Contest("mercer Variational logistic", {}, "<= 6", small_only=True),
    ]


def missing(names: list[str]) -> list[Row]:
    """Rows that say which peers are not installed."""
    return [Row("peer", name, note="not installed: skipped") for name in names if not version(name)]


def version(name: str) -> str | None:
    """Return the installed version of the library that "library method" names, or None."""
    try:
        return importlib.metadata.version(name.split()[0])
    except importlib.metadata.PackageNotFoundError:
        return None


def fit_rows(n: int, names: list[str], repeats: int, small: bool) -> list[Row]:
    """Time whole fits at n points; ``names`` are the peers wanted, ``small`` adds the slow ones."""
    rows: list[Row] = []
    for contest in contests(n):
        if small or not contest.small_only:
            wanted = [p for p in contest.bars if p.split()[0] in names and version(p)]
            rows += _contest_rows(contest, n, wanted, repeats)
    return rows


def _contest_rows(contest: Contest, n: int, peers: list[str], repeats: int) -> list[Row]:
    """Times and ratios, differences of the evidence, factorisations."""
    workers = {name: ["gpc.py", "fit", name, str(n)] for name in (contest.mine, *peers)}
    found = interleaved(workers, repeats)
    what, mine = f"classify, n = {n}, d = {D}", found[contest.mine]
    rows = []
    for name, entry in found.items():
        row = Row(what, name, seconds=entry["seconds"], quality=entry["result"])
        row.note = f"system {entry['system']:.2g} s"
        if name != contest.mine:
            row.value, row.unit = entry["seconds"] / mine["seconds"], "x slower than mercer"
            row.bar = contest.bars[name]
        if not _same(entry["result"], mine["result"]):
            row.note += "; DISAGREES at the start"
        rows.append(row)
    for name in peers:
        gain = mine["result"]["log evidence"] - found[name]["result"]["log evidence"]
        rows.append(Row(what, f"{contest.mine} - {name}", gain, "nats of log evidence", NATS))
    count = f"factorisations, n = {n}"
    median, cold = mine["result"]["factorisations"], float(mine["result"]["cold"])
    rows.append(Row(count, contest.mine, median, "per evaluation, median", contest.factorisations))
    bar = COLD_BAR if "Variational" in contest.mine else ""
    rows.append(Row(count, contest.mine, cold, "without a start nearby", bar))
    return rows


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    first, second = one["at the start"], other["at the start"]
    return bool(abs(first - second) <= SAME * abs(second))


def memory_rows(n: int) -> list[Row]:
    """Measure the growth of peak resident memory in a fit of a few steps, in a fresh process."""
    rows = []
    for contest in contests(n):
        answer = in_fresh_process(["gpc.py", "memory", contest.mine, str(n)])
        grown = answer["bytes"] / (8.0 * n * n)
        rows.append(
            Row(f"peak extra memory, n = {n}", contest.mine, grown, "n^2 doubles", MEMORY_BAR)
        )
    return rows


def memory_of(name: str, n: int) -> int:
    """Bytes that a fit at n points adds to the peak, libraries loaded before."""
    _, inference, loss = name.lower().split()
    fit = mercer(inference, loss, max_iter=2)
    fit(*problem(WARM_UP, D))
    X, y = problem(n, D)
    return peak_growth(lambda: fit(X, y))


def fit_of(name: str, n: int) -> Callable[[int], dict[str, Any]]:
    """Return the task of a worker: the same fit in each turn."""
    X, y = problem(n, D)
    return lambda turn: FITS[name](X, y)


if __name__ == "__main__":
    _, part, who, size = sys.argv
    if part == "memory":
        print(json.dumps({"bytes": memory_of(who, int(size))}))
    else:
        serve(fit_of(who, int(size)))
