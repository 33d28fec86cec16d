"""RiverClassifier, RiverRegressor: online learners with the interface of the package ``river``.

Examples are dicts; the features of the first one, in its order, are those of all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.shared.table import as_numbers


def _of_learner(name: str) -> property:
    """Return the attribute of that name of the learner."""
    return property(lambda self: getattr(self.learner, name), doc=f"``{name}`` of the learner.")


def _rivers_base(name: str) -> Any:
    """Return river's class of models if it is installed: its metrics ask for that class."""
    try:
        return getattr(import_module("river.base"), name)
    except ImportError:
        return object


class HoldsExamples:
    """Examples as dicts of features, of which some are held before they are learned together."""

    first: int
    batch: int
    learner: Any
    features: list[Any] | None
    _held: tuple[tuple[Array, Any, float], ...]

    def _open(self, learner: Any) -> None:
        """Begin with a learner that may have been fitted."""
        for name, count in (("first", self.first), ("batch", self.batch)):
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
                raise ValueError(f"{name} must be a count of examples, at least 1, not {count!r}")
        self.learner, self.features, self._held = learner, None, ()
        if hasattr(learner, "feature_names_in_"):
            self.features = list(learner.feature_names_in_)

    posteriors_ = _of_learner("posteriors_")
    report_ = _of_learner("report_")
    left_out_ = _of_learner("left_out_")
    loo_ = _of_learner("loo_")

    def summary(self) -> Any:
        """Return the summary of the learner."""
        return self.learner.summary()

    def _begun(self) -> bool:
        raise NotImplementedError

    def _ready(self, labels: tuple[Any, ...]) -> bool:
        """Whether the examples that are held can be learned."""
        return True

    def _learn(self, rows: Array, labels: list[Any], weights: Array) -> None:
        given = {} if (weights == 1.0).all() else {"sample_weight": weights}
        self.learner.partial_fit(rows, np.array(labels), **given)

    # ------------------------------------------------------------------ learning
    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn what y is at the features x, with weight w > 0; an error changes nothing."""
        names = self._known(x)
        held = (*self._held, (_row(x, names), y, float(w)))
        rows, labels, weights = zip(*held, strict=True)
        enough = len(held) >= (self.batch if self._begun() else self.first)
        if enough and self._ready(labels):
            self._learn(np.array(rows), list(labels), np.array(weights))
            held = ()
        self.features, self._held = names, held

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a data frame X (b, d) and its targets y (b,), after the examples that are held."""
        names = self._known(X)
        rows, labels = np.asarray(as_numbers(X[names]), dtype=np.float64), list(y)
        if self._held:
            before, given, _ = zip(*self._held, strict=True)
            rows, labels = np.vstack([*before, rows]), [*given, *labels]
        weights = np.r_[[each[2] for each in self._held], np.ones(len(labels) - len(self._held))]
        self._learn(rows, labels, weights)
        self.features, self._held = names, ()

    def _known(self, x: Any) -> list[Any]:
        """Return the features, those of x if there are none yet; refuse an x with other keys."""
        given = list(x.keys())
        if self.features is None:
            if not given:
                raise ValueError("the first example has no features; it decides which there are")
            return given
        missing = [name for name in self.features if name not in x]
        if missing:
            raise ValueError(
                f"the example has no feature {missing[0]!r}, which the first one had; give every "
                "feature a value, e.g. with river.preprocessing.StatImputer before the model"
            )
        if len(given) > len(self.features):
            new = next(name for name in given if name not in self.features)
            raise ValueError(
                f"the example has a feature {new!r} that the first one did not have; select the "
                f"features {self.features}, e.g. with river.compose.Select"
            )
        return self.features


