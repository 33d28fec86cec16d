"""Inputs of a stream: columns of numbers, and columns of words that become indicators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer.app.csvfile import parse_number
from mercer.app.errors import AppError, shown
from mercer.app.stream_texts import label_of
from mercer.app.tables import Table
from mercer.arrays import Array

FEW = 20  # different words that are groups in any table; more must come twice each, on average


def word_columns(table: Table, names: Sequence[str]) -> list[str]:
    """Return those of the named columns whose cells are words, mostly; the others are numbers."""
    found = []
    for name in names:
        column = table.columns[name]
        known = [] if isinstance(column, np.ndarray) else [v for v in column if label_of(v)]
        if 2 * sum(parse_number(v) is not None for v in known) >= len(known):
            continue
        different = len({label_of(v) for v in known})
        if different > max(FEW, len(known) // 2):
            raise AppError(
                f"{table.path}: column '{shown(name)}' has {different} different texts in "
                f"{len(known)} rows, which name rows, not groups; choose the columns with "
                "--features"
            )
        found.append(name)
    return found


def read_inputs(table: Table, names: Sequence[str], words: Sequence[str]) -> tuple[Any, Any]:
    """Return (X, gaps): the columns (n, d), and (n, d) NaN where a number is missing, else 0.

    X is float64, or objects if there are words; a word that is missing is the empty word.
    """
    numbers = [name for name in names if name not in words]
    values = table.numbers(numbers)
    if not words:
        return values, values
    X = np.empty((len(table.places), len(names)), dtype=object)
    gaps = np.zeros(X.shape)
    for j, name in enumerate(names):
        if name in words:
            X[:, j] = [label_of(value) or "" for value in table.columns[name]]
        else:
            X[:, j] = values[:, numbers.index(name)]
            gaps[:, j] = np.where(np.isnan(values[:, numbers.index(name)]), np.nan, 0.0)
    return X, gaps


def with_words(model: Any, names: Sequence[str], words: Sequence[str]) -> Any:
    """Return the unfitted model behind an encoder: numbers standardised, an indicator each word."""
    machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(machine, mercer.OnlineLogisticClassifier):
        machine.set_params(standardize=False)  # a rare word would be far from all others
    where: dict[bool, list[int]] = {True: [], False: []}
    for j, name in enumerate(names):
        where[name in words].append(j)
    indicators = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps: list[Any] = [("words", indicators, where[True])]
    if where[False]:
        steps.insert(0, ("numbers", StandardScaler(), where[False]))
    front = ColumnTransformer(steps, sparse_threshold=0.0)
    return Pipeline([("columns", front), ("machine", machine)])


def warn_of_new_words(model: Any, X: Array, names: Sequence[str]) -> None:
    """Say which columns of X (b, d) have words without an indicator."""
    front = model.steps[0][1] if isinstance(model, Pipeline) else None
    if not isinstance(front, ColumnTransformer):
        return
    for _, step, where in front.transformers_:
        for j, known in zip(where, getattr(step, "categories_", ()), strict=False):
            if not set(X[:, j]) <= set(known):
                warnings.warn(
                    f"column '{shown(names[j])}' has words that the first batch did not have: "
                    "they count as none of the others; a longer --batch knows more of them",
                    UserWarning,
                    stacklevel=2,
                )
