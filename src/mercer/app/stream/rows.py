"""The rows of a stream: batches from files or a pipe, their inputs and their labels as text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer.app.terminal import AppError, quoted, shown
from mercer.core.arrays import Array
from mercer.tables.files import MISSING, FileTable, read_number

_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")


def text_of(value: object) -> str:
    """Return a label as text; 1.0 is 1, since a column with gaps is often written so.

    Examples
    --------
    >>> text_of(1.0), text_of(" 1.0"), text_of("1.50"), text_of("a ")
    ('1', '1', '1.50', 'a')
    """
    text = (f"{value:.17g}" if isinstance(value, float) else str(value)).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def label_of(value: object) -> str | None:
    """Return the label in a cell of a table, None if it is empty or a word for missing."""
    text = text_of(value)
    return None if text.lower() in MISSING else text


def values_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return the class of each text: whole numbers if all of them are, else the texts.

    Examples
    --------
    >>> values_of(["0", "1"]), values_of(["0", "x"])
    ({'0': 0, '1': 1}, {'0': '0', 'x': 'x'})
    """
    try:
        whole = [int(text) for text in texts]
    except ValueError:
        return {text: text for text in texts}
    same = [str(number) for number in whole] == list(texts)
    return dict(zip(texts, whole if same else texts, strict=True))


FEW = 20  # different words that are groups in any table; more must come twice each, on average


def word_columns(table: FileTable, names: Sequence[str]) -> list[str]:
    """Return those of the named columns whose cells are words, mostly; the others are numbers."""
    found = []
    for name in names:
        column = table.columns[name]
        known = [] if isinstance(column, np.ndarray) else [v for v in column if label_of(v)]
        if 2 * sum(table.number(v) is not None for v in known) >= len(known):
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


def read_inputs(table: FileTable, names: Sequence[str], words: Sequence[str]) -> tuple[Any, Any]:
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
    if isinstance(machine, mercer.OnlineLogisticClassifier | mercer.OnlineRegressor):
        machine.set_params(standardize=False)  # a rare word would be far from all others
    indicators = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps = [
        ("numbers", StandardScaler(), [j for j, name in enumerate(names) if name not in words]),
        ("words", indicators, [j for j, name in enumerate(names) if name in words]),
    ]
    front = ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0.0)
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


@dataclass(frozen=True)
class StreamRows:
    """b rows of a stream."""

    X: Any  # (b, d) inputs, NaN where a number is missing; objects if some are words
    labels: list[str | None]  # None where there is none
    places: list[str]  # such as "data.csv, line 7"
    values: Any = None  # (b,) the targets if they are a quantity, NaN where there is none

    def keep(self, mask: Array) -> StreamRows:
        """Return the rows where the mask (b,) is True."""
        labels = list(compress(self.labels, mask))
        values = None if self.values is None else self.values[mask]
        return StreamRows(self.X[mask], labels, list(compress(self.places, mask)), values)

    def content(self) -> bytes:
        """Return all values, such that other rows have others."""
        words = self.X.dtype == object
        values = repr(self.X.tolist()).encode() if words else self.X.tobytes()
        return b"\0".join([values, *((label or "").encode() for label in self.labels)])

    @property
    def place(self) -> str:
        """Where the batch stands, for messages."""
        first, last = self.places[0], self.places[-1].rpartition(" ")[2]
        return first if len(self.places) == 1 else f"{first} to {last}"


def read_rows(
    table: FileTable,
    target: str,
    names: list[str],
    words: list[str],
    partly: bool,
    drop: bool,
    quantity: bool = False,
) -> tuple[StreamRows, Array]:
    """Return all rows, and a mask (b,) of those to learn from; refuse the others.

    ``words`` are those of the names whose columns are words. Rows without a label are learned from
    if ``partly``; rows with a gap that is not allowed are left out if ``drop``.
    """
    table.check([target], "the target")
    table.check(names, "an input")
    X, gaps = read_inputs(table, names, words)
    keep = table.complete(gaps, names, None if drop else "--drop-missing")
    labels = [label_of(value) for value in table.columns[target]]
    values = table.numbers([target])[:, 0] if quantity else None
    if not partly:
        absent = np.array([label is None for label in labels])
        if absent.any() and not drop:
            raise AppError(
                f"{table.path}, {table.places[int(absent.argmax())]}: column "
                f"'{shown(target)}' has no {'number' if quantity else 'label'}; pass "
                "--drop-missing to leave such rows out"
                + ("" if quantity else ", or --learner lapmed to learn from them too")
            )
        keep = keep & ~absent
    places = [f"{table.path}, {place}" for place in table.places]
    return StreamRows(X, labels, places, values), keep


def input_names(table: FileTable, target: str, features: Sequence[str] | None) -> list[str]:
    """Return the input columns: those given, or all but the target in the first table."""
    table.check([target], "the target")
    names = list(features or [name for name in table.names if name != target])
    table.check(names, "an input")
    if not names:
        raise AppError(f"{table.path} has no column besides {quoted([target])}")
    if target in names or len(set(names)) < len(names):
        raise AppError("an input cannot be named twice, nor be the target too")
    return names


SEVERAL = 10  # different numbers that are a quantity if some of them are fractions


def is_quantity(table: FileTable, target: str) -> bool:
    """Whether the target of a first table is a quantity: numbers, of which many are different.

    More than 30, or more than 10 of which some are fractions.
    """
    table.check([target], "the target")
    column = table.columns[target]
    if isinstance(column, np.ndarray):
        values = np.asarray(column, dtype=np.float64)
    else:
        known = [text for text in column if label_of(text) is not None]
        read = [table.number(text) for text in known]
        numbers = [n.value for n in read if n is not None]
        if 10 * len(numbers) < 9 * len(known):  # a few typing errors do not make it words
            return False
        values = np.array(numbers, dtype=np.float64)
    values = values[np.isfinite(values)]
    different = len(np.unique(values))
    return different > MOST or (different > SEVERAL and bool(np.any(values != np.round(values))))


MOST = 30  # labels of a first batch, from which more than half of its rows is not a class


def check_labels(rows: StreamRows, known: list[str], begun: bool, named: bool = False) -> None:
    """Refuse a stream of fewer than two classes, and a label that is none of those known.

    Unless the classes were ``named``, a first batch whose labels are a quantity is refused, too.
    """
    if len(known) < 2:
        found = f"only the label {quoted(known)}" if known else "no label"
        raise AppError(
            f"{rows.place}: the first batch has {found}: name all classes of the stream with "
            "--classes a,b,..., or make the batches longer with --batch"
        )
    numbers = [read_number(label, thousands="") for label in known]
    fractions = all(v is not None and not v.value.is_integer() for v in numbers)
    many = 2 * len(known) > len(rows.labels) + 2 and (fractions or len(known) > MOST)
    if many and not begun and not named:
        raise AppError(
            f"{rows.place}: the target has {len(known)} different labels in {len(rows.labels)} "
            f"rows, such as '{shown(known[0], 40)}', which is no class; if they are classes, name "
            "them with --classes a,b,..., and if it is a quantity pass --learner regressor"
        )
    for label, place in zip(rows.labels, rows.places, strict=True):
        if label is not None and label not in known:
            remedy = "begin again with" if begun else "pass"
            raise AppError(
                f"{place}: the label '{shown(label, 40)}' is none of the classes {quoted(known)}; "
                f"mend it, or {remedy} all classes of the stream in --classes a,b,..."
            )
