"""Inducing points on data: errors after fitting 10000 rows, beside those of a prototype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mercer import GPClassifier, GPRegressor
from mercer.core.arrays import Array
from mercer.kernels import RBF
from mercer.linalg.representation import Inducing

ROWS = 10_000
# name, points, moved, RMSE, mean negative log density; targets are standardised
CELLS = [
    ("protein", 100, True, 0.747, 1.127),
    ("protein", 250, False, None, 1.133),
    ("kin40k", 100, True, 0.302, 0.264),
    ("kin40k", 250, False, None, 0.427),
    ("bike", 100, True, 0.250, 0.025),
    ("bike", 250, False, None, 0.027),
]


def table(folder: Path, name: str, rows: int = ROWS) -> tuple[Array, Array, Array, Array]:
    path = folder / name / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"there is no table {name} under MERCER_DATA")
    with np.load(path) as held:
        X, y = np.asarray(held["X"], dtype=float), np.ravel(held["y"]).astype(float)
    if name == "bike":
        X = X[:, :15]  # the last two are parts of the target
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:rows], order[rows : rows + 5000]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "m", "move", "rmse", "nlpd"), CELLS)
def test_errors_on_other_rows(
    data_folder: Path, name: str, m: int, move: bool, rmse: float | None, nlpd: float
) -> None:
    X, y, A, b = table(data_folder, name)
    gram = Inducing(m, move=move, rows=2000, max_iter=200)
    model = GPRegressor(1.0 * RBF(np.ones(X.shape[1])), gram=gram, random_state=0).fit(X, y)
    mean, std = model.predict(A, return_std=True)
    found = 0.5 * np.mean(np.log(2.0 * np.pi * std**2) + ((mean - b) / std) ** 2)
    assert found <= nlpd + 0.02
    if rmse is not None:
        assert np.sqrt(np.mean((mean - b) ** 2)) <= 1.02 * rmse
    lower, upper = model.evidence_bounds_
    assert lower == model.log_evidence_
    assert upper is None


# name, points, log loss of Laplace (logit), EP (probit) and the variational bound (logit)
CLASSES = [
    ("banana", 25, 0.2515, 0.2376, 0.2375),
    ("banana", 100, 0.2358, 0.2326, 0.2332),
    ("ringnorm", 100, 0.340, 0.264, 0.357),
    ("twonorm", 50, 0.0697, 0.0716, 0.0663),
    ("usps_3v5", 50, 0.138, 0.122, 0.119),
]


def classes(folder: Path, name: str) -> tuple[Array, Array, Array, Array]:
    """800 rows to learn from and up to 5000 others, standardised on the first."""
    path = folder / f"raetsch_{name}" / f"{name}.npz"
    path = folder / "usps" / "usps_3v5.npz" if name == "usps_3v5" else path
    if not path.exists():
        pytest.skip(f"there is no table {name} under MERCER_DATA")
    with np.load(path) as held:
        keys = ("X", "t") if "X" in held else ("X_train", "X_test", "y_train", "y_test")
        half = len(keys) // 2
        X, t = (np.concatenate([held[k] for k in part]) for part in (keys[:half], keys[half:]))
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:800], order[800:5800]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return X[train], t[train], X[test], t[test]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["laplace", "ep", "variational"])
@pytest.mark.parametrize("cell", CLASSES, ids=lambda cell: f"{cell[0]}-{cell[1]}")
def test_log_loss_of_classes(
    data_folder: Path, cell: tuple[str, int, float, float, float], how: str
) -> None:
    name, m, laplace, ep, variational = cell
    X, t, A, b = classes(data_folder, name)
    loss = "probit" if how == "ep" else "logistic"
    start = 1.0 * RBF(1.0 if X.shape[1] == 2 else X.shape[1] ** 0.5)
    model = GPClassifier(start, loss=loss, inference=how, gram=Inducing(m), random_state=0)
    proba = model.fit(X, t).predict_proba(A)
    found = -np.mean(np.log(proba[np.arange(len(b)), np.searchsorted(model.classes_, b)]))
    assert found <= {"laplace": laplace, "ep": ep, "variational": variational}[how] + 0.02


@pytest.mark.slow
def test_hyperparameters_of_few_rows_serve_all_of_them(data_folder: Path) -> None:
    """Bike, 12000 rows at the optimum of 4000: means and variances are those of an exact fit."""
    X, y, A, b = table(data_folder, "bike", 12_000)
    start = 1.0 * RBF(np.ones(X.shape[1]))
    model = GPRegressor(start, gram="iterative", random_state=0).fit(X, y)
    mean = model.predict(A)
    assert np.sqrt(np.mean((mean - b) ** 2)) <= 1.02 * 0.223
    exact = GPRegressor(model.kernel_, loss=model.loss_, search=None, gram="dense").fit(X, y)
    wanted, std = exact.predict(A, return_std=True)
    assert np.abs(mean - wanted).max() <= model.report_["inference"]["mean_error"]
    assert model.evidence_bounds_[0] <= exact.log_evidence_ <= model.evidence_bounds_[1]
    np.testing.assert_allclose(model.predict(A[:50], return_std=True)[1], std[:50], rtol=0.02)
    found = 0.5 * np.mean(np.log(2.0 * np.pi * std**2) + ((wanted - b) / std) ** 2)
    assert found <= -0.100 + 0.02
