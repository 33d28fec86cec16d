"""The first pass over a table: what a fit must know of all rows, and some of them to learn from.

Moments are merged pairwise (Chan, Golub and LeVeque 1983), labels by their sorted union. The sample
is exact: every row of positive weight has a random key, which depends on the seed, the number of
its block and its place there, and the rows with the smallest keys are drawn. So the same rows come
out whoever reads the blocks, and in whatever order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from mercer.core.arrays import Array, as_columns
from mercer.estimators.shared.table import check_finite, check_target
from mercer.linalg.blocks.engine import Engine, Part, RowBlock

EACH = 32  # rows of every class that are drawn at least, if it has as many
MOST_CLASSES = 4096


@dataclass(frozen=True)
class Sample:
    """Rows drawn at random, those with the smallest keys, in the order of the keys."""

    X: Array  # (s, d)
    y: NDArray[Any]  # (s,) or (s, m)
    w: Array  # (s,) how much each counts


@dataclass(frozen=True)
class Facts:
    """What is true of all rows of a table."""

    rows: int
    used: int  # of positive weight
    weight: float
    x_shift: Array  # (d,) the mean of each column
    x_scale: Array  # (d,) its deviation, as :func:`mercer.core.arrays.location_scale` has it
    varies: NDArray[np.bool_]  # (d,) whether a column has more than one value
    y_shift: Array  # (m,) the same for the targets; empty for labels
    y_scale: Array
    y_log: Array  # (m,) the mean of log y; NaN unless all are positive
    y_top: float  # the largest absolute value
    classes: NDArray[Any]  # (k,) the labels, sorted; empty for numbers
    counts: Array  # (k,) the weight of each class
    sample: Sample


def find_facts(
    engine: Engine, *, labels: bool, names: Any, rows: int, seed: int, read: Any = None
) -> Facts:
    """Return the facts of a table in one pass, with a sample of ``rows`` rows.

    ``labels``: whether the targets are classes; ``read`` is what the loss makes of numbers. Values
    that are missing, or of the wrong kind, are refused with block and row.
    """
    told = {"labels": labels, "names": names, "rows": rows, "seed": seed, "read": read}
    found = engine.map_merge(_block_facts, told, _merged_facts)
    if found["trouble"]:
        before, error = found["before"], TypeError if found["type"] else ValueError
        raise error(
            f"{found['trouble']} (rows are counted in block {found['block']}, whose first row is "
            f"row {before} of the table)"
        )
    if not found["weight"] > 0.0:
        if found["n"]:
            raise ValueError("all sample weights are zero: nothing is left to learn from")
        raise ValueError("Found array with 0 sample(s): the table has no rows")
    x_shift, x_scale, varies = _location(found, "x")
    y_shift, y_scale, _ = _location(found, "y")
    if labels and len(found["classes"]) < 2:
        only = found["classes"].tolist()[0]
        raise ValueError(
            f"y has only one class, {only!r}: a classifier needs rows of at least two classes"
        )
    return Facts(
        int(found["n"]),
        int(found["used"]),
        float(found["weight"]),
        x_shift,
        x_scale,
        varies,
        y_shift,
        y_scale,
        np.asarray(found["y_log"]),
        float(np.max(found["y_top"], initial=0.0)),
        found["classes"],
        found["counts"],
        Sample(found["sample_x"], found["sample_y"], found["sample_w"]),
    )


def _location(found: Part, of: str) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Mean and deviation of columns, and which of them vary; a constant one is its own scale."""
    mean, top = found[f"{of}_mean"], found[f"{of}_top"]
    top = np.where(top > 0.0, top, 1.0)
    deviation = np.sqrt(found[f"{of}_squares"] / found["weight"])
    if not np.all(np.isfinite(deviation)):
        column = int(np.flatnonzero(~np.isfinite(deviation))[0])
        what = f"column {column} of X" if of == "x" else "the targets"
        raise ValueError(
            f"{what} reaches {top[column]:.3g}: squares leave the range of floating-point numbers; "
            "give it in other units"
        )
    varies = deviation > 8.0 * np.finfo(float).eps * top
    return mean, np.where(varies, deviation, top), varies


# ---------------------------------------------------------------------- one block
def _block_facts(block: RowBlock, told: Part) -> Part:
    """Answer with everything that :class:`Facts` asks of one block."""
    try:
        return _healthy(block, told)
    except (ValueError, TypeError) as error:
        said = {"trouble": str(error), "type": int(isinstance(error, TypeError)), "before": 0}
        return {"n": len(block.X), "block": block.number, **said}


