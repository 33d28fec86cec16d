"""Bayesian optimisation: regret and CPU seconds of mercer, BoTorch, scikit-optimize and chance.

    python benchmarks/design.py --seeds 10 --json rows.jsonl --runs runs.jsonl
    python docs/stored.py take design rows.jsonl "design.py --seeds 10"

Every library gets the same ten first rows of each seed and proposes the others one by one, with
its defaults: mercer a Matern-5/2 process fitted anew every ``REFIT`` rows and conditioned on those
in between; BoTorch the loop of its front page (``SingleTaskGP``, ``LogExpectedImprovement``);
scikit-optimize ``gp_minimize``. Each has a process of its own. ``--runs`` holds what was run before
and is continued. A peer that is not installed is skipped, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from measure import ONE_THREAD, Row, publish

FIRST, REFIT = 10, 4
EVALUATIONS = {"branin": 30, "hartmann6": 50}
LOWEST = {"branin": 0.39788735772973816, "hartmann6": -3.3223680114155147}
COLUMNS = {"branin": 2, "hartmann6": 6}


def branin(x: Any) -> float:
    """The Branin function of the unit square; three minima."""
    import numpy as np

    a, b = 15.0 * x[0] - 5.0, 15.0 * x[1]
    bend = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return float(bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0)


def hartmann6(x: Any) -> float:
    """The Hartmann function of the unit cube in six dimensions; six minima."""
    import numpy as np

    A = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
         [17, 8, 0.05, 10, 0.1, 14]]
    )  # fmt: skip
    P = 1e-4 * np.array(
        [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
         [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
    )  # fmt: skip
    heights = np.array([1.0, 1.2, 3.0, 3.2])
    return float(-heights @ np.exp(-(A * (np.asarray(x) - P) ** 2).sum(axis=1)))


FUNCTIONS: dict[str, Callable[[Any], float]] = {"branin": branin, "hartmann6": hartmann6}


def first_rows(name: str, seed: int) -> Any:
    """The rows (FIRST, d) that every library begins with."""
    import numpy as np

    return np.random.default_rng(seed).random((FIRST, COLUMNS[name]))


def by_chance(name: str, seed: int) -> list[float]:
    """Uniform rows."""
    import numpy as np

    rng = np.random.default_rng(1000 + seed)
    X = np.vstack([first_rows(name, seed), rng.random((EVALUATIONS[name] - FIRST, COLUMNS[name]))])
    return [FUNCTIONS[name](x) for x in X]


def by_mercer(name: str, seed: int, refit: int = REFIT) -> list[float]:
    """Expected improvement of a process that is fitted anew at times and conditioned in between."""
    import numpy as np

    from mercer import GPRegressor

    rng, X = np.random.default_rng(2000 + seed), first_rows(name, seed)
    y, d = np.array([FUNCTIONS[name](x) for x in X]), X.shape[1]
    model = GPRegressor("matern52").fit(X, y)
    while len(y) < EVALUATIONS[name]:
        pool = np.vstack([rng.random((1000, d)), _near(X[y.argmin()], 0.1, rng)])
        best = pool[model.propose(pool, 1, "improvement").indices[0]]
        for width in (0.1, 0.03, 0.01, 0.003):
            pool = np.vstack([best, _near(best, width, rng)])
            best = pool[model.propose(pool, 1, "improvement").indices[0]]
        X, y = np.vstack([X, best]), np.append(y, FUNCTIONS[name](best))
        if (len(y) - FIRST) % refit == 0:
            model = GPRegressor("matern52").fit(X, y)
        else:
            model = model.condition(X[-1:], y[-1:])
    return y.tolist()


def _near(x: Any, width: float, rng: Any) -> Any:
    import numpy as np

    return np.clip(x + width * rng.normal(size=(200, len(x))), 0.0, 1.0)


def by_botorch(name: str, seed: int) -> list[float]:
    """The loop of BoTorch's front page: five restarts from twenty raw samples, always refitted."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X = torch.tensor(first_rows(name, seed), dtype=torch.float64)
    y = torch.tensor([[-FUNCTIONS[name](x)] for x in X.numpy()], dtype=torch.float64)
    d = X.shape[1]
    box = torch.stack([torch.zeros(d), torch.ones(d)]).to(torch.float64)
    while len(y) < EVALUATIONS[name]:
        model = SingleTaskGP(X, y, input_transform=Normalize(d), outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        rule = LogExpectedImprovement(model, best_f=y.max())
        x, _ = optimize_acqf(rule, bounds=box, q=1, num_restarts=5, raw_samples=20)
        X = torch.cat([X, x])
        y = torch.cat([y, torch.tensor([[-FUNCTIONS[name](x[0].numpy())]], dtype=torch.float64)])
    return (-y[:, 0]).tolist()


def by_skopt(name: str, seed: int) -> list[float]:
    """``gp_minimize`` with its defaults."""
    from skopt import gp_minimize

    X = first_rows(name, seed)
    found = gp_minimize(
        FUNCTIONS[name], [(0.0, 1.0)] * X.shape[1], n_calls=EVALUATIONS[name] - FIRST,
        n_initial_points=0, x0=X.tolist(), y0=[FUNCTIONS[name](x) for x in X], random_state=seed,
    )  # fmt: skip
    return [float(value) for value in found.func_vals]


LOOPS: dict[str, Callable[[str, int], list[float]]] = {
    "mercer": by_mercer,
    "mercer, fitted for every row": partial(by_mercer, refit=1),
    "BoTorch": by_botorch,
    "scikit-optimize": by_skopt,
    "chance": by_chance,
}
MODULES = {"BoTorch": "botorch", "scikit-optimize": "skopt"}


def work(who: str, name: str, seeds: list[int]) -> None:
    """Optimise in this process, a line for each seed; a short run loads what is loaded once."""
    warnings.simplefilter("ignore")  # of the peers, about their fits and new versions
    whole = EVALUATIONS[name]
    EVALUATIONS[name] = FIRST + 1
    LOOPS[who](name, seeds[0])
    EVALUATIONS[name] = whole
    for seed in seeds:
        before = resource.getrusage(resource.RUSAGE_SELF)
        values = LOOPS[who](name, seed)
        after = resource.getrusage(resource.RUSAGE_SELF)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        run = {"who": who, "task": name, "seed": seed, "seconds": seconds, "values": values}
        print(json.dumps(run), flush=True)


def summary_rows(runs: list[dict[str, Any]]) -> list[Row]:
    """The figures of all runs: the median regret at the end, and CPU seconds as ratios."""
    from statistics import median

    rows = []
    for name, lowest in LOWEST.items():
        found = {
            who: [run for run in runs if run["who"] == who and run["task"] == name] for who in LOOPS
        }
        seconds = {who: median(r["seconds"] for r in each) for who, each in found.items() if each}
        for who, each in found.items():
            if not each:
                continue
            regrets = sorted(min(run["values"]) - lowest for run in each)
            half = sorted(min(r["values"][: EVALUATIONS[name] // 2 + 5]) - lowest for r in each)
            quality = {
                "median regret": median(regrets),
                "worst": regrets[-1],
                "best": regrets[0],
                f"median after {EVALUATIONS[name] // 2 + 5} rows": median(half),
                "seeds": len(each),
            }
            what = f"minimum of {name}, {EVALUATIONS[name]} rows"
            row = Row(what, who, seconds=seconds[who], quality=quality)
            if who not in ("mercer", "chance"):
                row.value, row.unit = seconds[who] / seconds["mercer"], "x slower than mercer"
            rows.append(row)
        regret = {
            who: median(min(run["values"]) - lowest for run in each)
            for who, each in found.items()
            if each
        }
        for who in (w for w in ("BoTorch", "scikit-optimize", "chance") if w in regret):
            ratio, bar = regret["mercer"] / regret[who], "<= 0.5" if who == "chance" else "<= 1.5"
            rows.append(
                Row(f"regret on {name}", f"mercer over {who}", ratio, "of its median regret", bar)
            )
    return rows


def main() -> int:
    """Run what is missing, print the table and the JSON lines; return how many bars are missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tasks", nargs="+", default=list(FUNCTIONS), choices=list(FUNCTIONS))
    parser.add_argument("--who", nargs="+", default=list(LOOPS), choices=list(LOOPS))
    parser.add_argument("--runs", type=Path, help="what was run already; continued")
    parser.add_argument("--json", type=Path, help="write the JSON lines to this file as well")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        who, name, *seeds = given.work
        work(who, name, [int(seed) for seed in seeds])
        return 0
    runs = []
    if given.runs and given.runs.exists():
        runs = [json.loads(line) for line in given.runs.read_text().splitlines() if line]
    for name in given.tasks:
        for who in (w for w in given.who if _present(w)):
            known = {run["seed"] for run in runs if (run["who"], run["task"]) == (who, name)}
            seeds = [str(seed) for seed in range(given.seeds) if seed not in known]
            command = [sys.executable, "-W", "ignore", __file__, "--work", who, name, *seeds]
            worker = subprocess.Popen(
                command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True
            ) if seeds else None  # fmt: skip
            for line in [] if worker is None else worker.stdout:
                runs.append(json.loads(line))
                if given.runs:
                    given.runs.write_text("".join(json.dumps(run) + "\n" for run in runs))
    rows = summary_rows(runs)
    versions = ", ".join(f"{who} {_version(who)}" for who in ("mercer", *MODULES))
    rows.append(Row("machine", platform.machine(), note=f"{versions}; one thread"))
    return publish(rows, given.json)


def _present(who: str) -> bool:
    from importlib.util import find_spec

    there = who not in MODULES or find_spec(MODULES[who]) is not None
    if not there:
        print(f"{who} is not installed: skipped", file=sys.stderr)
    return there


def _version(who: str) -> str:
    from importlib import import_module

    try:
        return str(import_module(MODULES.get(who, who)).__version__)
    except ImportError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
