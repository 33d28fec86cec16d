"""``mercer.fit`` with its defaults against boosting, forests, processes and lines on 18 tables.

    MERCER_DATA=<folder> python benchmarks/run.py tables [--only mercer] [--workers 2]
    MERCER_DATA=<folder> python benchmarks/tables.py [NAME ...] [--splits 1] [--peers FILE]

Every table has three splits of at most 2000 training and 1000 test rows. The figure is the log loss
(classes) or the negative log predictive density (a quantity), in nats per test row; differences to
the best peer are paired over the test rows, those of a row in several splits averaged first. The
bars: best, or within one standard error of the best, on eleven of twelve tables; a mean rank below
2; at most 60 CPU seconds each; 90 % intervals that cover 87 to 93 % of all test rows; an expected
calibration error of at most .03 over all rows with classes.

The log densities of the peers are kept in a file (``--peers``; default: peers.npz beside this
script, with their versions), and fitted only for tables and splits that are not in it; with
``--only mercer`` not even then, with ``--only peers`` they alone are. A quantity that is written
down in steps of h has densities of at most 1/h, mercer's and the peers' alike: the probability of
a step is at most one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from measure import ONE_THREAD, Row, publish
from table_data import SPLITS, TABLES, task_of

STORE = Path(__file__).with_name("peers.npz")
MINUTE, SHARE, RANK, ERROR = 60.0, 11 / 12, 2.0, 0.03
BINS = 10  # of the probabilities of predicted classes, of equal width


# ---------------------------------------------------------------------- one split
def ours(name: str, split: int) -> dict[str, Any]:
    """Fit with the defaults; what the test rows say, CPU seconds, and what was chosen."""
    import mercer

    task = task_of(name, split)
    kind = "classification" if task.classes else "regression"
    began, cpu = time.perf_counter(), time.process_time()
    given = task.columns(task.train) | {"target": task.y[task.train]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches cut short: the test rows judge
        model = mercer.fit(given, "target", kind=kind)
    found = {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    test, y = task.columns(task.test), task.y[task.test]
    found["chosen"] = model.chosen_.name
    found["left out"] = -float(model.left_out_.score)
    found["ranking"] = {r.name: None if r.score is None else -r.score for r in model.ranking_}
    X = model.encode(test)
    if task.classes:
        p, classes = np.asarray(model.machine_.predict_proba(X)), np.asarray(model.classes_)
        own = p[np.arange(len(y)), np.searchsorted(classes, y)]
        found["density"] = np.log(np.maximum(own, np.finfo(float).tiny))
        found["sure"], found["right"] = p.max(axis=1), classes[p.argmax(axis=1)] == y
    else:
        found["density"] = np.asarray(model.machine_.predictive_log_density(X, y))
        low, high = model.predict_interval(test, coverage=0.9)
        found["covered"] = (low <= y) & (y <= high)
    return found


def theirs(name: str, split: int) -> dict[str, tuple[np.ndarray, float]]:
    """The log densities of the test rows by each peer, and its CPU seconds."""
    from table_peers import densities

    return densities(task_of(name, split))


def shared_out(work: Any, jobs: list[tuple[str, int]], workers: int) -> Any:
    """Yield (job, result) of ``work(*job)``, in ``workers`` processes."""
    os.environ.update(ONE_THREAD)
    if workers == 1:
        for job in jobs:
            yield job, work(*job)
        return
    import multiprocessing

    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=fresh) as pool:
        running = {pool.submit(work, *job): job for job in jobs}
        for done in as_completed(running):
            yield running[done], done.result()


# ---------------------------------------------------------------------- the peers' figures
class Store:
    """The peers' log densities of test rows, by table, split and peer, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, np.ndarray] = dict(np.load(path)) if path.exists() else {}
        about = self.kept.pop("about", None)
        self.about: dict[str, Any] = {} if about is None else json.loads(str(about))

    def of(self, name: str, split: int) -> dict[str, np.ndarray]:
        """Return the log densities of one split by each peer; none if they are not known."""
        start = f"{name}|{split}|"
        return {key[len(start) :]: v for key, v in self.kept.items() if key.startswith(start)}

    def add(self, name: str, split: int, found: dict[str, tuple[np.ndarray, float]]) -> None:
        """Keep what the peers say, to a thousandth of a nat."""
        from table_peers import versions

        for peer, (density, seconds) in found.items():
            self.kept[f"{name}|{split}|{peer}"] = np.round(density, 3).astype(np.float32)
            self.about.setdefault("seconds", {})[f"{name}|{split}|{peer}"] = round(seconds, 1)
        self.about["versions"] = versions()
        np.savez_compressed(self.path, about=np.array(json.dumps(self.about)), **self.kept)


