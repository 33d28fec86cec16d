"""Bounds and evidences along a search: Seeger's thesis, figures 4.2 and 4.3.

The hyperparameters follow a search by the variational bound, as in the thesis. Where each of its
line searches begins, minus the log evidence is had in several ways: the free energy F of the best
Gaussian, F at the Gaussian of the Laplace approximation (figure 4.2), the Laplace approximation
itself (figure 4.3) and EP. The thesis could not tell which was nearer to the truth; draws can, by a
bridge to a Gaussian, with their error. The value at the mode is below all.

    MERCER_DATA=<folder> python papers/thesis_evidence.py [--out PNG] [--json FILE] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import _store
import numpy as np
from _thesis_data import SETS, split
from _thesis_fit import kernel
from scipy.optimize import Bounds, minimize

from mercer.inference import EP, MCMC, Inference, Laplace, Variational
from mercer.inference.base import Task
from mercer.kernels import Kernel
from mercer.linalg import DenseGram
from mercer.losses import Logistic
from mercer.referee.evidence import upper_bound
from mercer.referee.gaussian import Whitened, bound
from mercer.search import EvidenceCriterion, Space, simple_problem

NAMES = ("crabs", "pima", "twonorm", "ringnorm")
STEPS, MOST = 12, 8  # steps of the search, and points of it that are kept
METHOD = MCMC(samples=150, warmup=80, chains=2)
LOSS = Logistic()
PAGE = """\
# Evidence along a search

Figures 4.2 and 4.3 of the thesis: minus the log evidence along a search by the variational bound,
with logistic noise, one weight for all columns and the training set of the first split. The
Gaussian of the Laplace approximation as a variational density (F at it) is never better than the
best Gaussian. Whether Laplace's own evidence or the bound is nearer to the truth, which the thesis
had to leave open, draws of the latent values tell.

    MERCER_DATA=<folder> python papers/thesis_evidence.py --json papers/thesis_evidence.json \\
        --out docs/papers/thesis_evidence.png --page <this page>

![minus log evidence along the search](thesis_evidence.png)

Where the search ends, minus the log evidence:

| data | rows | truth | Laplace | EP | best Gaussian (F) | Laplace's Gaussian (F) | mode |
|---|---|---|---|---|---|---|---|
{rows}

Largest distances from the truth along the search, in nats:

| data | Laplace | EP | best Gaussian (F) | Laplace's Gaussian (F) |
|---|---|---|---|---|
{far}

The thesis finds Laplace's Gaussian poor on twonorm and ringnorm, and as good as the global fit on
crabs and pima. {remark}
"""


def trajectory(X: np.ndarray, y: np.ndarray) -> list[Kernel]:
    """Kernels where the line searches of a search by the variational bound begin."""
    space = Space({"kernel": kernel(X.shape[1], "iso"), "loss": LOSS.fix()})
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Variational(tol=1e-6))
    seen = [space.start]
    minimize(
        lambda u: tuple(-part for part in criterion(u)),
        space.start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(space.bounds[:, 0], space.bounds[:, 1]),
        callback=lambda u: seen.append(u.copy()),
        options={"maxiter": STEPS},
    )
    chosen = np.unique(np.linspace(0, len(seen) - 1, MOST).round().astype(int))
    return [space.parts_at(seen[i])["kernel"].__sklearn_clone__() for i in chosen]


def energies(whole: Kernel, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Minus the log evidence at a kernel, by all ways, and the error of the truth."""
    gram = DenseGram(whole, X, keep=True)
    task = Task(gram, y, LOSS, np.ones(len(y)), np.zeros(len(y)))
    draws = METHOD.draw(task)
    value, error = draws.bridged(np.random.default_rng(0))
    found = {"truth": -value, "error": error, "rhat": draws.report["rhat"]}
    methods: dict[str, Inference] = {"laplace": Laplace(), "ep": EP(), "best": Variational()}
    for name, inference in methods.items():
        solution = inference.solve(gram, y[:, None], LOSS)
        found[name] = -inference.evidence(gram, y[:, None], LOSS, solution).value
        if name == "laplace":
            own = Whitened.of(draws.latents, solution.alpha, solution.factor.operator())
            found["at laplace"] = -bound(draws.latents, own)[0]
    highest = upper_bound(task)
    assert highest is not None
    return found | {"mode": -highest}


def figures(names: tuple[str, ...] = NAMES) -> dict[str, list[dict[str, float]]]:
    """Everything along the search of each set."""
    found = {}
    for name in names:
        X, y, *_ = split(name, 0)
        found[name] = [energies(one, X, y) for one in trajectory(X, y)]
        last = ", ".join(f"{k} {v:.2f}" for k, v in found[name][-1].items())
        print(f"{name}: {last}", flush=True)
    return found


def page(found: dict[str, list[dict[str, float]]]) -> str:
    """The figures as a page of the documentation."""
    rows, far, worse = [], [], {}
    for name, points in found.items():
        end = points[-1]
        cells = [f"{end['truth']:.2f} +- {end['error']:.2f}"]
        cells += [f"{end[k]:.2f}" for k in ("laplace", "ep", "best", "at laplace", "mode")]
        rows.append(f"| {name} | {SETS[name].train} | {' | '.join(cells)} |")
        ways = ("laplace", "ep", "best", "at laplace")
        most = {k: max(abs(one[k] - one["truth"]) for one in points) for k in ways}
        far.append(f"| {name} | {' | '.join(f'{most[k]:.2f}' for k in ways)} |")
        worse[name] = most["at laplace"] - most["best"]
    said = ", ".join(f"{gap:.1f} on {name}" for name, gap in worse.items())
    remark = f"Here F at it is worse than the best by at most {said}."
    return PAGE.format(rows="\n".join(rows), far="\n".join(far), remark=remark)


def draw(found: dict[str, list[dict[str, float]]], path: str) -> None:
    """Save the picture: one panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    styles = {
        "at laplace": ("C3", "--", "F at Laplace's Gaussian"),
        "best": ("C0", "-", "F of the best Gaussian"),
        "laplace": ("C1", "-.", "Laplace"),
        "ep": ("C2", ":", "EP"),
    }
    for ax, (name, points) in zip(axes.flat, found.items(), strict=False):
        steps = np.arange(len(points))
        for key, (colour, line, label) in styles.items():
            ax.plot(steps, [one[key] for one in points], color=colour, ls=line, label=label)
        truth = [one["truth"] for one in points]
        ax.errorbar(
            steps, truth, [2 * one["error"] for one in points], fmt="ko", ms=3, label="draws"
        )
        ax.set(title=name, xlabel="point of the search", ylabel="-log evidence")
    axes.flat[0].legend(frameon=False, fontsize=8)
    fig.savefig(path, dpi=75)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures, store them, and make picture and page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--from-json", help="figures of an earlier run, not computed again")
    parser.add_argument("--json", help="where to store the figures")
    parser.add_argument("--out", help="where to save the picture")
    parser.add_argument("--page", help="write the page of the documentation")
    given = parser.parse_args(arguments)
    found: Any = None
    if given.from_json:
        found = json.loads(Path(given.from_json).read_text(encoding="utf-8"))
    else:
        found = figures(tuple(given.data))
    if given.json:
        _store.write(given.json, found)
    if given.page:
        Path(given.page).write_text(page(found), encoding="utf-8")
    if given.out:
        draw(found, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
