"""Fits from parquet files: how time and memory grow, Dask beside this process, sizes of clusters.

Tables are written by the script, in row groups, into a temporary folder. The work is the fit of a
Gaussian process on 500 points by two passes: facts of the table, then the sums of the collapsed
bound, with kernel, noise and points given. So all time is that of passes; a search on a sample
takes the same time for any number of rows. CPU seconds are of all processes together (this one with
the scheduler, and the workers), the least of some turns; memory is the largest peak of one process.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, in_fresh_process, peak_bytes

D, M, GROUP = 8, 500, 65536
NAMES = [f"x{j}" for j in range(D)]
LARGE, SLOW = 1_000_000, 3_000_000  # rows from which bars hold, and a size is measured once
GIB = 2.0**30
WAIT = 5.0  # seconds in which a cluster has nothing to do


# ---------------------------------------------------------------------- tables
def logits(X: np.ndarray) -> np.ndarray:
    """Return log odds (n,): four of eight columns matter."""
    return 2.0 * np.sin(2.0 * X[:, 0]) + 1.5 * X[:, 1] * X[:, 2] + X[:, 3]


def drawn(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X (n, 8) in single precision, targets and labels whose log odds are known."""
    rng = np.random.default_rng([7, seed])
    X = rng.normal(size=(rows, D)).astype(np.float32)
    f = logits(X.astype(np.float64))
    y = f + 0.5 * rng.normal(size=rows)
    return X, y.astype(np.float32), (rng.random(rows) < 1.0 / (1.0 + np.exp(-f))).astype(np.int8)


def written(path: Path, n: int) -> Path:
    """Write n rows to a parquet file, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for seed, start in enumerate(range(0, n, GROUP)):
        X, y, label = drawn(min(GROUP, n - start), seed)
        held = {name: X[:, j] for j, name in enumerate(NAMES)} | {"y": y, "label": label}
        part = pa.table(held)
        writer = writer or pq.ParquetWriter(path, part.schema, compression="none")
        writer.write_table(part, row_group_size=GROUP)
    assert writer is not None
    writer.close()
    return path


# ---------------------------------------------------------------------- one fit, in its process
def machine() -> Any:
    """Return a Gaussian process of which kernel, noise and points are given."""
    from mercer import GPRegressor
    from mercer.kernels import RBF
    from mercer.linalg import Inducing
    from mercer.losses import Gaussian

    Z = np.random.default_rng(3).normal(size=(M, D))
    kernel = 4.0 * RBF(np.full(D, 2.0))
    return GPRegressor(kernel, loss=Gaussian(0.25), search=None, gram=Inducing(m=Z, move=False))


def used() -> float:
    """CPU seconds of this process so far."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def state() -> tuple[float, int]:
    """CPU seconds and peak of resident memory of this process, or of a worker."""
    return used(), peak_bytes()


def fitted(where: str, path: str, warm: str) -> dict[str, Any]:
    """Fit a small file, then the file, here or on as many workers as the name says."""
    from mercer import BlockTable

    workers = int(where[4]) if where.startswith("dask") else 0
    opened: Any = nullcontext()
    if workers:
        import dask
        from distributed import Client, LocalCluster

        # as the guide advises; "sampled" leaves it on, which is Dask's default
        dask.config.set({"distributed.worker.profile.enabled": "sampled" in where})
        given = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
        opened = LocalCluster(n_workers=workers, memory_limit=0, **given)
    with opened as cluster:
        client = Client(cluster) if workers else None
        engine = "local" if client is None else client

        def states() -> list[tuple[float, int]]:
            there = [] if client is None else list(client.run(_state_there).values())
            return [state(), *there]

        def fit(path: str) -> Any:
            return machine().fit(BlockTable(path, "y", columns=NAMES, engine=engine, workers=1))

        fit(warm)
        before, begin = states(), time.perf_counter()
        model = fit(path)
        wall, after, waits = time.perf_counter() - begin, states(), 0.0
        if client is not None:  # heartbeats and profiles go on whoever has the processor
            begin, rest = time.perf_counter(), states()
            time.sleep(WAIT)
            waits = sum(b[0] - a[0] for a, b in zip(rest, states(), strict=True))
            waits /= time.perf_counter() - begin
            client.close()
    spent = sum(b[0] - a[0] for a, b in zip(before, after, strict=True))
    bits = hashlib.sha256(model.posteriors_[0].alpha.tobytes()).hexdigest()[:12]
    peaks = [peak for _, peak in after]
    found = {"cpu": spent, "wall": wall, "waits": waits, "peaks": peaks, "bits": bits}
    return found | model.report_["blocks"]


def _state_there(here: str = str(Path(__file__).resolve().parent)) -> tuple[float, int]:
    sys.path.insert(0, here)  # a worker does not know this folder
    from cluster import state

    return state()


def once(where: str, path: Path, warm: Path) -> dict[str, Any]:
    """Do one fit in a process of its own."""
    return in_fresh_process(["cluster.py", "fit", where, str(path), str(warm)])