def fit_peers(names: list[str], store: Store, splits: int, workers: int) -> None:
    """Fit the peers where their figures are not known."""
    jobs = [(name, split) for name in names for split in range(splits)]
    jobs = [job for job in jobs if not store.of(*job)]
    for job, found in shared_out(theirs, jobs, workers):
        store.add(*job, found)
        said = ", ".join(f"{who} {-np.mean(d):.4f} ({s:.0f} s)" for who, (d, s) in found.items())
        print(*job, said, file=sys.stderr, flush=True)


# ---------------------------------------------------------------------- verdicts
def cut(density: np.ndarray, y: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Log densities of a quantity, none above what its steps allow; of classes as they are."""
    from mercer.plots.rows import recorded

    return density if y.dtype.kind == "U" else recorded(density, y, every)


def by_row(rows: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    """The mean of the values of each row, over the splits in which it is a test row."""
    every, where = np.unique(np.concatenate(rows), return_inverse=True)
    sums = np.bincount(where, np.concatenate(values), len(every))
    return np.asarray(sums / np.bincount(where, minlength=len(every)))


def compared(
    name: str, mine: list[np.ndarray], peers: list[dict[str, np.ndarray]]
) -> dict[str, Any]:
    """The losses of all on a table, mercer's rank, how far it is behind the best, and how sure."""
    tasks = [task_of(name, split) for split in range(len(mine))]

    def prepared(values: list[np.ndarray]) -> list[np.ndarray]:
        return [cut(v, t.y[t.test], t.y) for v, t in zip(values, tasks, strict=True)]

    mine = prepared(mine)
    each = {who: prepared([p[who] for p in peers]) for who in peers[0]}
    losses = {who: -float(np.mean([d.mean() for d in v])) for who, v in each.items()}
    own = -float(np.mean([d.mean() for d in mine]))
    best = min(losses, key=losses.__getitem__)
    apart = by_row([t.test for t in tasks], [a - b for a, b in zip(each[best], mine, strict=True)])
    behind, error = own - losses[best], float(apart.std(ddof=1) / np.sqrt(len(apart)))
    rank = 1 + sum(loss < own for loss in losses.values())
    return {"loss": own, "best": best, "behind": behind, "se": error, "rank": rank, "peers": losses}


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """How far predicted classes are right more or less often than stated, by bins, on average.

    Guo et al. 2017, On calibration of modern neural networks, equation (3).
    """
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, right, BINS) - np.bincount(place, sure, BINS)
    return float(np.abs(gaps).sum() / len(sure))


def table_rows(
    names: list[str] | None = None,
    stored: Path | None = None,
    only: str | None = None,
    workers: int = 1,
    splits: int = SPLITS,
) -> list[Row]:
    """Measure the named tables (all by default) and count the bars met."""
    store, chosen = Store(stored or STORE), names or list(TABLES)
    if only != "mercer":
        fit_peers(chosen, store, splits, workers)
    if only == "peers":
        return []
    jobs = [(name, split) for name in chosen for split in range(splits)]
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for job, result in shared_out(ours, jobs, workers):
        found[job] = result
        loss = -float(np.mean(result["density"]))
        ranking = {k: None if v is None else round(v, 4) for k, v in result["ranking"].items()}
        print(*job, f"{loss:.4f}", f"left out {result['left out']:.4f}", result["chosen"],
              f"{result['cpu']:.0f} s CPU", ranking, file=sys.stderr, flush=True)  # fmt: skip
    rows, verdicts = [], []
    for name in chosen:
        mine = [found[name, split] for split in range(splits)]
        peers = [store.of(name, split) for split in range(splits)]
        if not all(peers):
            sys.exit(f"the figures of the peers on {name} are not in {store.path}: fit them first")
        row, verdict = row_of(name, mine, compared(name, [m["density"] for m in mine], peers))
        rows.append(row)
        verdicts.append(verdict)
    pooled = [found[job] for job in jobs]
    return rows + summary(verdicts, pooled, complete=len(chosen) == len(TABLES))


