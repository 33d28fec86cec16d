"""Two checkouts side by side: ``python benchmarks/against.py ../before svc gpr -- --sizes 5000``.

Each checkout has its own environment (``.venv``) and its own benchmark scripts. They take turns, in
the opposite order in every other round, and each figure is the smallest over the rounds. Rows of a
peer are the control: how far their ratio is from 1 is the noise of the machine. The exit status
is 1 if a figure of mercer's is more than 3 % worse.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PEERS = (
    "scikit-learn",
    "scipy",
    "csaps",
    "GPy",
    "GPyTorch",
    "gpboost",
    "river",
    "SGD",
    "floor",
    "solve",
)
MOST = 1.03


def measured(checkout: Path, suite: str, extra: list[str]) -> dict[tuple[str, str], float]:
    """CPU seconds of every row of the suite, by task and who did it."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        python = checkout / ".venv" / "bin" / "python"
        command = [python, checkout / "benchmarks" / "run.py", suite, "--json", rows, *extra]
        # The status says which bars were missed; what failed has written no rows.
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
        if not rows.exists():
            sys.exit(f"{checkout.name}: {suite} did not run:\n{done.stderr[-2000:]}")
        lines = [json.loads(line) for line in rows.read_text().splitlines()]
    found = {(row["what"], row["who"]): row["seconds"] for row in lines if row["seconds"]}
    costs = {(row["what"], row["who"]): row["value"] for row in lines if row["unit"] == "us"}
    return found | costs


def main() -> int:
    """Measure, print the table, return how many figures of mercer's are worse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="a checkout with an environment in .venv")
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    given = sys.argv[1:]
    extra = given[given.index("--") + 1 :] if "--" in given else []
    options = parser.parse_args(given[: given.index("--")] if "--" in given else given)
    worse = 0
    print(f"{'task':<60} {'who':<24} {'before':>10} {'now':>10} {'ratio':>6}")
    for suite in options.suites:
        best: dict[Path, dict[tuple[str, str], float]] = {options.before.resolve(): {}, HERE: {}}
        for turn in range(options.rounds):
            for checkout in list(best)[:: 1 if turn % 2 == 0 else -1]:
                for key, value in measured(checkout, suite, extra).items():
                    best[checkout][key] = min(value, best[checkout].get(key, value))
        old, new = best.values()
        for what, who in [key for key in old if key in new]:
            ratio = new[what, who] / old[what, who]
            mine = not any(peer in who for peer in PEERS)
            mark = "  WORSE" if mine and ratio > MOST else "" if mine else "  (control)"
            worse += bool(mine and ratio > MOST)
            figures = f"{old[what, who]:10.4g} {new[what, who]:10.4g} {ratio:6.3f}"
            print(f"{what:<60} {who:<24} {figures}{mark}", flush=True)
    return worse


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