# ---------------------------------------------------------------------- rows of the table
def growth_rows(files: dict[int, Path], repeats: int) -> list[Row]:
    """CPU time a row and peak memory of a fit in one process."""
    warm = files[min(files)]
    found: dict[int, list[dict[str, Any]]] = {n: [] for n in files}
    for turn in range(repeats):
        for n, path in files.items():
            if turn == 0 or n < SLOW:
                found[n].append(once("local", path, warm))
    rows, each, peaks = [], {}, {}
    for n, turns in found.items():
        best = min(turn["cpu"] for turn in turns)
        each[n], peaks[n] = 1e6 * best / n, max(max(turn["peaks"]) for turn in turns)
        quality = {"blocks": turns[0]["blocks"], "wall s": min(turn["wall"] for turn in turns)}
        rows.append(Row(_what(n), "mercer", each[n], "us of CPU a row", "", best, quality))
        row = Row(_what(n), "mercer, memory", peaks[n] / GIB, "GiB, peak of the process")
        row.bar = "<= 1.5"
        rows.append(row)
    if len(files) > 1:
        what = f"parquet, n = {min(files)} to {max(files)}"
        ratio = max(each.values()) / min(each.values())
        rows.append(Row(what, "mercer, CPU time a row", ratio, "x, largest to least", "<= 1.15"))
    rows += _flat("mercer, memory", peaks)
    return rows


def worker_rows(files: dict[int, Path], repeats: int) -> list[Row]:
    """Dask with one and two worker processes beside this process; memory of the workers."""
    warm, rows, peaks = files[min(files)], [], {}
    n = max((n for n in files if n < SLOW), default=min(files))
    names = ("local", "dask1", "dask1 sampled", "dask2")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(repeats):
        for where, turns in found.items():
            turns.append(once(where, files[n], warm))
    cpu = {where: min(turn["cpu"] for turn in turns) for where, turns in found.items()}
    wall = {where: min(turn["wall"] for turn in turns) for where, turns in found.items()}
    bits = {turn["bits"] for turns in found.values() for turn in turns}
    quality = {"wall s": wall["local"], "same bits": len(bits) == 1}
    rows.append(Row(_what(n), "this process", None, "", "", cpu["local"], quality))
    more = 100.0 * (cpu["dask1"] / cpu["local"] - 1.0)
    quality = {"wall s": wall["dask1"], "% wall": 100.0 * (wall["dask1"] / wall["local"] - 1.0)}
    waits = min(turn["waits"] for turn in found["dask1"])
    quality["CPU s a second without work"] = waits
    bars = ("<= 15", ">= 1.7") if n >= LARGE else ("", "")  # a few blocks say little
    rows.append(Row(_what(n), "Dask, 1 worker", more, "% more CPU", bars[0], cpu["dask1"], quality))
    more = 100.0 * (cpu["dask1 sampled"] / cpu["local"] - 1.0)
    who, quality = "Dask, 1 worker, its profiler on", {"wall s": wall["dask1 sampled"]}
    rows.append(Row(_what(n), who, more, "% more CPU", "", cpu["dask1 sampled"], quality))
    gain = wall["dask1"] / wall["dask2"]
    quality = {"wall s": wall["dask2"], "CPU of 2 / 1": cpu["dask2"] / cpu["dask1"]}
    row = Row(_what(n), "Dask, 2 workers", gain, "x faster than 1", bars[1], cpu["dask2"], quality)
    row.note = "wall time: of a machine that does nothing else, with two cores"
    rows.append(row)
    peaks[n] = max(max(turn["peaks"]) for where in ("dask1", "dask2") for turn in found[where])
    for size in (size for size in files if size >= SLOW):
        peaks[size] = max(once("dask2", files[size], warm)["peaks"])
    rows += [
        Row(_what(size), "Dask, memory", peak / GIB, "GiB, largest peak of a process", "<= 1.5")
        for size, peak in peaks.items()
    ]
    return rows + _flat("Dask, memory", peaks)


def _flat(who: str, peaks: dict[int, int]) -> list[Row]:
    """Return how much the peak grows from a million rows to ten, where both were measured."""
    large = sorted(n for n in peaks if n >= LARGE)
    if len(large) < 2:
        return []
    ratio = peaks[large[-1]] / peaks[large[0]]
    return [Row(f"parquet, n = {large[0]} to {large[-1]}", who, ratio, "x", "<= 1.15")]


def _what(n: int) -> str:
    return f"parquet, n = {n}, m = {M}"


def cluster_rows(parts: list[str], sizes: list[int], repeats: int) -> list[Row]:
    """Return the rows of the parts that were asked for."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        files: dict[int, Path] = {}
        if {"growth", "workers"} & set(parts):
            files = {n: written(Path(folder) / f"{n}.parquet", n) for n in sorted(sizes)}
        if "growth" in parts:
            rows += growth_rows(files, repeats)
        if "workers" in parts:
            rows += worker_rows(files, repeats)
    if "accuracy" in parts:
        from cluster_peers import accuracy_rows

        rows += accuracy_rows(max((n for n in sizes if n < SLOW), default=min(sizes)))
    if "sizing" in parts:
        from cluster_size import sizing_rows

        rows += sizing_rows(repeats)
    return rows


if __name__ == "__main__":
    print(json.dumps(fitted(*sys.argv[2:])))
