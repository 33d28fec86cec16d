"""Streams, and learners of streams: mercer, scikit-learn's SGD, and the models of river."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

BATCH = 100
Stream = tuple[np.ndarray, np.ndarray]


def available() -> bool:
    """Return whether river is installed."""
    return find_spec("river") is not None


# ---------------------------------------------------------------------- streams
def hidden(n: int, d: int = 10) -> Stream:
    """Return X (n, d) and labels 0 and 1 of a product and a wave in three columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    f = 2.0 * X[:, 0] * X[:, 1] + 2.0 * np.sin(2.0 * X[:, 2])
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(int)


def rings(n: int) -> Stream:
    """Return X (n, 2) and labels of four rings, with noise: wide columns, one far from zero."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    f = np.sin(9.0 * np.hypot(X[:, 0], X[:, 1]))
    return X * [1000.0, 1.0] + [0.0, 50.0], (f + 0.2 * rng.normal(size=n) > 0).astype(int)


def bananas(n: int) -> Stream:
    """Return the first n of the 5300 examples of river's Bananas."""
    from river import datasets

    rows = [(list(x.values()), int(y)) for x, y in datasets.Bananas()][:n]
    return np.array([x for x, _ in rows], dtype=float), np.array([y for _, y in rows])


def categories(n: int) -> Stream:
    """Return 200 categorical variables, half of them silent, as unit rows of TF-IDF; labels +-1.

    The generator of papers/hou_hero.py, first simulation.
    """
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    U = rng.random((n, 200))
    silent, common = [0.94, 0.97, 0.99], [0.50, 0.75, 0.90]
    high, low = [0.55, 0.75, 0.90], [0.70, 0.85, 0.95]  # cumulative probabilities of 0, 1, 2
    counts = np.empty((n, 200))
    for columns, up, down in (
        (slice(0, 100), silent, silent),
        (slice(100, 150), common, common),
        (slice(150, 175), high, low),
        (slice(175, 200), low, high),
    ):
        edges = np.where((y > 0)[:, None], up, down)
        counts[:, columns] = (edges[:, None, :] <= U[:, columns, None]).sum(axis=2)
    frequency = (counts[:100] > 0).sum(axis=0)
    X = np.log1p(counts) * (np.log(101.0 / (1.0 + frequency)) + 1.0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


STREAMS: dict[str, Callable[[int], Stream]] = {"hidden": hidden, "rings": rings}
if available():
    STREAMS["bananas"] = bananas


# ---------------------------------------------------------------------- learners
class Batches:
    """A learner of batches: each is predicted before it is learned."""

    def __init__(self, model: Any, features: Any = None) -> None:
        self.model, self.features = model, features

    def right(self, X: np.ndarray, y: np.ndarray) -> int:
        """Return how many labels were foreseen; the first batch counts as guessed."""
        hits = 0
        for i in range(0, len(X), BATCH):
            part, labels = X[i : i + BATCH], y[i : i + BATCH]
            if self.features is not None:
                part = self._features(part, first=i == 0)
            if i == 0:
                hits += len(labels) // 2
            else:
                hits += int((self.model.predict(part) == labels).sum())
            self.model.partial_fit(part, labels, classes=[0, 1])
        return hits

    def _features(self, part: np.ndarray, first: bool) -> np.ndarray:
        scale, lift = self.features
        return lift.transform((scale.partial_fit(part) if first else scale).transform(part))


class Best:
    """The best of several learners, in hindsight."""

    def __init__(self, learners: list[Batches]) -> None:
        self.learners = learners

    def right(self, X: np.ndarray, y: np.ndarray) -> int:
        """Return how many labels the best of them foresaw."""
        return max(learner.right(X, y) for learner in self.learners)


class OneByOne:
    """A model of river: each example is predicted before it is learned."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def right(self, X: np.ndarray, y: np.ndarray) -> int:
        """Return how many labels were foreseen."""
        hits = 0
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            x = dict(enumerate(row))
            hits += self.model.predict_one(x) == label
            self.model.learn_one(x, label)
        return hits


def _mercer(d: int) -> Batches:
    from mercer import OnlineLogisticClassifier

    return Batches(OnlineLogisticClassifier(budget=300))


def _sgd(average: bool) -> Callable[[int], Best]:
    def learner(d: int, length: float) -> Batches:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDClassifier
        from sklearn.preprocessing import StandardScaler

        lift = RBFSampler(gamma=0.5 / length**2, n_components=300, random_state=0)
        model = SGDClassifier(loss="log_loss", average=average, random_state=0)
        return Batches(model, (StandardScaler(), lift.fit(np.zeros((1, d)))))

    # the length scales that mercer chooses from, on standardised columns
    return lambda d: Best([learner(d, factor * np.sqrt(d)) for factor in (1.0, 0.5, 0.25, 0.125)])


def _river(which: str) -> Callable[[int], OneByOne]:
    def make(d: int) -> OneByOne:
        from river import forest, linear_model, neighbors, preprocessing, tree

        model = {
            "logistic": lambda: linear_model.LogisticRegression(),
            "tree": lambda: tree.HoeffdingTreeClassifier(),
            "forest": lambda: forest.ARFClassifier(n_models=10, seed=0),
            "neighbours": lambda: neighbors.KNNClassifier(n_neighbors=5),
        }[which]()
        return OneByOne(preprocessing.StandardScaler() | model)

    return make


LEARNERS: dict[str, Callable[[int], Any]] = {
    "mercer": _mercer,
    "SGD, 300 random features": _sgd(average=False),
    "SGD, averaged": _sgd(average=True),
    "river LogisticRegression": _river("logistic"),
    "river HoeffdingTree": _river("tree"),
    "river ARF": _river("forest"),
    "river KNN": _river("neighbours"),
}


def prequential(stream: str, who: str, n: int) -> dict[str, float]:
    """Return accuracy before each update, and CPU seconds, of one learner on one stream."""
    X, y = STREAMS[stream](n)
    learner = LEARNERS[who](X.shape[1])
    begin = time.process_time()
    hits = learner.right(X, y)
    return {"accuracy": hits / len(X), "seconds": time.process_time() - begin}
