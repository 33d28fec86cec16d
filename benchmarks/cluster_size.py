"""What passes over 1e7, 1e8 and 1e9 rows take of a cluster, from the measured time of one block.

A block of 65536 rows and 8 columns is read from a parquet file and computed on one core, for each
kind of pass; the answers and what is broadcast are weighed as they travel, and a pass over many
blocks without work tells what the scheduler of Dask takes for each. Then, with B = n / b blocks, W
machines of c cores, a network of N and files of S bytes a second on each machine,

    seconds of a pass = max(B t_block / (W c), B t_scheduler, n bytes_row / (W S))
                        + (1 + log2 W) broadcast / N + B answer / (W N)

The whole fit is the sum over its passes; the search on a sample, the same for any n, comes on top.
"""

from __future__ import annotations

import json
import math
import pickle
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cluster import GROUP, D, drawn, used, written
from measure import Row, in_fresh_process

POINTS = (250, 500, 1000)
# operations, times b m^2; of a hinge at most, as rows that are not active take none
FLOPS = {"facts": 0.0, "value": 2.0, "gradient": 2.0, "step": 3.0, "hinge": 1.0}
SIZES = (10**7, 10**8, 10**9)
MACHINES, CORES, NETWORK, FILES = 16, 16, 1.25e9, 0.5e9  # bytes a second: 10 Gbit, a fast disk
BYTES = 4 * (D + 1)  # of a row in the file
MANY = 400  # blocks without work


@dataclass
class Passes:
    """CPU seconds and bytes of passes over one block."""

    turns: list[float] = field(default_factory=list)  # CPU seconds of each
    answer: int = 0
    broadcast: int = 0
    count: int = 0  # passes of a whole fit


