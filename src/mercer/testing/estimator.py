"""The contract of an estimator: mercer's own promises, beyond those that scikit-learn checks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from mercer.core.arrays import Array
from mercer.testing.clauses import close_whole, holds, refused
from mercer.testing.inference import plain
from mercer.testing.record import answers, check_record


def check_estimator(
    estimator: Any,
    X: Array | None = None,
    y: Any = None,
    *,
    parts: Iterable[type] = (),
    tol: float = 1e-3,
    variants: int = 60,
) -> None:
    """Fit, predict (or transform), refuse, save and load an estimator.

    Parameters
    ----------
    estimator : an estimator that is not fitted; it is cloned, not changed.
    X, y : a table that suits it; a small one of two columns if None.
    parts : your own classes that it contains, itself included, for :func:`mercer.load`.
    tol : how much the order of the training rows may matter, relative to the predictions: where
        something is searched, the optimum is found to a tolerance only. An estimator with
        ``partial_fit`` may learn row by row and is not asked.
    variants : how many hostile model files are tried.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: clone, unfitted, fit, attributes, repeats, predict,
        predict_proba, transform, rows, NaN, shapes, unchanged, report, names, record or hostile
        record.

    Examples
    --------
    >>> from mercer import SVC
    >>> check_estimator(SVC(), variants=10)
    """
    X, y = _table(estimator) if X is None else (np.asarray(X, dtype=np.float64), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, where a small table is hard
        model = _check_fit(estimator, X, y)
        (_check_predictions if hasattr(model, "predict") else _check_transform)(model, X)
        _check_rows(estimator, model, X, y, tol)
        _check_refusals(model, X, y)
        report = getattr(model, "report_", None)
        if report is not None:
            good = isinstance(report, dict) and report and plain(report)
            holds("report", good, "report_ must be a dictionary of plain values, as JSON has them")
            known = report.get("converged", True) in (True, False)
            holds("report", known, "converged is True or False")
        _check_names(estimator, model, X, y)
        check_record(model, X[:7], [type(model), *parts], variants)


def _table(estimator: Any) -> tuple[Array, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) * [1.0, 20.0] + [0.0, 100.0]
    f = np.sin(2.0 * X[:, 0]) + 0.03 * (X[:, 1] - 100.0)
    if is_classifier(estimator):
        return X, np.where(f + 0.3 * rng.normal(size=40) > 0.0, "yes", "no")
    return X, f + 0.2 * rng.normal(size=40) if is_regressor(estimator) else None


def _fitted(model: Any, X: Any, y: Any) -> Any:
    return model.fit(X) if y is None else model.fit(X, y)


def _check_fit(estimator: Any, X: Array, y: Any) -> Any:
    model, before = clone(estimator), repr(estimator.get_params())
    same = repr(model.get_params()) == before and type(model) is type(estimator)
    holds("clone", same, f"clone must have the parameters of {type(estimator).__name__}")
    text, given = "predict or transform before fit must raise NotFittedError", X.copy()
    refused("unfitted", lambda: _main(model)(X), text, NotFittedError)
    found = _fitted(model, X, y)
    holds("fit", found is model, "fit must return self")
    holds("fit", np.array_equal(X, given), "fit must leave X as it is")
    holds("fit", repr(model.get_params()) == before, "fit must leave the parameters as they are")
    holds("fit", model.n_features_in_ == X.shape[1], "n_features_in_ is the number of columns")
    learned = set(vars(model)) - set(model.get_params())
    loose = sorted(k for k in learned if not k.startswith("_") and not k.endswith("_"))
    holds("attributes", not loose, f"what fit learns ends in an underscore, and {loose} does not")
    twin = dict(answers(_fitted(clone(estimator), X, y), X))
    for method, wanted in answers(model, X):
        text = f"{method} must be the same to the last bit after the same fit"
        holds("repeats", twin.get(method) == wanted, text)
    return model


def _main(model: Any) -> Any:
    """Return the method that is asked for rows."""
    return model.predict if hasattr(model, "predict") else model.transform


def _check_transform(model: Any, X: Array) -> None:
    found, columns = np.asarray(model.transform(X)), len(model.get_feature_names_out())
    shape = (len(X), columns)
    holds("transform", found.shape == shape, f"shape {shape} is expected, not {found.shape}")
    holds("transform", np.all(np.isfinite(found)), "it must be finite")
    close_whole("rows", model.transform(X[:3]), found[:3], 1e-9, "a row is taken by itself")


def _check_predictions(model: Any, X: Array) -> None:
    n, found = len(X), np.asarray(model.predict(X))
    several = is_regressor(model) and np.size(getattr(model, "levels_", 0.0)) > 1
    shape = (n, np.size(model.levels_)) if several else (n,)
    holds("predict", found.shape == shape, f"shape {shape} is expected, not {found.shape}")
    if is_classifier(model):
        holds("predict", set(found) <= set(model.classes_), "a prediction is one of classes_")
        _check_probabilities(model, X)
    else:
        holds("predict", np.all(np.isfinite(found.astype(np.float64))), "it must be finite")
    part = np.asarray(model.predict(X[:3]))
    if is_regressor(model):
        close_whole("rows", part, found[:3], 1e-9, "a row is predicted by itself")
    else:
        holds("rows", np.array_equal(part, found[:3]), "a row is predicted by itself")
    try:
        mean, std = model.predict(X, return_std=True)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return
    good = np.shape(mean) == np.shape(std) == (n,) and np.all((std >= 0.0) & np.isfinite(std))
    holds("predict", good, "deviations are finite and not negative")


def _check_probabilities(model: Any, X: Array) -> None:
    try:
        proba = model.predict_proba(X)
    except (AttributeError, ValueError, NotImplementedError):
        return  # it says that it has none
    shape = (len(X), len(model.classes_))
    holds("predict_proba", proba.shape == shape, f"shape {shape} is expected, not {proba.shape}")
    inside = np.all(proba >= 0.0) and np.all(proba <= 1.0)
    holds("predict_proba", inside, "probabilities lie between 0 and 1")
    away = float(np.abs(proba.sum(axis=1) - 1.0).max())
    holds("predict_proba", away <= 1e-9, f"each row must sum to one, and is {away:.2g} away")


def _scores(model: Any, X: Array) -> Array:
    """Return the smooth figures behind the predictions."""
    for method in ("decision_function", "predict_proba", "predict", "transform"):
        try:
            return np.asarray(getattr(model, method)(X), dtype=np.float64)
        except (AttributeError, ValueError, TypeError, NotImplementedError):
            continue
    return np.zeros(len(X))


def _check_rows(estimator: Any, model: Any, X: Array, y: Any, tol: float) -> None:
    if hasattr(model, "partial_fit"):
        return
    order = np.random.default_rng(1).permutation(len(X))
    other = _fitted(clone(estimator), X[order], None if y is None else np.asarray(y)[order])
    text = "the order of the training rows must not matter"
    close_whole("rows", _scores(other, X), _scores(model, X), tol, text)


def _check_refusals(model: Any, X: Array, y: Any) -> None:
    """Bad input is refused with a sentence, and what was learned before stays."""
    said, kept = dict(answers(model, X)), {k: id(v) for k, v in vars(model).items()}
    gaps = get_tags(model).input_tags.allow_nan  # where it may, NaN is a value that is missing
    for bad in (np.inf,) if gaps else (np.nan, np.inf):
        spoiled = X.copy()
        spoiled[1, 0] = bad
        text = f"{bad} in X must be refused with ValueError"
        refused("NaN", lambda s=spoiled: _fitted(model, s, y), f"{text} by fit")  # type: ignore[misc]  # a default
        refused("NaN", lambda s=spoiled: _main(model)(s), f"{text} of new rows")  # type: ignore[misc]  # a default
    if is_regressor(model):
        target = np.array(y, dtype=np.float64)
        target[2] = np.nan
        refused("NaN", lambda: _fitted(model, X, target), "NaN in y must be refused by fit")
    refused("shapes", lambda: _fitted(model, X[:, 0], y), "X must have two dimensions")
    text = "other columns than in fit must be refused"
    refused("shapes", lambda: _main(model)(np.hstack([X, X])), text)
    if y is not None:
        text = "fewer targets than rows must be refused"
        refused("shapes", lambda: _fitted(model, X, np.asarray(y)[:-1]), text)
    refused("shapes", lambda: _fitted(model, X[:0], None if y is None else y[:0]), "no rows")
    same = {k: id(v) for k, v in vars(model).items()} == kept and dict(answers(model, X)) == said
    holds("unchanged", same, "what was learned must stay when new data are refused")


def _check_names(estimator: Any, model: Any, X: Array, y: Any) -> None:
    if find_spec("pandas") is None:
        return
    import pandas as pd  # type: ignore[import-untyped]  # it has no types of its own

    names = [f"input {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    named = _fitted(clone(estimator), frame, y)
    kept = list(getattr(named, "feature_names_in_", []))
    holds("names", kept == names, f"feature_names_in_ must be {names}, not {kept}")
    text = "a table with names is the same table"
    close_whole("names", _scores(named, frame), _scores(model, X), 1e-9, text)
    other = pd.DataFrame(X, columns=[f"other {j}" for j in range(X.shape[1])])
    refused("names", lambda: _main(named)(other), "columns of other names must be refused")