class RiverClassifier(HoldsExamples, _rivers_base("MiniBatchClassifier")):  # type: ignore[misc]  # the base depends on what is installed
    """A classifier with ``partial_fit`` as a model of river: examples are dicts of features.

    river need not be installed. Where it is, this is one of its classifiers and works in its
    pipelines and in ``evaluate.progressive_val_score``.

    Parameters
    ----------
    model : estimator with ``partial_fit``, or None (default): ``OnlineLogisticClassifier`` with a
        budget of 300. ``learner`` is a copy, and continues if the model is fitted.
    classes : list of all labels of the stream, or None (default): those of the first examples; or
        "grow": those, and what comes later.
    first : >= 1, default 50. Examples to hold before they are learned together: they set the
        scales. Until then all classes seen so far are equally probable.
    batch : >= 1, default 1, which learns each at once. Examples to hold before they are learned
        together, afterwards. With a budget, a hundred cost little more than one, and predictions
        are at most that many examples behind.

    Attributes
    ----------
    learner : the fitted estimator, for :func:`mercer.save`.
    features : names of the features, in the order of the first example; None before it.
    posteriors_, report_, left_out_, loo_ : those of the learner, where it has them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RiverClassifier
    >>> rng = np.random.default_rng(0)
    >>> model = RiverClassifier(classes=[False, True])
    >>> for a, b in rng.normal(size=(120, 2)):
    ...     model.learn_one({"a": a, "b": b}, a > b)
    >>> model.predict_one({"a": 1.0, "b": -1.0})
    True
    >>> model.predict_proba_one({"a": 1.0, "b": -1.0})[True] > 0.9
    True
    """

    def __init__(
        self, model: Any = None, classes: Any = None, first: int = 50, batch: int = 1
    ) -> None:
        self.model = model
        self.classes = classes
        self.first = first
        self.batch = batch
        self._open(_copied(model))

    @property
    def _multiclass(self) -> bool:
        return True

    # ------------------------------------------------------------------ learning
    def _learn(self, rows: Array, labels: list[Any], weights: Array) -> None:
        classes = None if self._begun() else self.classes
        given = {} if (weights == 1.0).all() else {"sample_weight": weights}
        self.learner.partial_fit(rows, np.array(labels), classes=classes, **given)

    def _begun(self) -> bool:
        return hasattr(self.learner, "classes_")

    def _ready(self, labels: tuple[Any, ...]) -> bool:
        # of one class so far: wait for another
        named = self.classes is not None and not self._grows
        return self._begun() or named or len(set(labels)) > 1

    @property
    def _grows(self) -> bool:
        return isinstance(self.classes, str) and self.classes == "grow"

    # ------------------------------------------------------------------ predicting
    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class; before the first update all are equal."""
        row = _row(x, self._known(x))
        if not self._begun():
            named = self.classes is not None and not self._grows
            known = set(self.classes if named else [y for _, y, _ in self._held])
            return dict.fromkeys(known, 1.0 / len(known)) if known else {}
        p = self.learner.predict_proba(row[None])[0]
        return dict(zip(self.learner.classes_.tolist(), p.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Return the most probable class, or None if no class has been seen."""
        if self._begun() and not hasattr(self.learner, "predict_proba"):
            return self.learner.predict(_row(x, self._known(x))[None]).tolist()[0]
        p = self.predict_proba_one(x)
        return max(p, key=lambda label: p[label]) if p else None

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probabilities for a data frame X (b, d), one column per class."""
        check_is_fitted(self.learner, "classes_")
        p = self.learner.predict_proba(np.asarray(as_numbers(X[self._known(X)]), np.float64))
        return type(X)(p, index=X.index, columns=self.learner.classes_.tolist())


class RiverRegressor(HoldsExamples, _rivers_base("MiniBatchRegressor")):  # type: ignore[misc]  # the base depends on what is installed
    """A regressor with ``partial_fit`` as a model of river: examples are dicts of features.

    river need not be installed. Where it is, this is one of its regressors and works in its
    pipelines and in ``evaluate.progressive_val_score``.

    Parameters
    ----------
    model : estimator with ``partial_fit``, or None (default): ``OnlineRegressor()``. ``learner`` is
        a copy, and continues if the model is fitted.
    first : >= 1, default 50. Examples to hold before they are learned together: they set the
        scales. Until then the mean of those held is predicted, 0 before the first.
    batch : >= 1, default 1, which learns each at once; fifty at a time cost little more than one.

    Attributes
    ----------
    learner : the fitted estimator, for :func:`mercer.save`.
    features : names of the features, in the order of the first example; None before it.
    posteriors_, report_, left_out_, loo_ : those of the learner, where it has them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RiverRegressor
    >>> rng = np.random.default_rng(0)
    >>> model = RiverRegressor(batch=10)
    >>> for a, b in rng.normal(size=(120, 2)):
    ...     model.learn_one({"a": a, "b": b}, a - b)
    >>> abs(model.predict_one({"a": 1.0, "b": -1.0}) - 2.0) < 0.1
    True
    """

    def __init__(self, model: Any = None, first: int = 50, batch: int = 1) -> None:
        self.model = model
        self.first = first
        self.batch = batch
        self._open(_copied(model, "OnlineRegressor"))

    def _begun(self) -> bool:
        return hasattr(self.learner, "n_features_in_")

    # ------------------------------------------------------------------ predicting
    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Return the mean of what is to be observed at x."""
        row = _row(x, self._known(x))
        if not self._begun():
            return float(np.mean([y for _, y, _ in self._held])) if self._held else 0.0
        return float(self.learner.predict(row[None])[0])

    def predict_interval_one(
        self, x: Mapping[Any, Any], coverage: float = 0.9
    ) -> tuple[float, ...]:
        """Return (low, high) that contain what is to be observed at x with such probability."""
        check_is_fitted(self.learner, "n_features_in_")
        low, high = self.learner.predict_interval(_row(x, self._known(x))[None], coverage)
        return float(low[0]), float(high[0])

    def predict_many(self, X: Any) -> Any:
        """Return the means for a data frame X (b, d), as a column like river's."""
        check_is_fitted(self.learner, "n_features_in_")
        found = self.learner.predict(np.asarray(as_numbers(X[self._known(X)]), np.float64))
        return type(X.iloc[:, 0])(found, index=X.index)


def _row(x: Mapping[Any, Any], names: list[Any]) -> Array:
    """Return the values of x (d,) in the order of the names."""
    values = np.empty(len(names))
    for i, name in enumerate(names):
        try:
            values[i] = x[name]
        except (TypeError, ValueError):
            raise ValueError(
                f"feature {name!r} is {x[name]!r}, which is not a number; encode it, e.g. with "
                "river.preprocessing.OneHotEncoder before the model"
            ) from None
        if not np.isfinite(values[i]):
            raise ValueError(
                f"feature {name!r} is {x[name]!r}; fill it, e.g. with "
                "river.preprocessing.StatImputer before the model"
            )
    return values


def _copied(model: Any, default: str = "OnlineLogisticClassifier") -> Any:
    """Return a copy of the model: with what it has learned, or fresh."""
    if model is None:
        return getattr(import_module("mercer"), default)(budget=300)
    if not hasattr(model, "partial_fit"):
        raise TypeError(
            f"{type(model).__name__} has no partial_fit and cannot learn from a stream; give "
            f"{default} or another that has it"
        )
    return copy.deepcopy(model) if hasattr(model, "n_features_in_") else clone(model)
