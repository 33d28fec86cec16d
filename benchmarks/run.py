"""Run a benchmark suite: ``python benchmarks/run.py gpr``. README.md states the rules."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

SIZES = {
    "gpr": [2000, 4000],
    "gpc": [500, 1000],
    "svc": [5000, 10000, 20000],
    "svr": [5000, 10000],
    "lsc": [2000],
    "rvm": [200, 500, 800, 1000, 2000, 3000],
    "spline": [10_000, 100_000, 1_000_000],
    "stream": [100000],
    "tables": [2000],
    "honest": [400],
    "budget": [20_000],  # rows at most
    "few": [300],
    "hard": [2000],
    "scale": [10_000],
    "cluster": [100_000, 1_000_000],
    "serve": [30],  # seconds; 600 for the memory
    "gpu": [20_000, 40_000, 80_000],
}
PEERS = {
    "gpr": ["scikit-learn", "GPy", "GPyTorch"],
    "gpc": ["scikit-learn", "gpboost", "GPy"],
    "rvm": ["fastrvm", "sklearn-rvm"],
    "scale": ["GPyTorch"],
}
PARTS = ("evidence", "memory", "fit", "startup", "threads", "update", "accuracy", "med")
PARTS += ("bound", "product", "iterative", "landmarks", "search")  # of large tables
PARTS += ("sinc", "regression", "classification")  # of relevance vectors
PARTS += ("growth", "workers", "sizing")  # of tables in blocks
PARTS += ("quantities", "cost", "calibration")  # of streams


def arguments(given: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=list(SIZES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of rows; of serve: seconds")
    parser.add_argument(
        "--peers",
        nargs="*",
        help="libraries to compare with (gpr, gpc); tables: the file of their figures",
    )
    parser.add_argument("--fit-size", type=int, default=1000)
    parser.add_argument("--memory-size", type=int, default=60000, help="rows of svc, part memory")
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="measured runs after the warm-up")
    parser.add_argument("--tables", nargs="+", default=[], help="names, of tables and searches")
    parser.add_argument("--only", choices=["mercer", "peers"], help="of the suite tables")
    parser.add_argument("--workers", type=int, default=1, help="fits at a time, of tables")
    parser.add_argument("--json", type=Path, help="write the JSON lines to this file as well")
    options = parser.parse_args(given)
    options.stored = options.peers
    if options.peers is None:
        options.peers = PEERS.get(options.suite, ["scikit-learn"])
    return options


def gaussian_process(options: argparse.Namespace, sizes: list[int]) -> tuple[list[str], list]:
    """The parts of the suite ``gpr``; returns the peers that are installed, and the rows."""
    from gpr import evidence_rows, fit_rows, memory_rows, present
    from startup import startup_rows

    peers, rows = present(options.peers)
    names = ["mercer", *peers, "floor"]
    for n in sizes:
        if "evidence" in options.parts:
            rows += evidence_rows(n, names, options.repeats)
        if "memory" in options.parts:
            rows += memory_rows(n, names)
    if "fit" in options.parts:
        rows += fit_rows(options.fit_size, options.restarts, options.repeats)
    if "startup" in options.parts:
        rows += startup_rows(max(options.repeats, 5))
    return peers, rows


def classification(options: argparse.Namespace, sizes: list[int]) -> list:
    """The parts of the suite ``gpc``; memory where n^2 is large beside what does not grow so."""
    from gpc import fit_rows, memory_rows, missing

    rows = missing(options.peers)
    for n in sizes if "fit" in options.parts else []:
        rows += fit_rows(n, options.peers, options.repeats, small=n == min(sizes))
    for n in (max(sizes), 2 * max(sizes)) if "memory" in options.parts else ():
        rows += memory_rows(n)
    return rows


def streams(options: argparse.Namespace, n: int) -> list:
    """The parts of the suite ``stream``; the last size of each part follows the length n."""
    from calibration import calibration_rows
    from quantities import quantity_rows
    from stream import stream_rows

    sizes = {"budget": n, "single": n // 20, "accuracy": n // 10, "graph": 6 * n // 100}
    rows = stream_rows(sizes, options.parts, options.repeats)
    if "calibration" in options.parts:
        rows += calibration_rows(n / 100_000)
    return rows + quantity_rows(n // 2, options.parts, 10 * n)  # half: no table has more rows


def splines(options: argparse.Namespace, sizes: list[int]) -> list:
    """The parts of the suite ``spline``."""
    from spline import growth_row, memory_rows, spline_rows

    rows = []
    if "fit" in options.parts:
        for n in sizes:
            rows += spline_rows(n, options.repeats)
        rows += growth_row(rows)
    if "memory" in options.parts:
        rows += memory_rows(max(sizes))
    return rows


def main(given: list[str] | None = None) -> int:
    """Measure, print the table and the JSON lines; return how many bars are missed."""
    options = arguments(given)
    from measure import ONE_THREAD, Row, publish

    os.environ.update(ONE_THREAD)  # before NumPy is loaded by the suites
    from peers import version

    rows: list[Row] = []
    peers = ["scikit-learn"]
    sizes = options.sizes or SIZES[options.suite]
    if options.suite == "gpr":
        peers, rows = gaussian_process(options, sizes)
    elif options.suite == "gpc":
        from gpc import version  # its peers are not all in the table of the other suites

        peers, rows = options.peers, classification(options, sizes)
    elif options.suite == "spline":
        from spline import version  # its peers are not all in the table of the other suites

        peers, rows = ["csaps", "scipy"], splines(options, sizes)
    elif options.suite == "stream":
        for n in sizes:
            rows += streams(options, n)
    elif options.suite == "tables":
        from table_peers import PACKAGES, version  # not all are in the table of the others

        from tables import table_rows

        # a file that keeps their figures
        stored = Path(options.stored[0]) if options.stored else None
        rows = table_rows(options.tables, stored, options.only, options.workers)
        peers = list(PACKAGES)
    elif options.suite == "honest":
        from honest import arguments as defaults
        from honest import honest_rows

        for n in sizes:
            rows += honest_rows(defaults(["--rows", str(n)]))
    elif options.suite == "budget":
        from budget import budget_rows

        rows = budget_rows(max(sizes))
    elif options.suite == "few":
        from few import SEEDS, few_rows

        rows = [row for n in sizes for row in few_rows([], SEEDS, n)]
    elif options.suite == "hard":
        from hard import hard_rows

        rows = [row for n in sizes for row in hard_rows(n)]
    elif options.suite == "scale":
        from scale import scale_rows

        peers = options.peers
        given = (options.repeats, "GPyTorch" in peers, options.tables)
        rows = [row for n in sizes for row in scale_rows(options.parts, n, *given)]
    elif options.suite == "cluster":
        from cluster import cluster_rows

        rows = cluster_rows(options.parts, sizes, options.repeats)
    elif options.suite == "serve":
        from serve import serve_rows

        rows = [row for seconds in sizes for row in serve_rows(seconds)]
    elif options.suite == "gpu":
        from gpu import gpu_rows

        rows = gpu_rows(sizes, options.repeats)
    elif options.suite == "rvm":
        from rvm import version  # its peers are not in the table of the other suites

        peers = options.peers
    for n in sizes:
        if options.suite in ("svc", "svr"):
            from svm import svm_rows, thread_rows

            if "fit" in options.parts:
                rows += svm_rows(options.suite, n, options.repeats)
            if "threads" in options.parts:
                rows += thread_rows(options.suite, n, options.repeats)
        elif options.suite == "rvm":
            from rvm import SIZES as TASKS
            from rvm import rvm_rows

            for task in (t for t, ns in TASKS.items() if n in ns and t in options.parts):
                rows += rvm_rows(task, n, options.repeats, options.peers)
        elif options.suite == "lsc":
            from lsc import lsc_rows

            rows += lsc_rows(n, options.repeats)
    if options.suite == "svc" and "memory" in options.parts:
        from svm import memory_rows

        rows += memory_rows("svc", options.memory_size)
    versions = ", ".join(f"{name} {version(name)}" for name in ("mercer", *peers))
    rows.append(Row("machine", platform.machine(), note=f"{versions}; {_processor()}; one thread"))
    return publish(rows, options.json)


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


if __name__ == "__main__":
    missed = main()
    print(f"\n{missed} bar(s) missed" if missed else "\nall bars met", file=sys.stderr)
    sys.exit(1 if missed else 0)
