"""The peers of ``mercer.fit`` on tables, with their defaults, on standardised columns.

Boosted trees and forests predict a quantity by a number: its density is a Gaussian with the
standard deviation of their residuals in five folds of the training rows. The others state one.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from table_data import Task

PACKAGES = ("lightgbm", "catboost", "ngboost", "scikit-learn")
SEPARATE = 1000  # rows up to which scikit-learn's processes have a length scale for each column
LEAST = np.finfo(float).eps  # of a probability, as scikit-learn's log_loss has it


def version(name: str) -> str | None:
    """The version of a package that is installed, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """The versions of the peers' packages."""
    return {name: version(name) for name in PACKAGES}


def densities(task: Task) -> dict[str, tuple[np.ndarray, float]]:
    """Fit every peer; the log density (m,) of each test row, and CPU seconds."""
    found = {}
    for name, make in (_classifiers(task) if task.classes else _regressors(task)).items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence and feature names: theirs to judge
            density = (of_classes if task.classes else of_quantity)(make, task)
        found[name] = density, time.process_time() - began
    return found


def of_classes(make: Callable[[], Any], task: Task) -> np.ndarray:
    """The log probability of the class of each test row."""
    X, test = standardised(task)
    classes, codes = np.unique(task.y, return_inverse=True)
    machine = make().fit(X, codes[task.train])
    p = np.zeros((len(test), len(classes)))
    p[:, np.unique(codes[task.train])] = machine.predict_proba(test)
    own = p[np.arange(len(p)), codes[task.test]]
    return np.log(np.maximum(own, LEAST))


def of_quantity(make: Callable[[], Any], task: Task) -> np.ndarray:
    """The log density of each test row."""
    from sklearn.model_selection import KFold

    (X, test), y = standardised(task), task.y[task.train]
    machine = make().fit(X, y)
    if hasattr(machine, "pred_dist"):  # NGBoost
        return np.asarray(machine.pred_dist(test).logpdf(task.y[task.test]))
    if "return_std" in inspect.signature(machine.predict).parameters:
        mean, std = machine.predict(test, return_std=True)
    else:
        mean, residuals = machine.predict(test), np.empty(len(y))
        for some, others in KFold(5, shuffle=True, random_state=0).split(X):
            residuals[others] = y[others] - make().fit(X[some], y[some]).predict(X[others])
        std = float(np.sqrt(np.mean(residuals**2)))
    z = (task.y[task.test] - mean) / std
    return np.asarray(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def standardised(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The inputs of training and test rows, by mean and deviation of the former."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(task.X[task.train])
    return scaler.transform(task.X[task.train]), scaler.transform(task.X[task.test])


def _regressors(task: Task) -> dict[str, Callable[[], Any]]:
    from catboost import CatBoostRegressor
    from lightgbm import LGBMRegressor
    from ngboost import NGBRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.linear_model import BayesianRidge

    def process(scale: Any) -> GaussianProcessRegressor:
        kernel = ConstantKernel(1.0) * RBF(scale) + WhiteKernel(0.1)
        return GaussianProcessRegressor(kernel, normalize_y=True)

    found: dict[str, Callable[[], Any]] = {
        "LightGBM": lambda: LGBMRegressor(n_jobs=1, random_state=0, verbose=-1),
        "CatBoost": lambda: CatBoostRegressor(
            thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
        ),
        "RandomForest": lambda: RandomForestRegressor(random_state=0),
        "NGBoost": lambda: NGBRegressor(random_state=0, verbose=False),
        "GPR": lambda: process(1.0),
        "ridge": BayesianRidge,
    }
    if len(task.train) <= SEPARATE:
        found["GPR, ARD"] = lambda: process(np.ones(task.X.shape[1]))
    return found


def _classifiers(task: Task) -> dict[str, Callable[[], Any]]:
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.linear_model import LogisticRegression

    k = len(np.unique(task.y))
    return {
        "LightGBM": lambda: LGBMClassifier(n_jobs=1, random_state=0, verbose=-1),
        "CatBoost": lambda: CatBoostClassifier(
            thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
        ),
        "RandomForest": lambda: RandomForestClassifier(random_state=0),
        "NGBoost": lambda: NGBClassifier(Dist=k_categorical(k), random_state=0, verbose=False),
        "GPC": lambda: GaussianProcessClassifier(1.0 * RBF(1.0)),
        "logistic": lambda: LogisticRegression(max_iter=1000),
    }
