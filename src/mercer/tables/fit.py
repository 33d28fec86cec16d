"""fit: the best machine for a table, or for X and y, as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.tables.choose.screen import Progress
from mercer.tables.data.frame import as_frame
from mercer.tables.data.inputs import column_of
from mercer.tables.data.target import is_quantity
from mercer.tables.estimators import TableClassifier, TableRegressor
from mercer.tables.learn import Roles


def fit(
    table: Any,
    target: Any,
    *,
    features: Sequence[str] | None = None,
    kind: str | None = None,
    weights: Any = None,
    group: Any = None,
    time: str | int | None = None,
    time_budget: float = 60.0,
    candidates: Sequence[str] | None = None,
    kernel: Any = None,
    seed: int = 0,
    single: bool = False,
    progress: bool | Progress = False,
) -> TableRegressor | TableClassifier:
    """Find the best kernel machine for a table, or the best combination of several, and fit it.

    The kinds of the columns are inferred; missing values are handled by the rule that ``columns_``
    states. The candidates are fitted to at most 500 rows and ranked by the log predictive density
    of rows left out; the best are fitted to all rows. They are combined by weights that maximise
    that density, if this predicts rows better that had no part in the weights; else the best one
    is taken. No rows are held out.

    Parameters
    ----------
    table : a pandas, polars or pyarrow table, a mapping from column name to values, or an array.
    target : the column to predict: numbers are a quantity, text and two numbers are classes. Rows
        without a class are used as partly labelled rows. In place of a name, the values (n,): then
        the table is X, as in ``fit(X, y)`` of :class:`~mercer.TableRegressor`.
    features : the input columns; default: all others that say something.
    kind : "regression" or "classification", where the values of the target mislead.
    weights : a column, which then is not an input, or a number for each row: weight 2 counts as the
        row twice, in the fit, the ranking and the figures; weight 0 as no row.
    group : a column, by its name or number, which then is not an input, or a label for each row:
        rows with the same value are left out together, so that the figures are those of rows of
        new groups.
    time : a column of dates or numbers: rows are predicted from earlier ones in all figures.
    time_budget : seconds, about: a fit that was begun is finished, and of very many rows reading
        takes what it takes.
    candidates : names of machines to try; default: all that fit the kind. See ``compare()``.
    kernel : a kernel or its name: a Gaussian process with it is a candidate, and the only one
        unless ``candidates`` names others.
    seed : of the rows drawn and of the search's starts.
    single : one machine, whatever a combination of several would gain.
    progress : True for a line on stderr, or a function that is given a dictionary with the "stage";
        the first says how long it will take, "expected" in seconds. A keyboard interrupt keeps the
        best machine so far, fitted to the rows it was tried on; ``notes_`` says so.

    Returns
    -------
    TableRegressor or TableClassifier, fitted: new rows are tables in which the columns are found
    by name, or of X and y what scikit-learn expects.

    Examples
    --------
    >>> import numpy as np, mercer
    >>> x = np.linspace(0, 10, 40)
    >>> model = mercer.fit({"x": x, "y": np.sin(x)}, target="y", candidates=["Gaussian process"])
    >>> model.kind_, round(float(model.predict({"x": [1.0]})[0]), 2)
    ('regression', 0.84)
    >>> again = mercer.fit(x[:, None], np.sin(x), candidates=["Gaussian process"])
    >>> round(float(again.predict([[1.0]])[0]), 2)
    0.84
    """
    column = group if isinstance(group, (str, int, np.integer)) else None
    groups = group if column is None else None
    given: Any = {"candidates": candidates, "kernel": kernel, "time_budget": time_budget}
    given |= {"random_state": seed, "progress": progress, "single": single}
    if not isinstance(target, str):
        if features is not None or isinstance(weights, str):
            raise TypeError("features and weights are names of columns: give target as a name, too")
        quantity = is_quantity(as_frame({"y": target}), "y", kind)
        made: Any = TableRegressor if quantity else TableClassifier
        model = made(**given, group=column, time=time)
        return model.fit(table, target, sample_weight=weights, groups=groups)  # type: ignore[no-any-return]  # self
    frame = as_frame(table)
    column, moment = column_of(frame, column), column_of(frame, time)
    quantity = target not in frame.columns or is_quantity(frame, target, kind)
    made = TableRegressor if quantity else TableClassifier
    roles = Roles(target, features, weights, column, moment, kind)
    return made(**given, group=column, time=moment)._fit_table(frame, roles, groups)  # type: ignore[no-any-return]  # self
