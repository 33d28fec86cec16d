"""The committee column: predictions averaged over hyperparameters drawn by Hamiltonian Monte Carlo.

The energy is minus the Laplace evidence of kernel (4.22) less the log density of the lognormal
hyperprior, as in the listed figures; the sampler is mercer's own (no U-turn, steps and masses
learned), where those took 12 leapfrog steps of 0.25 with unit masses.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _thesis_data import Split
from _thesis_fit import Method, kernel, wrong

from mercer.linalg import DenseGram
from mercer.process import Prior
from mercer.search import HMC, EvidenceCriterion, Space, simple_problem

CHAINS, WARMUP, SAMPLES = 2, 40, 60
MEMBERS = 60  # as many as in the listed figures


def committee(made: Method, variant: str, seed: int, parts: Split) -> dict[str, Any]:
    """Scores of the averaged predictive probabilities, and how well the chains agree."""
    X, y, X_test, y_test = parts
    space = Space({"kernel": kernel(X.shape[1], variant), "loss": made.loss.fix()})
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), made.inference)
    search = HMC(SAMPLES, WARMUP, CHAINS, keep=MEMBERS)
    began = time.process_time()
    draws = search.run(criterion, space, np.random.default_rng(seed))
    seconds = time.process_time() - began
    chance, density = np.zeros(len(y_test)), np.zeros(len(y_test))
    variances = []
    for draw in draws:
        whole = space.parts_at(draw.u)["kernel"]
        solution = made.inference.solve(DenseGram(whole, X, keep=True), y[:, None], made.loss)
        process = Prior(whole).condition(X, solution)
        mean, var = process.mean(X_test)[:, 0], process.var(X_test)
        chance += np.exp(made.loss.log_predictive(np.ones(len(mean)), mean, var))
        density += np.exp(made.loss.log_predictive(y_test, mean, var))
        variances.append(float(whole.variance))
    report = draws[0].report
    found = report["parameters"].values()
    return {
        "err": wrong(y_test, chance / len(draws) - 0.5),
        "nlpd": round(-float(np.log(density / len(draws)).mean()), 6),
        "C": float(f"{np.median(variances):.6g}"),
        "nev": int(report["evaluations"]),
        "rhat": round(max(p["rhat"] for p in found), 3),
        "ess": round(min(p["ess_bulk"] for p in found), 1),
        "divergences": int(report["divergences"]),
        "seconds": round(seconds, 2),
    }
