"""TableRegressor and TableClassifier: the best machine for a table as scikit-learn's estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mercer.core.arrays import Array
from mercer.estimators.shared.labels import encode, split_labels
from mercer.estimators.shared.table import check_target, restored_on_error
from mercer.losses.base import ONE
from mercer.tables.choose.screen import Progress
from mercer.tables.data.frame import Frame, objects
from mercer.tables.data.inputs import (
    beside,
    by_name,
    column_of,
    inputs_of,
    name_of_target,
    with_groups,
)
from mercer.tables.judge.bounds import within
from mercer.tables.learn import Roles, learn
from mercer.tables.model import TableModel

NONE = "requires y to be passed, but the target y is None"


class TableEstimator(TableModel):
    """What both estimators of tables have in common: parameters and ``fit``."""

    _kind: ClassVar[str]

    def __init__(
        self,
        candidates: Sequence[str] | None = None,
        kernel: Any = None,
        time_budget: float = 60.0,
        random_state: Any = 0,
        progress: bool | Progress = False,
        single: bool = False,
        group: str | int | None = None,
        time: str | int | None = None,
    ) -> None:
        self.candidates, self.kernel, self.time_budget = candidates, kernel, time_budget
        self.random_state, self.progress, self.single = random_state, progress, single
        self.group, self.time = group, time

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Find the best machine for X (n, d), a table or an array, and y (n,), and fit it.

        Columns of text, dates and gaps are inputs like others. A ``sample_weight`` (n,) of 2 counts
        as the row twice, 0 as no row. Rows with the same of ``groups`` (n,), any labels, are left
        out together, as with the parameter ``group``; the groups of new rows are new ones, since
        X does not name them.
        """
        with restored_on_error(self):
            frame = inputs_of(self, X, reset=True)
            if y is None:
                raise ValueError(f"{type(self).__name__} {NONE}")
            name, values = name_of_target(y, frame), self._values(y, frame.n)
            labels = values if self._kind == "classification" else None
            roles = Roles(name, None, sample_weight, kind=self._kind, labels=labels)
            group, time = (column_of(frame, one) for one in (self.group, self.time))
            self.inputs_ = "X" if hasattr(self, "feature_names_in_") else "array"
            self._learn(
                beside(frame, {name: values}), replace(roles, group=group, time=time), groups
            )
            if by_name(X):
                self.inputs_ = "table"
        return self

    def _fit_table(self, frame: Frame, roles: Roles, groups: Any = None) -> Self:
        """Find the best machine for one column of a table; the others are found by name."""
        with restored_on_error(self):
            self._learn(frame, roles, groups)
            self.inputs_ = "table"
            self._name_inputs()
        return self

    def _learn(self, frame: Frame, roles: Roles, groups: Any) -> None:
        if groups is not None:
            if roles.group is not None:
                raise ValueError("the groups are given twice: by group, and by groups")
            frame, name = with_groups(frame, groups)
            roles = replace(roles, group=name, beside=True)
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        self.__dict__.update(learn(frame, roles, self, int(seed)))

    def _values(self, y: Any, n: int) -> Any:
        """Return y as a column of n values."""
        raise NotImplementedError

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the prediction of each row (n,): a quantity, or the most probable class.

        With ``return_std`` also the standard deviation of a new observation, for a quantity.
        """
        encoded = self.encode(X)
        if not return_std:
            return self.machine_.predict(encoded)
        if self.classes_ is not None:
            raise AttributeError("a class has no standard deviation: use predict_proba")
        return self.machine_.predict(encoded, return_std=True)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 of a quantity, or the share of right classes; y None: it is in the table."""
        y = self._target_in(X) if y is None else y
        return float(super().score(X, y, sample_weight=sample_weight))  # type: ignore[misc]  # of a mixin

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of scikit-learn's base
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class TableRegressor(TableEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The best machine for a quantity in a table, chosen by rows left out; see :func:`mercer.fit`.

    X is a table (pandas, polars, pyarrow, a mapping) with numbers, text, dates and gaps in it, or
    an array. Folds, grids, pipelines and clones of scikit-learn work as with any regressor: every
    fit chooses anew.

    Parameters
    ----------
    candidates : names of machines to try; default: all that fit. See ``compare()``.
    kernel : a kernel or its name: a Gaussian process with it is a candidate, and the only one
        unless ``candidates`` names others.
    time_budget : seconds for the fit. As long as it does not bind, which ``report_["time"]`` says,
        the same rows give the same model.
    random_state : of the rows drawn and of the search's starts.
    progress : True for a line on stderr, or a function that is given a dictionary with the "stage";
        the first says how long it will take, "expected" in seconds.
    single : one machine, whatever a combination of several would gain.
    group : a column of X, by name or number, which then is not an input: rows with the same value
        are left out together, so that the figures are those of rows of new groups. ``fit`` takes
        an array of ``groups`` in its place.
    time : a column of dates or numbers: rows are predicted from earlier ones in all figures.

    Attributes
    ----------
    machine_ : the fitted machine, the last step of ``pipeline_``.
    columns_, ranking_, left_out_, notes_, report_ : see :class:`~mercer.TableModel`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from mercer import TableRegressor
    >>> x = np.linspace(0, 10, 60)
    >>> X = {"x": x, "side": np.where(x > 5, "right", "left")}
    >>> model = TableRegressor(candidates=["Gaussian process"]).fit(X, np.sin(x))
    >>> model.predict({"x": [1.0], "side": ["left"]}).round(2)
    array([0.84])
    >>> bool(np.all(cross_val_score(model, x[:, None], np.sin(x), cv=3) > 0.0))
    True
    """

    _kind = "regression"
    _lacks: ClassVar[dict[str, str]] = {
        "predict_proba": "a quantity has no classes: use predict_interval"
    }

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the prediction of each row (n,), and its standard deviation on request.

        Where no target of the fit was below zero, no prediction is; ``report_["target"]`` says so.
        """
        found = super().predict(X, return_std)
        if not return_std:
            return within(self.report_, found)[0]
        return within(self.report_, found[0])[0], found[1]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return (low, high), (n,) each: the central interval of a new observation.

        Where no target of the fit was below zero, no end is; ``report_["target"]`` says so.
        """
        encoded = self.encode(X)
        return within(self.report_, *self.machine_.predict_interval(encoded, coverage=coverage))

    def predict_spread(self, X: Any) -> Array:
        """Return half the width of the central 68 % interval of a new observation, (n,).

        A standard deviation where the noise is Gaussian; finite where that is infinite.
        """
        low, high = self.predict_interval(X, ONE)
        return np.asarray(0.5 * (high - low))

    def _values(self, y: Any, n: int) -> Any:
        check_target(y)
        values = column_or_1d(y, dtype=np.float64, warn=True)
        check_consistent_length(np.empty(n), values)
        return values


class TableClassifier(TableEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The best machine for the classes in a table, chosen by rows left out; see :func:`mercer.fit`.

    X is as for :class:`~mercer.TableRegressor`; y are labels of any sort,
    None or NaN where there is none: such rows are used as partly labelled.

    Parameters
    ----------
    candidates, kernel, time_budget, random_state, progress, single, group, time
        See :class:`~mercer.TableRegressor`.

    Attributes
    ----------
    classes_ : (k,) the labels, sorted.
    machine_ : the fitted machine, the last step of ``pipeline_``.
    columns_, ranking_, left_out_, notes_, report_ : see :class:`~mercer.TableModel`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import TableClassifier
    >>> x = np.linspace(0, 10, 60)
    >>> model = TableClassifier(candidates=["linear"]).fit(x[:, None], np.where(x > 5, "b", "a"))
    >>> model.predict([[1.0], [9.0]]).tolist(), model.predict_proba([[1.0]]).shape
    (['a', 'b'], (1, 2))
    """

    _kind = "classification"
    _lacks: ClassVar[dict[str, str]] = {
        "predict_interval": "a class has no interval: use predict_proba",
        "predict_spread": "a class has no interval: use predict_proba",
    }

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (n, k), in the order of ``classes_``."""
        encoded = self.encode(X)
        return np.asarray(self.machine_.predict_proba(encoded))

    def _values(self, y: Any, n: int) -> Any:
        known, labels = split_labels(y, n)
        if len(labels):
            with np.errstate(invalid="ignore"):  # labels of 1e300 are no integers
                check_classification_targets(labels)
            encode(labels)
        if known.all():
            return labels
        values = objects(None for _ in range(n))
        values[known] = labels
        return values
