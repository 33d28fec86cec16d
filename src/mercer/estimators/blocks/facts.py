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

from mercer.core.arrays import Array, Index, as_columns
from mercer.estimators.shared.table import check_target
from mercer.linalg.blocks.engine import Engine, Part, RowBlock
from mercer.losses.base import Loss

EACH = 32  # rows of every class that are drawn at least, if it has as many
MOST_CLASSES = 4096


@dataclass(frozen=True)
class Sample:
    """Rows drawn at random, those with the smallest keys, in the order of the keys."""

    X: Array  # (s, d)
    y: NDArray[Any]  # (s,) or (s, m)
    w: Array  # (s,) how much each counts


@dataclass(frozen=True)
class Moments:
    """Weights, means and sums of squares of columns in each of g groups of rows."""

    weight: Array  # (g,)
    mean: Array  # (g, d)
    squares: Array  # (g, d) about these means
    top: Array  # (d,) the largest absolute values
    what: str  # in errors

    def location_scale(
        self, factors: Array | None = None
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return mean and deviation of all rows, and which columns vary; (d,) each.

        The rows of a group count ``factors`` (g,) times. A constant column is its own scale, as
        :func:`mercer.core.arrays.location_scale` has it.
        """
        w = self.weight if factors is None else self.weight * factors
        scaled = np.ones(len(w)) if factors is None else factors
        with np.errstate(over="ignore", invalid="ignore"):
            mean = w @ self.mean / w.sum()
            squares = scaled @ self.squares + w @ (self.mean - mean) ** 2
            deviation = np.sqrt(squares / w.sum())
        top = np.where(self.top > 0.0, self.top, 1.0)
        if not np.all(np.isfinite(deviation)):
            column = int(np.flatnonzero(~np.isfinite(deviation))[0])
            raise ValueError(
                f"column {column} of {self.what} reaches {top[column]:.3g}: its squares leave the "
                "range of floating-point numbers; give it in other units"
            )
        varies = deviation > 8.0 * np.finfo(float).eps * top
        return mean, np.where(varies, deviation, top), varies


@dataclass(frozen=True)
class TableFacts:
    """What is true of all rows of a table."""

    rows: int
    used: int  # of positive weight
    weight: float
    x: Moments  # of the columns, in each class
    y: Moments  # of the targets; without columns for labels
    y_log: Array  # (m,) the mean of log y; NaN unless all are positive
    classes: NDArray[Any]  # (k,) the labels, sorted; empty for numbers
    counts: Array  # (k,) the weight of each class; of numbers (1,)
    sample: Sample

    @property
    def y_top(self) -> float:
        """The largest absolute value of a target."""
        return float(np.max(self.y.top, initial=0.0))


@dataclass(frozen=True)
class Targets:
    """Numbers (b, m) as a loss wants them; it can be pickled."""

    loss: Loss

    def __call__(self, y: Array) -> Array:
        """Return the targets (b, m), or refuse them."""
        return as_columns(self.loss.check_targets(y))


def find_facts(
    engine: Engine, *, labels: bool, rows: int, seed: int, read: Any = None
) -> TableFacts:
    """Return the facts of a table in one pass, with a sample of ``rows`` rows.

    ``labels``: whether the targets are classes; ``read`` is what the loss makes of numbers. What
    cannot be a target is refused with block and row, as readers refuse what is missing.
    """
    told = {"labels": labels, "rows": rows, "seed": seed, "read": read}
    found = engine.map_merge(_block_facts, told, _merged_facts)
    if not found["n"]:
        raise ValueError("Found array with 0 sample(s): the table has no rows")
    if not found["weight"] > 0.0:
        raise ValueError("all sample weights are zero: nothing is left to learn from")
    if labels and len(found["classes"]) < 2:
        only = found["classes"].tolist()[0]
        raise ValueError(
            f"y has only one class, {only!r}: a classifier needs rows of at least two classes"
        )
    return TableFacts(
        int(found["n"]),
        int(found["used"]),
        float(found["weight"]),
        _moments_of(found, "x", "X"),
        _moments_of(found, "y", "the targets"),
        np.asarray(found["y_log"]),
        found["classes"],
        found["counts"],
        Sample(found["sample_x"], found["sample_y"], found["sample_w"]),
    )


def _moments_of(found: Part, of: str, what: str) -> Moments:
    return Moments(
        found["counts"], found[f"{of}_mean"], found[f"{of}_squares"], found[f"{of}_top"], what
    )


# ---------------------------------------------------------------------- one block
def _block_facts(block: RowBlock, told: Part) -> Part:
    """Answer with everything that :class:`TableFacts` asks of one block."""
    X, w = block.X, block.w
    keep = w > 0.0
    found: Part = {"n": len(X), "used": int(keep.sum()), "weight": float(w.sum())}
    codes, groups = np.zeros(len(X), dtype=np.intp), 1
    if told["labels"]:
        y = read_block_labels(block.y)
        classes, codes = np.unique(y, return_inverse=True)
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
        groups = len(classes)
        found |= {"classes": classes, "y_log": np.zeros(0)}
        found |= _moments(np.zeros((len(X), 0)), w, codes, groups, "y")
    else:
        check_target(block.y)
        y = np.asarray(block.y)
        numbers = as_columns(y)
        y = numbers if y.ndim > 1 else numbers[:, 0]
        seen = numbers if told["read"] is None else told["read"](numbers)
        found |= _moments(numbers, w, codes, groups, "y") | {"classes": np.zeros(0)}
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(seen[keep])
        found["y_log"] = w[keep] @ logs / max(found["weight"], 1e-300)
    found |= _moments(X, w, codes, groups, "x") | {"counts": np.bincount(codes, w, groups)}
    drawn = np.flatnonzero(keep)
    key = np.random.Generator(np.random.Philox(key=[told["seed"], block.number])).random(len(X))
    rows = {"key": key[drawn], "x": X[drawn], "y": y[drawn], "w": w[drawn]}
    most = {"most": told["rows"], "each": EACH if told["labels"] else 0}
    return found | most | _smallest(rows, **most)


def read_block_labels(y: Any) -> NDArray[Any]:
    """Return labels (b,) of one kind: text, or numbers; refuse what is mixed."""
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array of labels, got an array of shape {values.shape}")
    if values.dtype.kind == "O":
        given = values.tolist()
        kinds = {isinstance(v, str) for v in given}
        if len(kinds) > 1:
            raise TypeError("labels are text in some rows and numbers in others: make them alike")
        return np.array(given) if given else np.zeros(0)
    return values


def _moments(A: Array, w: Array, codes: Index, groups: int, of: str) -> Part:
    """Weighted means, sums of squares about them, and largest absolute values of columns (b, d)."""
    mean, squares = np.zeros((2, groups, A.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for g in range(groups):
            own = codes == g if groups > 1 else slice(None)
            total = float(w[own].sum())
            if total:
                mean[g] = w[own] @ A[own] / total
                squares[g] = w[own] @ (A[own] - mean[g]) ** 2
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
    found: Part = {name: left[name] + right[name] for name in ("n", "used", "weight")}
    classes, places = _all_classes(left, right)
    a, b = (_spread(p["counts"], at, classes) for p, at in zip((left, right), places, strict=True))
    counts = a + b
    share = np.divide(b, counts, out=np.zeros(len(counts)), where=counts > 0.0)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        for of in ("x", "y"):
            (m, s), (r, t) = (
                (_spread(p[f"{of}_mean"], at, classes), _spread(p[f"{of}_squares"], at, classes))
                for p, at in zip((left, right), places, strict=True)
            )
            found[f"{of}_mean"] = m + share * (r - m)
            found[f"{of}_squares"] = s + t + a[:, None] * share * (r - m) ** 2
            found[f"{of}_top"] = np.maximum(left[f"{of}_top"], right[f"{of}_top"])
        later = right["weight"] / found["weight"] if found["weight"] else 0.0
        found["y_log"] = left["y_log"] + later * (right["y_log"] - left["y_log"])
    found |= {"counts": counts, "classes": classes}
    names = ("key", "x", "y", "w")
    rows = {m: np.concatenate([left[f"sample_{m}"], right[f"sample_{m}"]]) for m in names}
    most = {"most": left["most"], "each": left["each"]}
    return found | most | _smallest(rows, **most)


def _all_classes(left: Part, right: Part) -> tuple[NDArray[Any], list[Index]]:
    """Return the labels of two neighbours, and where those of each are among them."""
    both = [one["classes"] for one in (left, right)]
    held = [c for c in both if len(c)]
    if not held:
        return both[0], [np.zeros(len(one["counts"]), dtype=np.intp) for one in (left, right)]
    if len({c.dtype.kind in "UT" for c in held}) > 1:
        raise TypeError("labels are text in some blocks and numbers in others: make them alike")
    classes = np.unique(np.concatenate(held))
    if len(classes) > MOST_CLASSES:
        raise ValueError(
            f"y has more than {MOST_CLASSES} classes: a quantity wants a regressor, and so many "
            "classes fewer names"
        )
    return classes, [np.searchsorted(classes, c) for c in both]


def _spread(values: Array, at: Index, classes: NDArray[Any]) -> Array:
    """Return values of some groups (g, ...) at their places among all; others have nothing."""
    found = np.zeros((max(1, len(classes)), *values.shape[1:]))
    found[at] = values
    return found
