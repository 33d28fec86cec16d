"""Predictions for rows that come in blocks: of a Dask collection lazily, of files block by block.

A chunk of a Dask collection becomes a chunk of the answer when it is asked for, wherever Dask
computes it. Files, mapped arrays and a BlockTable are read here, and the answer is an array of
NumPy; their score needs sums alone.
"""

from __future__ import annotations

from copy import copy
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import as_columns
from mercer.estimators.blocks.facts import read_block_labels
from mercer.estimators.blocks.table import BlockTable
from mercer.linalg.blocks.engine import Part, RowBlock


def asked(machine: Any, name: str, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what a method of the fitted machine says of all rows of a table in blocks."""
    check_is_fitted(machine)
    if name == "score":
        return _score(machine, BlockTable.of(X, *args, **kwargs))
    if kwargs.get("return_cov"):
        raise ValueError("the covariance of all rows is no matter of blocks: ask for return_std")
    given = X.X if isinstance(X, BlockTable) else X
    kind = type(given).__module__.partition(".")[0]
    if kind in ("dask", "dask_expr"):
        return _lazy(machine, name, given, args, kwargs)
    table = BlockTable.of(X)
    engine, _ = table.opened(_columns(machine, table))
    told = {"machine": _without_names(machine), "name": name, "args": args, "kwargs": kwargs}
    with engine:
        return _joined([part["answer"] for part in engine.each(_answered, told)])


def _columns(machine: Any, table: BlockTable) -> Any:
    """Return which columns a model wants, by name; None where it does not know."""
    names = getattr(machine, "feature_names_in_", None)
    if table.columns is not None or names is None:
        return table.columns
    return None if isinstance(table.X, np.ndarray) else [str(name) for name in names]


def _without_names(machine: Any) -> Any:
    """Return the machine for columns that are in its order, which arrays do not say."""
    plain = copy(machine)
    vars(plain).pop("feature_names_in_", None)
    return plain


def _answered(block: RowBlock, told: Part) -> Part:
    """Answer for the rows of one block."""
    method = getattr(told["machine"], told["name"])
    return {"answer": method(block.X, *told["args"], **told["kwargs"])}


def _joined(parts: list[Any]) -> Any:
    """Return the answers of all blocks as one: arrays, or pairs of them."""
    if not parts:
        raise ValueError("Found array with 0 sample(s): the table has no rows")
    if isinstance(parts[0], tuple):
        return tuple(_joined([part[i] for part in parts]) for i in range(len(parts[0])))
    return None if parts[0] is None else np.concatenate(parts)


# ---------------------------------------------------------------------- Dask
def _lazy(machine: Any, name: str, X: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the answer as arrays of Dask, a chunk for each chunk (or partition) of X."""
    da: Any = import_module("dask.array")
    delayed: Any = import_module("dask.delayed").delayed

    d = machine.n_features_in_
    frame = not isinstance(X, da.Array)
    if frame:
        names = getattr(machine, "feature_names_in_", None)
        if names is not None:
            missing = [str(n) for n in names if n not in X.columns]
            if missing:
                raise ValueError(f"the table has no column {missing[0]!r}, an input of the model")
            X = X[list(names)]
        chunks, sizes = X.to_delayed(), [np.nan] * X.npartitions
        width = len(X.columns)
    else:
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got an array of {X.ndim} dimensions")
        X = X.rechunk({1: -1})
        chunks, sizes, width = X.to_delayed().ravel(), X.chunks[0], X.shape[1]
    if width != d:
        raise ValueError(f"X has {width} features, but {type(machine).__name__} expects {d}")
    plain = _without_names(machine)
    example = getattr(plain, name)(_one_row(plain, d), *args, **kwargs)
    told = delayed(_of_chunk, pure=False)
    held = delayed(plain, traverse=False)
    answers = [told(held, name, chunk, args, kwargs) for chunk in chunks]

    def arrays(example: Any, place: int | None) -> Any:
        if example is None:
            return None
        pairs = zip(answers, sizes, strict=True)
        parts = [
            da.from_delayed(
                answer if place is None else answer[place],
                shape=(size, *example.shape[1:]),
                meta=example[:0],
            )
            for answer, size in pairs
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)

    if isinstance(example, tuple):
        return tuple(arrays(one, i) for i, one in enumerate(example))
    return arrays(example, None)


def _of_chunk(machine: Any, name: str, chunk: Any, args: Any, kwargs: Any) -> Any:
    """Answer for the rows of one chunk, an array or a frame; of none of them an empty answer."""
    rows = np.asarray(chunk, dtype=np.float64)
    if not len(rows):
        found = getattr(machine, name)(_one_row(machine, rows.shape[1]), *args, **kwargs)
        return tuple(a[:0] for a in found) if isinstance(found, tuple) else found[:0]
    return getattr(machine, name)(rows, *args, **kwargs)


def _one_row(machine: Any, d: int) -> Any:
    """Return a row (1, d) at which the machine can be asked: a point of its own."""
    points = getattr(machine.posteriors_[0], "points", None)
    if points is None or points.shape[1:] != (d,) or not len(points):
        return np.zeros((1, d))
    units = getattr(machine, "units_", None)
    return points[:1] if units is None else units.in_user_units(points[:1])


# ---------------------------------------------------------------------- score
def _score(machine: Any, table: BlockTable) -> float:
    """Return the accuracy, or R^2 (the mean of those of several targets), from sums."""
    if table.y is None:
        raise ValueError("y is missing: name the column with the targets, score(table, 'price')")
    if hasattr(machine, "levels_"):
        raise ValueError("the score of quantiles needs those of all targets: read the rows first")
    engine, _ = table.opened(_columns(machine, table))
    told = {"machine": _without_names(machine)}
    with engine:
        if isinstance(machine, ClassifierMixin):
            sums = engine.map_sum(_right, told)
            return float(sums["right"] / sums["weight"])
        found = engine.map_merge(_misfit, told, _merged_misfit)
    # as scikit-learn: a target without any spread is met, or it is not
    spread = found["squares"] > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        met = np.where(found["misfit"] == 0.0, 1.0, 0.0)
        each = np.where(spread, 1.0 - found["misfit"] / found["squares"], met)
    return float(each.mean())


def _right(block: RowBlock, told: Part) -> Part:
    guessed = told["machine"].predict(block.X)
    same = guessed == read_block_labels(block.y)
    return {"right": float(block.w @ same), "weight": float(block.w.sum())}


def _misfit(block: RowBlock, told: Part) -> Part:
    y, f = as_columns(block.y), as_columns(told["machine"].predict(block.X))
    total = float(block.w.sum())
    mean = block.w @ y / total if total else np.zeros(y.shape[1])
    return {
        "weight": total,
        "mean": mean,
        "squares": block.w @ (y - mean) ** 2,
        "misfit": block.w @ (y - f) ** 2,
    }


def _merged_misfit(left: Part, right: Part) -> Part:
    total = left["weight"] + right["weight"]
    share = right["weight"] / total if total else 0.0
    apart = right["mean"] - left["mean"]
    return {
        "weight": total,
        "mean": left["mean"] + share * apart,
        "squares": left["squares"] + right["squares"] + left["weight"] * share * apart**2,
        "misfit": left["misfit"] + right["misfit"],
    }