# ---------------------------------------------------------------------- measured, in its process
def blocks(path: str, m: int, repeats: int) -> dict[str, Any]:
    """Return what each kind of pass takes on one block."""
    from mercer.estimators.blocks.facts import find_facts
    from mercer.inference.blocks.collapsed import gaussian, gaussian_slopes
    from mercer.inference.blocks.landmarks import mode
    from mercer.inference.blocks.prepared import Prepared
    from mercer.inference.blocks.sites import variational
    from mercer.kernels import RBF
    from mercer.linalg.blocks.engine import Answer, Merge, Part, Task
    from mercer.linalg.blocks.local import LocalEngine
    from mercer.linalg.blocks.opened import source_of
    from mercer.losses import Gaussian, Hinge, Logistic

    found: dict[str, Passes] = {kind: Passes() for kind in FLOPS}

    class Stopwatch(LocalEngine):
        """Keeps CPU seconds and bytes of each kind of pass."""

        kind = ""

        def _merged(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
            begin = used()
            answer = super()._merged(task, broadcast, merge)
            kept, spent = found[self.kind], used() - begin
            if self.kind == "hinge" and "asks" not in broadcast:  # counts and draws rows
                return answer
            kept.turns.append(spent)
            kept.answer = max(kept.answer, len(pickle.dumps(answer)))
            kept.broadcast = max(kept.broadcast, len(pickle.dumps((task, broadcast))))
            return answer

    X, _, _ = drawn(GROUP, 1)
    Z, plain = X[:m].astype(np.float64), Prepared(np.zeros(D), np.ones(D))
    names = [f"x{j}" for j in range(D)]
    numbers, labels = (
        Stopwatch(source_of(path, target, features=names)) for target in ("y", "label")
    )
    signed = Prepared(np.zeros(D), np.ones(D), classes=np.array([0, 1]))
    kernel, whole = 4.0 * RBF(np.full(D, 2.0)), m == min(POINTS)
    for _ in range(repeats):
        numbers.kind, labels.kind = "facts", "step"
        find_facts(numbers, labels=False, rows=20_000, seed=0)
        numbers.kind = "value"
        solution = gaussian(numbers, plain, kernel, Gaussian(0.25), Z)
        numbers.kind = "gradient"
        gaussian_slopes(numbers, plain, Gaussian(0.25), solution, moved=True)
        given = (labels, signed, kernel)
        steps = variational(*given, Logistic(), Z, max_iter=200 if whole else 2)
        labels.kind = "hinge"
        turns = mode(*given, Hinge(), Z, max_iter=500 if whole else 1)
    found["step"].count = steps.report.details["passes"]
    found["hinge"].count = turns.report.details["passes"]
    return {
        kind: vars(passes) | {"seconds": statistics.median(passes.turns)}
        for kind, passes in found.items()
    }


class Nothing:
    """A block of one row."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self) -> Any:
        from mercer.linalg.blocks.engine import RowBlock

        return RowBlock(self.number, np.zeros((1, 1)), None, np.ones(1))


def _one(block: Any, broadcast: dict[str, Any]) -> dict[str, Any]:
    return {"rows": len(block.X)}


def scheduled() -> dict[str, float]:
    """Return CPU seconds of client and scheduler for each block of a pass without work."""
    from distributed import Client, LocalCluster

    from mercer.linalg.blocks.cluster import DaskEngine

    given = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(n_workers=1, memory_limit=0, **given) as cluster, Client(cluster) as client:
        engine = DaskEngine([Nothing(i) for i in range(MANY)], client)
        turns = []
        for _ in range(4):
            begin = used()
            engine.map_sum(_one, {})
            turns.append((used() - begin) / MANY)
    return {"cpu": min(turns)}


# ---------------------------------------------------------------------- rows of the table
def sizing_rows(repeats: int) -> list[Row]:
    """Return the measured times of a block, and what the formula makes of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(written(Path(folder) / "block.parquet", GROUP))
        found = {
            m: in_fresh_process(["cluster_size.py", "blocks", path, str(m), str(repeats)])
            for m in POINTS
        }
    each = in_fresh_process(["cluster_size.py", "scheduled"])["cpu"]
    rows = []
    for m, kinds in found.items():
        for kind, one in kinds.items():
            flops = FLOPS[kind] * GROUP * m**2
            quality = {"answer MB": one["answer"] / 1e6, "broadcast MB": one["broadcast"] / 1e6}
            if flops and kind != "hinge":
                quality["GFLOP/s"] = flops / one["seconds"] / 1e9
            what = f"a block of {GROUP} rows, {D} columns, m = {m}"
            rows.append(Row(what, kind, one["seconds"], "s of one core", quality=quality))
    rows.append(Row("a block", "Dask, scheduler and client", 1e3 * each, "ms of CPU"))
    counts = {kind: found[min(POINTS)][kind]["count"] for kind in ("step", "hinge")}
    for n in SIZES:
        for m in POINTS[1:]:
            rows += [sized(n, m, who, kinds, found[m], each) for who, kinds in fits(counts).items()]
    return rows


def fits(counts: dict[str, int]) -> dict[str, dict[str, int]]:
    """Return the passes of fits, by their kind."""
    return {
        "GPRegressor, kernel and points of a sample": {"facts": 1, "value": 1},
        "GPRegressor, one more step of move=True": {"value": 1, "gradient": 1},
        "GPClassifier, variational": {"facts": 1, "step": counts["step"]},
        "SVC on landmarks": {"facts": 1, "hinge": counts["hinge"]},
    }


def sized(
    n: int, m: int, who: str, kinds: dict[str, int], found: dict[str, Any], each: float
) -> Row:
    """Return minutes of a fit on the cluster that is assumed, and what they are made of."""
    B, total, core, moved = n / GROUP, 0.0, 0.0, 0.0
    for kind, count in kinds.items():
        one = found[kind]
        work = B * one["seconds"] / (MACHINES * CORES)
        read = n * BYTES / (MACHINES * FILES)
        total += count * max(work, B * each, read)
        total += count * (1.0 + math.log2(MACHINES)) * one["broadcast"] / NETWORK
        total += count * B * one["answer"] / (MACHINES * NETWORK)
        core += count * B * one["seconds"]
        moved += count * (B * one["answer"] + MACHINES * one["broadcast"])
    passes = sum(kinds.values())
    flops = sum(count * FLOPS[kind] for kind, count in kinds.items()) * n * m**2
    quality = {
        "passes": passes,
        "Tflop": flops / 1e12,
        "core hours": core / 3600.0,
        "GB read": passes * n * BYTES / 1e9,
        "GB moved": moved / 1e9,
    }
    unit = f"minutes on {MACHINES} machines of {CORES} cores"
    return Row(f"n = {n:.0e}, m = {m}".replace("+0", ""), who, total / 60.0, unit, quality=quality)


if __name__ == "__main__":
    if sys.argv[1] == "blocks":
        print(json.dumps(blocks(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        print(json.dumps(scheduled()))
