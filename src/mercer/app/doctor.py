"""``mercer doctor``: whether the installation is in order."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  # loads its BLAS, so that it can be listed
from threadpoolctl import threadpool_info

import mercer
from mercer.app import terminal as console
from mercer.app.terminal import EXTRAS, AppError, require
from mercer.kernels import RBF
from mercer.losses import Gaussian

CORE = ("mercer", "numpy", "scipy", "scikit-learn", "safetensors")


def run(*, as_json: bool) -> None:
    """Do the command; fail if the compiled core or the known result is wrong."""
    require("rich", "printing")
    sections = {
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in CORE}},
        "extras": {
            package: f"{_version(package)} (mercer[{extra}])" for package, extra in EXTRAS.items()
        },
        "linear algebra": _libraries(),
        "checks": {"compiled core": _core(), "known result": _known_result()},
    }
    if as_json:
        console.print_json(sections)
    else:
        for title, rows in sections.items():
            console.print_pairs(title, list(rows.items()))
    broken = [name for name, found in sections["checks"].items() if not found.startswith("fine")]
    if broken:
        raise AppError(f"not in order: {', '.join(broken)}; install mercer again")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _libraries() -> dict[str, str]:
    """Describe the threaded libraries that NumPy and SciPy brought, and the cores there are."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {"cores": str(usable)}
    for i, entry in enumerate(threadpool_info(), start=1):
        words = [entry.get("internal_api"), entry.get("version"), entry.get("architecture")]
        name = " ".join(str(word) for word in words if word)
        found[f"library {i}"] = f"{name}, {entry['num_threads']} threads"
    return found


def _core() -> str:
    try:
        from mercer._native import core
    except ImportError as error:
        return f"not there: {error}"
    A: Any = np.array([[1.0, 2.0], [0.0, 3.0]])
    core.mirror_upper(A)
    return "fine" if A[1, 0] == 2.0 else "gives a wrong result"


def _known_result() -> str:
    """Compare a small Gaussian process with its textbook formula, k (K + s I)^-1 y."""
    X = np.linspace(-1.0, 1.0, 7)[:, None]
    y, new = np.sin(3 * X[:, 0]), np.array([[0.3], [2.0]])
    model = mercer.GPRegressor(RBF(0.5), loss=Gaussian(noise=0.01), search=None).fit(X, y)
    K = np.exp(-0.5 * ((X - X.T) / 0.5) ** 2) + 0.01 * np.eye(7)
    k = np.exp(-0.5 * ((new - X.T) / 0.5) ** 2)
    mean = k @ np.linalg.solve(K, y)
    std = np.sqrt(1.01 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T)))
    found = model.predict(new, return_std=True)
    error = max(float(np.abs(found[0] - mean).max()), float(np.abs(found[1] - std).max()))
    return f"fine (off by {error:.1e})" if error < 1e-9 else f"off by {error:.1e}"