def _healthy(block: RowBlock, told: Part) -> Part:
    X, w = block.X, _checked_weights(block.w)
    check_finite(X, "X", told["names"])
    keep = w > 0.0
    found: Part = {"n": len(X), "used": int(keep.sum()), "weight": float(w.sum()), "trouble": ""}
    found |= _moments(X, w, "x")
    if told["labels"]:
        y = read_block_labels(block.y)
        classes, codes = np.unique(y, return_inverse=True)
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
        found |= {"classes": classes, "counts": np.bincount(codes, w, len(classes))}
        found |= _moments(np.zeros((len(X), 0)), w, "y") | {"y_log": np.zeros(0)}
    else:
        check_target(block.y)
        y = np.asarray(block.y)
        numbers = as_columns(y)
        y = numbers if y.ndim > 1 else numbers[:, 0]
        seen = numbers if told["read"] is None else told["read"](numbers)
        found |= _moments(numbers, w, "y") | {"classes": np.zeros(0), "counts": np.zeros(0)}
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(as_columns(seen)[keep])
        found["y_log"] = w[keep] @ logs / max(found["weight"], 1e-300)
    drawn = np.flatnonzero(keep)
    key = np.random.Generator(np.random.Philox(key=[told["seed"], block.number])).random(len(X))
    rows = {"key": key[drawn], "x": X[drawn], "y": y[drawn], "w": w[drawn]}
    most = {"most": told["rows"], "each": EACH if told["labels"] else 0}
    return found | most | _smallest(rows, **most)


def read_block_labels(y: Any) -> NDArray[Any]:
    """Return labels (b,) of one kind: text, or numbers; refuse what is missing or mixed."""
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array of labels, got an array of shape {values.shape}")
    if values.dtype.kind == "O":
        given = values.tolist()
        missing = [i for i, v in enumerate(given) if v is None or v != v]
        if missing:
            raise ValueError(f"Input y has no label in row {missing[0]}: drop these rows")
        kinds = {isinstance(v, str) for v in given}
        if len(kinds) > 1:
            raise TypeError("labels are text in some rows and numbers in others: make them alike")
        return np.array(given) if given else np.zeros(0)
    if values.dtype.kind == "f":
        check_finite(values, "y")
    return values


def _checked_weights(w: Array) -> Array:
    wrong = np.flatnonzero(~np.isfinite(w) | (w < 0.0))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"sample_weight must be finite and not negative; row {row} has {w[row]}")
    return w


def _moments(A: Array, w: Array, of: str) -> Part:
    """Weighted mean, sum of squares about it, and largest absolute value of columns (b, d)."""
    total = float(w.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = w @ A / total if total else np.zeros(A.shape[1])
        squares = w @ (A - mean) ** 2
    top = np.abs(A[w > 0.0]).max(axis=0, initial=0.0)
    return {f"{of}_mean": mean, f"{of}_squares": squares, f"{of}_top": top}


def _smallest(rows: dict[str, Any], most: int, each: int) -> Part:
    """Keep the rows with the ``most`` smallest keys, and of every label the ``each`` smallest."""
    order = np.argsort(rows["key"], kind="stable")
    keep = np.arange(len(order)) < most
    if each and len(order) > most:
        codes = np.unique(rows["y"][order], return_inverse=True)[1]
        grouped = np.argsort(codes, kind="stable")
        first = np.searchsorted(codes[grouped], codes)
        place = np.empty(len(codes), dtype=np.intp)
        place[grouped] = np.arange(len(codes))
        keep |= place - first < each
    chosen = order[keep]
    return {f"sample_{name}": values[chosen] for name, values in rows.items()}


# ---------------------------------------------------------------------- two of them
def _merged_facts(left: Part, right: Part) -> Part:
    """Return the facts of two neighbours."""
    n = left["n"] + right["n"]
    for one, before in ((left, 0), (right, left["n"])):
        if one["trouble"]:
            said = {name: one[name] for name in ("trouble", "type", "block")}
            return {"n": n, "before": before + one["before"], **said}
    weight = left["weight"] + right["weight"]
    found: Part = {"n": n, "used": left["used"] + right["used"], "weight": weight, "trouble": ""}
    share = right["weight"] / weight if weight else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for of in ("x", "y"):
            a, b = left[f"{of}_mean"], right[f"{of}_mean"]
            apart = left["weight"] * share * (b - a) ** 2
            found[f"{of}_mean"] = a + share * (b - a)
            found[f"{of}_squares"] = left[f"{of}_squares"] + right[f"{of}_squares"] + apart
            found[f"{of}_top"] = np.maximum(left[f"{of}_top"], right[f"{of}_top"])
        found["y_log"] = left["y_log"] + share * (right["y_log"] - left["y_log"])
    try:
        found |= _all_classes(left, right)
    except (TypeError, ValueError) as error:
        return {"n": n, "before": left["n"], "block": -1, "type": 1, "trouble": str(error)}
    names = ("key", "x", "y", "w")
    rows = {m: np.concatenate([left[f"sample_{m}"], right[f"sample_{m}"]]) for m in names}
    most = {"most": left["most"], "each": left["each"]}
    return found | most | _smallest(rows, **most)


def _all_classes(left: Part, right: Part) -> Part:
    """Return the labels of two neighbours and their counts."""
    both = [one["classes"] for one in (left, right)]
    if len({c.dtype.kind in "UT" for c in both if len(c)}) > 1:
        raise TypeError("labels are text in some blocks and numbers in others: make them alike")
    held = [c for c in both if len(c)] or both[:1]
    classes, at = np.unique(np.concatenate(held), return_inverse=True)
    if len(classes) > MOST_CLASSES:
        raise ValueError(
            f"y has more than {MOST_CLASSES} classes: a quantity wants a regressor, and so many "
            "classes fewer names"
        )
    counts = np.bincount(at, np.concatenate([left["counts"], right["counts"]]), len(classes))
    return {"classes": classes, "counts": counts}
