"""Run a benchmark suite: ``python benchmarks/run.py gpr``. README.md states the rules."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

PARTS = ("evidence", "memory", "fit", "startup")


def arguments(given: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=["gpr"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[2000, 4000])
    parser.add_argument("--peers", nargs="*", default=["scikit-learn", "GPy", "GPyTorch"])
    parser.add_argument("--fit-size", type=int, default=1000)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3, help="measured runs after the warm-up")
    parser.add_argument("--json", type=Path, help="write the JSON lines to this file as well")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Measure, print the table and the JSON lines; return how many bars are missed."""
    options = arguments(given)
    from measure import ONE_THREAD, Row, json_lines, table

    os.environ.update(ONE_THREAD)  # before NumPy is loaded by the suites
    from gpr import evidence_rows, fit_rows, memory_rows, present
    from peers import version
    from startup import startup_rows

    peers, rows = present(options.peers)
    names = ["mercer", *peers, "floor"]
    for n in options.sizes:
        if "evidence" in options.parts:
            rows += evidence_rows(n, names, options.repeats)
        if "memory" in options.parts:
            rows += memory_rows(n, names)
    if "fit" in options.parts:
        rows += fit_rows(options.fit_size, options.restarts, options.repeats)
    if "startup" in options.parts:
        rows += startup_rows(max(options.repeats, 5))
    versions = ", ".join(f"{name} {version(name)}" for name in ("mercer", *peers))
    rows.append(Row("machine", platform.machine(), note=f"{versions}; {_processor()}; one thread"))
    print(table(rows))
    print()
    print(json_lines(rows))
    if options.json:
        options.json.write_text(json_lines(rows) + "\n")
    return sum(row.verdict == "FAIL" for row in rows)


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
