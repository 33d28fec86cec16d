"""Model files of this version, kept under tests/data/models so that later ones can read them.

``python -m tests.persist.stored`` writes those that are not there; none is ever written twice.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer.kernels import RBF, Linear
from mercer.losses import Gaussian

FOLDER = Path(__file__).parents[1] / "data" / "models"
X = np.array([[np.cos(3 * i), np.sin(7 * i)] for i in range(12)])
Y = X[:, 0] + X[:, 1] ** 2
LABELS = np.where(Y > 0.5, "high", "low")
THREE = np.arange(12) % 3
TABLE = np.array([[x, y, "ab"[i % 2]] for i, (x, y) in enumerate(X)], dtype=object)
TABLE[3, 0] = np.nan


def models():
    """Return the models by the name of their file, with the rows that they predict."""
    before = ColumnTransformer(
        [
            ("n", Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())]), [0, 1]),
            ("c", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [2]),
        ]
    )
    gp = mercer.GPRegressor(2.0 * RBF(0.7) + Linear(), loss=Gaussian(0.1), search=None)
    pipeline = Pipeline([("columns", before), ("machine", mercer.SVR(tol=1e-6))])
    return {
        "GPRegressor": (gp.fit(X, Y), X),
        "GPClassifier": (mercer.GPClassifier(RBF(0.7), search=None).fit(X, THREE), X),
        "MEDClassifier": (mercer.MEDClassifier(calibration="sigmoid").fit(X, LABELS), X),
        "RVRegressor": (mercer.RVRegressor(RBF(0.7)).fit(X, Y), X),
        "SVC": (mercer.SVC(tol=1e-6, probability="loo").fit(X, LABELS), X),
        "SmoothingSpline": (mercer.SmoothingSpline(lam=0.1).fit(X[:, :1], Y), X[:, :1]),
        "OnlineLogisticClassifier": (mercer.OnlineLogisticClassifier().fit(X, LABELS), X),
        "LapSVC": (
            mercer.LapSVC(n_neighbors=3, tol=1e-6).fit(X, np.where(THREE == 0, None, LABELS)),
            X,
        ),
        "Pipeline": (pipeline.fit(TABLE, Y), TABLE),
    }


def said(model, rows):
    """Return what a model says of rows, as plain values."""
    method = getattr(model, "predict_proba", None) or getattr(model, "decision_function", None)
    return np.asarray((method or model.predict)(rows)).tolist()


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, (model, rows) in models().items():
        path = FOLDER / f"{name}-{mercer.__version__}.safetensors"
        if not path.exists():
            mercer.save(model, path)
            path.with_suffix(".json").write_text(json.dumps(said(model, rows)) + "\n")


if __name__ == "__main__":
    main()