def row_of(
    name: str, mine: list[dict[str, Any]], against: dict[str, Any]
) -> tuple[Row, dict[str, Any]]:
    """The row of a table, and what the summary needs of it."""
    cpu = [m["cpu"] for m in mine]
    task = task_of(name, 0)
    what = f"{name}: {'log loss' if task.classes else 'NLPD'}, n = {len(task.train)}"
    quality = {"loss": against["loss"], "standard error": against["se"], "rank": against["rank"],
               "left out": float(np.mean([m["left out"] for m in mine]))}  # fmt: skip
    if task.classes:
        sure, right = (np.concatenate([m[key] for m in mine]) for key in ("sure", "right"))
        quality["calibration error"] = calibration_error(sure, right)
    else:
        quality["covered by 90 %"] = float(np.mean(np.concatenate([m["covered"] for m in mine])))
    quality |= against["peers"]
    chosen = ", ".join(dict.fromkeys(m["chosen"] for m in mine))
    note = f"{chosen}; best peer {against['best']}; most CPU {max(cpu):.0f} s"
    row = Row(what, "mercer.fit", against["behind"], "nats behind", f"<= {against['se']:.3g}",
              seconds=float(np.mean(cpu)), quality=quality, note=note)  # fmt: skip
    return row, against | {"cpu": max(cpu)}


def summary(
    verdicts: list[dict[str, Any]], pooled: list[dict[str, Any]], complete: bool
) -> list[Row]:
    """The figures over all tables; the bars are those of the whole suite."""

    def row(what: str, value: float, unit: str, bar: str) -> Row:
        return Row(what, "mercer.fit", value, unit, bar if complete else "")

    close = sum(v["behind"] <= v["se"] for v in verdicts)
    needed = int(np.ceil(SHARE * len(verdicts) - 1e-9))
    rows = [
        row("best, or within a standard error of it", float(close), f"of {len(verdicts)} tables",
            f">= {needed}"),
        row("mean rank", float(np.mean([v["rank"] for v in verdicts])), "", f"<= {RANK:g}"),
        row("most CPU seconds of a fit", max(v["cpu"] for v in verdicts), "s", f"<= {MINUTE:g}"),
    ]  # fmt: skip
    covered = [m["covered"] for m in pooled if "covered" in m]
    if covered:
        share = 100.0 * float(np.mean(np.concatenate(covered)))
        rows.append(row("covered by 90 % intervals, pooled", share, "%", ">= 87"))
        rows.append(row("covered by 90 % intervals, pooled", share, "%", "<= 93"))
    sure = [m["sure"] for m in pooled if "sure" in m]
    if sure:
        right = np.concatenate([m["right"] for m in pooled if "right" in m])
        error = calibration_error(np.concatenate(sure), right)
        rows.append(row("expected calibration error, pooled", error, "", f"<= {ERROR:g}"))
    return rows


def main() -> int:
    """Print the table and the JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TABLES], help="tables; default: all")
    parser.add_argument("--only", choices=["mercer", "peers"])
    parser.add_argument("--workers", type=int, default=1, help="fits at a time, each a process")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", type=Path)
    given = parser.parse_args()
    rows = table_rows(given.names, given.peers, given.only, given.workers, given.splits)
    publish(rows, given.json)
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
