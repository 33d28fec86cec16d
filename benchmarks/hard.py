"""Support vector problems that solvers never finish: does the fit end, and what does it say?"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row

# CPU seconds: what a fit may take, and when a process is stopped: the peer at the bar, so that the
# whole ends in less than 20 minutes however many of its fits do not.
BAR, STOPPED = "<= 20", {"mercer": 40, "scikit-learn": 20}
Case = tuple[str, dict[str, Any], np.ndarray, np.ndarray]


def table(n: int, seed: int = 0, d: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (n, d), labels with 10 % flipped, and targets with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] - 0.5 * X[:, 1] + 0.3 * X[:, 2] * X[:, 3]
    labels = np.where(f + 0.2 * rng.normal(size=n) > 0, 1, -1)
    labels[rng.uniform(size=n) < 0.1] *= -1
    return X, labels, f + 0.1 * rng.normal(size=n)


def named(n: int) -> dict[str, Case]:
    """The fourteen: an estimator, its parameters, inputs and targets."""
    X, y, t = table(n)
    scaled = X * np.where(np.arange(X.shape[1]) == 3, 1000.0, 1.0)
    twice, against = np.r_[X[: n // 2], X[: n // 2]], np.r_[y[: n // 2], -y[: n // 2]]
    sentinel = X.copy()
    sentinel[0, 0] = 1e9
    linear: dict[str, Any] = {"kernel": "linear"}
    return {
        "SVC linear, a column times 1000": ("SVC", linear | {"C": 1.0}, scaled[:500], y[:500]),
        "SVC linear, C 1e6": ("SVC", linear | {"C": 1e6}, X, y),
        "SVR linear, C 1e5": ("SVR", linear | {"C": 1e5}, X, t),
        "NuSVC linear, a column times 1000": ("NuSVC", linear | {"nu": 0.3}, scaled, y),
        "SVC, contradicting duplicates, C 1e8": ("SVC", {"C": 1e8}, twice, against),
        "SVR, C 1e10, epsilon 0": ("SVR", {"C": 1e10, "epsilon": 0.0}, X, t),
        "NuSVR, nu 1": ("NuSVR", {"nu": 1.0, "C": 1e4}, X, t),
        "SVC, tol 1e-15": ("SVC", {"tol": 1e-15}, X, y),
        "SVC, C 1e10": ("SVC", {"C": 1e10}, X, y),
        "SVC, C 1e-10": ("SVC", {"C": 1e-10}, X, y),
        "SVC, gamma 1e-8, C 1e8": ("SVC", {"gamma": 1e-8, "C": 1e8}, X, y),
        "SVC, gamma 1e8": ("SVC", {"gamma": 1e8}, X, y),
        "SVC, all rows the same": ("SVC", {}, np.ones_like(X), y),
        "SVR, one sentinel 1e9": ("SVR", {}, sentinel, t),
    }


def generated(n: int) -> dict[str, Case]:
    """C in 1e-3 .. 1e10, columns times 1e-6 .. 1e6, repeated rows, tol down to 1e-12."""
    cases: dict[str, Case] = {}
    rng = np.random.default_rng(1)
    for k in range(24):
        X, y, t = table(n, seed=k, d=int(rng.integers(4, 20)))
        C, tol = 10.0 ** rng.uniform(-3, 10), 10.0 ** rng.uniform(-12, -3)
        X = X * 10.0 ** (rng.uniform(-6, 6, X.shape[1]) * (rng.uniform(size=X.shape[1]) < 0.3))
        if rng.uniform() < 0.3:
            X = X[rng.integers(0, n // 3, n)]
        kernel, machine = ("linear", "rbf")[k % 2], ("SVC", "SVR", "NuSVC")[k % 3]
        own = {"nu": 0.2} if machine == "NuSVC" else {"C": C}
        what = f"{machine} {kernel}, {', '.join(f'{k} {v:.1e}' for k, v in own.items())}"
        params = {"kernel": kernel, "tol": tol} | own
        cases[f"{k}: {what}, tol {tol:.0e}"] = (machine, params, X, t if machine == "SVR" else y)
    return cases


def work(who: str, name: str, n: int) -> None:
    """Fit one case in this process and print what came of it."""
    machine, params, X, y = (named(n) | generated(n))[name]
    if who == "mercer":
        import mercer as library
    else:
        import sklearn.svm as library  # type: ignore[no-redef]  # one of the two has the machine
    model = getattr(library, machine)(**params)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        begun = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - begun
    solver = model.report_["inference"] if who == "mercer" else {}
    found = {
        "seconds": seconds,
        "warned": sorted({type(w.message).__name__ for w in said}),
        "converged": solver.get("converged"),
        "violation": solver.get("violation"),
        "gap": solver.get("gap"),
        "method": solver.get("method"),
    }
    print(json.dumps(found))


def outcome(who: str, name: str, n: int) -> dict[str, Any]:
    """What a process of its own says, or that it was stopped."""
    limit = (STOPPED[who], STOPPED[who])
    done = subprocess.run(
        [sys.executable, Path(__file__).name, who, name, str(n)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
    )
    if done.returncode < 0:
        return {"stopped": True}
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"error": done.stderr.splitlines()[-1]}


def hard_rows(n: int) -> Iterator[Row]:
    """Every case by mercer and by scikit-learn."""
    for name in named(n) | generated(n):
        for who in ("mercer", "scikit-learn"):
            found = outcome(who, name, n)
            bar = BAR if who == "mercer" else ""
            if "error" in found:  # a refusal ends, too
                yield Row(name, who, note=found["error"])
                continue
            if "stopped" in found:
                limit = STOPPED[who]
                yield Row(name, who, float(limit), "s", bar, note=f"> {limit} s: stopped")
                continue
            if who == "mercer" and not found["converged"] and not found["warned"]:
                note = "neither converged nor a warning"
                yield Row(name, who, np.inf, "s", bar, found["seconds"], note=note)
                continue
            quality = {k: found[k] for k in ("violation", "gap") if found[k] is not None}
            note = ", ".join([*found["warned"], *([found["method"]] if found["method"] else [])])
            yield Row(name, who, found["seconds"], "s", bar, found["seconds"], quality, note)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
