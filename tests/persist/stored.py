"""Model files of this version, kept under tests/data/models so that later ones can read them.

``python -m tests.persist.stored`` writes those that are not there; none is ever written twice. Run
it with every version of scikit-learn that :mod:`mercer.persist.pipelines` knows.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import mercer
from mercer.kernels import RBF, Linear
from mercer.losses import Gaussian
from mercer.persist.pipelines import version

FOLDER = Path(__file__).parents[1] / "data" / "models"
X = np.array([[np.cos(3 * i), np.sin(7 * i)] for i in range(12)])
Y = X[:, 0] + X[:, 1] ** 2
LABELS = np.where(Y > 0.5, "high", "low")
THREE = np.arange(12) % 3
TABLE = np.array([[x, y, "ab"[i % 2]] for i, (x, y) in enumerate(X)], dtype=object)
TABLE[3, 0] = np.nan
WORDS = ["red", "green", "blue", "old"]
COLUMNS = {
    "size": [None if i == 3 else float(x) for i, x in enumerate(X[:, 0])],
    "town": ["Ulm" if i % 2 else "Bonn" for i in range(12)],
    "when": np.datetime64("2024-01-01") + 50 * np.arange(12).astype("timedelta64[D]"),
    "note": [" ".join(WORDS[(i * j) % 4] for j in range(1, 5)) for i in range(12)],
}


FULL = np.column_stack([X.astype(object), TABLE[:, 2], np.array(COLUMNS["note"], dtype=object)])
BY_VERSION = ("Pipeline", "Steps", "TableModel")  # which depend on that of scikit-learn


def models():
    """Return the models by the name of their file, with the rows that they predict."""
    before = ColumnTransformer(
        [
            ("n", Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())]), [0, 1]),
            ("c", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [2]),
        ]
    )
    gp = mercer.GPRegressor(2.0 * RBF(0.7) + Linear(), loss=Gaussian(0.1), search=None)
    table = COLUMNS | {"high": LABELS, "count": 1 + THREE}
    best = mercer.fit(
        table, "high", weights="count", features=list(COLUMNS), candidates=["kernel logistic"]
    )
    words = [
        ("count", CountVectorizer()), ("weigh", TfidfTransformer()), ("topics", TruncatedSVD(2)),
    ]  # fmt: skip
    every = [
        ("same", FunctionTransformer(), [0, 1]),
        ("most", MaxAbsScaler(), [0, 1]),
        ("range", MinMaxScaler(), [0, 1]),
        ("gaps", MissingIndicator(features="all"), [0, 1]),
        ("length", Normalizer(), [0, 1]),
        ("codes", OrdinalEncoder(), [2]),
        ("main", PCA(1), [0, 1]),
        ("powers", PolynomialFeatures(2), [0, 1]),
        ("power", PowerTransformer(), [0, 1]),
        ("ranks", QuantileTransformer(n_quantiles=5), [0, 1]),
        ("robust", RobustScaler(), [0, 1]),
        ("constant", SimpleImputer(strategy="constant", fill_value=-1.0), [0, 1]),
        ("texts", Pipeline(words), 3),
        ("characters", TfidfVectorizer(analyzer="char"), 3),
    ]
    steps = Pipeline(
        [("columns", ColumnTransformer(every, sparse_threshold=0.0)), ("machine", mercer.SVR())]
    )
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
        "Steps": (steps.fit(FULL, Y), FULL),
        "TableModel": (best, COLUMNS),
    }


def said(model, rows):
    """Return what a model says of rows, as plain values."""
    method = getattr(model, "predict_proba", None) or getattr(model, "decision_function", None)
    return np.asarray((method or model.predict)(rows)).tolist()


def answers(path):
    """Return the file with what the model said when it was written; its name may hold dots."""
    return path.with_name(path.name.removesuffix(".safetensors") + ".json")


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, (model, rows) in models().items():
        more = f"-scikit-learn-{version()}" if name in BY_VERSION else ""
        path = FOLDER / f"{name}-{mercer.__version__}{more}.safetensors"
        if not path.exists():
            mercer.save(model, path)
            answers(path).write_text(json.dumps(said(model, rows)) + "\n")


if __name__ == "__main__":
    main()
