"""GPy's side of ``uci_regression.py``: exact regression with an RBF-ARD kernel, several starts.

The model is N(0, s2 k + noise I) on columns and targets standardised by the training part. The
values are written to ``tests/data/uci_regression_gpy.json``, so that neither the script nor the
tests need GPy.
"""

from __future__ import annotations

import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

CACHE = Path(__file__).resolve().parents[1] / "tests" / "data" / "uci_regression_gpy.json"
COLLAPSED = 1e-6  # noise variance below this, in units of the target's variance: a spike, no fit


def load() -> dict[str, Any]:
    """Return the stored values, or an empty frame if there are none yet."""
    return json.loads(CACHE.read_text()) if CACHE.exists() else {"data": {}}


def store(values: dict[str, Any]) -> None:
    """Write the values, whole or not at all."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    part = CACHE.with_suffix(".part")
    part.write_text(json.dumps(values, indent=1) + "\n")
    part.replace(CACHE)


def versions() -> dict[str, str]:
    """Return the versions of everything that the reference values rest on."""
    import GPy
    import scipy

    return {
        "GPy": GPy.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def fit(
    X: np.ndarray, y: np.ndarray, starts: int, seed: int, first: dict[str, Any] | None = None
) -> tuple[Any, list[tuple[float, float]]]:
    """Return GPy's best model for standardised X (n, d), y (n,), and (evidence, noise) per start.

    The first start is the given one, or length scales sqrt(d) and noise 0.1; the others are drawn
    as GPy's ``randomize`` draws them: standard normal in its unconstrained coordinates. A start
    whose noise falls below ``COLLAPSED`` is not chosen unless all of them did.
    """
    import GPy

    d = X.shape[1]
    rng = np.random.default_rng(seed)
    at = first or {"variance": 1.0, "length_scale": np.full(d, np.sqrt(d)), "noise": 0.1}
    kernel = GPy.kern.RBF(d, at["variance"], np.asarray(at["length_scale"]), ARD=True)
    model = GPy.models.GPRegression(X, y[:, None], kernel, noise_var=at["noise"])
    best, reached = None, []
    rank = (False, -np.inf)
    for start in range(starts):
        if start:
            model.optimizer_array = rng.normal(size=model.optimizer_array.size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow in steps that L-BFGS then takes back
            model.optimize("lbfgsb", max_iters=1000)
        evidence, noise = float(model.log_likelihood()), float(model.likelihood.variance[0])
        reached.append((evidence, noise))
        if (noise > COLLAPSED, evidence) >= rank:
            rank, best = (noise > COLLAPSED, evidence), model.optimizer_array.copy()
    model.optimizer_array = best
    return model, reached


def table(X: np.ndarray, y: np.ndarray, starts: int) -> dict[str, Any]:
    """Evidence that GPy reaches on a whole standardised table, with its hyperparameters."""
    began = time.process_time()
    model, reached = fit(X, y, starts, seed=0)
    return {
        "n": len(X),
        "d": X.shape[1],
        "log_evidence": float(model.log_likelihood()),
        "starts": [{"log_evidence": evidence, "noise": noise} for evidence, noise in reached],
        "variance": float(model.rbf.variance[0]),
        "length_scale": [float(v) for v in model.rbf.lengthscale],
        "noise": float(model.likelihood.variance[0]),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def split(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    starts: int,
    seed: int,
    first: dict[str, Any] | None,
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return mean and variance of new observations at X_test, and evidence and time of the fit."""
    began = time.process_time()
    model, reached = fit(X, y, starts, seed, first)
    mean, var = model.predict(X_test)
    facts = {
        "log_evidence": float(model.log_likelihood()),
        "noise": float(model.likelihood.variance[0]),
        "collapsed_starts": sum(noise <= COLLAPSED for _, noise in reached),
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    return mean[:, 0], var[:, 0], facts
