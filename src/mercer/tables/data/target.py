"""Target: what is predicted, a quantity or a class, and which rows have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.tables.data.columns import Column, hint
from mercer.tables.data.frame import Frame, objects
from mercer.tables.data.structure import RowStructure

KINDS = ("regression", "classification")
MOST = 500  # classes at most
LISTED = 8  # classes that a note names
FEW = 20  # different whole numbers that may be classes, if each comes five times on average
FIRST = 1000  # rows that are looked at before all are
SAME = 1e-12  # 1 - r^2 of a copy


@dataclass(frozen=True)
class Target:
    """The target column, and how often each row counts."""

    name: str
    kind: str  # "regression", "binary", "multiclass" or "partly"
    values: Array  # (n,) the quantity, NaN where missing, or the code of the class, -1 there
    classes: NDArray[Any] | None = None  # (k,) the labels, sorted; None for a quantity
    notes: list[str] = field(default_factory=list)
    weights: Array | None = None  # (n,); None: once
    structure: RowStructure | None = None  # which rows are left out together

    def take(self, rows: Any) -> Target:
        """Return the target of some rows."""
        own = replace(self, values=self.values[rows], weights=self.counts(rows))
        return replace(own, structure=self.structure_of(rows))

    def structure_of(self, rows: Any) -> RowStructure | None:
        """Return the structure of some rows; None if each stands for itself."""
        return None if self.structure is None else self.structure.take(rows)

    def counts(self, rows: Any) -> Array | None:
        """Return how often some rows count, None if every row counts once."""
        return None if self.weights is None else self.weights[rows]

    @property
    def k(self) -> int:
        """The number of classes, 0 of a quantity."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a target, (n,)."""
        return np.isfinite(self.values) if self.classes is None else self.values >= 0

    def labels(self, rows: Any = slice(None)) -> Any:
        """Return the targets of rows (default: all) as a machine wants them; None for no label."""
        if self.classes is None:
            return self.values[rows]
        codes = self.values[rows].astype(np.intp)
        if np.all(codes >= 0):
            return self.classes[codes]
        return objects(None if c < 0 else self.classes[c] for c in codes)


def is_quantity(frame: Frame, name: str, kind: str | None = None) -> bool:
    """Whether a column is a quantity, and not classes: as ``kind`` says, or as its values do."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind must be None, 'regression' or 'classification', not {kind!r}")
    if kind is not None:
        return kind == "regression"
    column, absent = frame.columns[name], frame.missing(name)
    return frame.kind(name) == "number" and len(np.unique(column[~absent])) != 2


def read_target(frame: Frame, name: str, kind: str | None = None) -> Target:
    """Return the target; ``kind`` "regression" or "classification" where the data mislead.

    Text, truth values and two different numbers are classes; other numbers are a quantity. Rows
    without a class are kept as partly labelled, rows without a quantity are of no use.
    """
    quantity = is_quantity(frame, name, kind)
    column, absent, stored = frame.columns[name], frame.missing(name), frame.kind(name)
    known = sorted(set(column[~absent].tolist()))
    lost, what = int(absent.sum()), f"the target '{shown(name)}'"
    if not known:
        raise ValueError(f"{what} has no value in any row")
    if stored == "date":
        raise ValueError(f"{what} holds dates: turn them into a number of days, or into classes")
    if quantity:
        if stored != "number":
            advice = hint(v for v in known if isinstance(v, str)) or "no quantity"
            raise ValueError(f"{what} holds text, such as '{shown(known[0], 30)}': {advice}")
        if len(known) < 2:
            raise ValueError(f"{what} has the same value in every row: there is nothing to learn")
        notes = [f"{lost} rows have no value of {what} and were left out"] if lost else []
        few = len(known) <= (FEW if len(column) - lost >= 5 * len(known) else FEW // 2)
        if kind is None and few and all(float(v).is_integer() for v in known):
            notes.append(
                f"{what} has {len(known)} different whole numbers and was taken for a quantity; if "
                'they name classes, ask for classification: kind="classification", or in the '
                "command --kind classification"
            )
        return Target(name, "regression", column, None, notes)
    return _classes(name, column, absent, known, lost)


def copies_of(frame: Frame, columns: Sequence[Column], target: Target) -> list[str]:
    """Name the inputs that say the same as the target: equal but for scale and shift, or names."""
    found = []
    for column in columns:
        there = target.known & ~frame.missing(column.name)
        if column.used and there.sum() >= 5:
            x, y = frame.columns[column.name][there], target.values[there]
            same = _renamed(x, y) if target.k or x.dtype == object else _straight(x, y)
            found += [f"'{shown(column.name)}'"] if same else []
    if not found:
        return []
    what = f"column {found[0]} says" if len(found) == 1 else f"columns {', '.join(found)} say"
    return [
        f"{what} the same as the target '{shown(target.name)}' in every row: if new rows do not "
        "have it before the target is known, leave it out (features, or --features)"
    ]


def _listed(names: list[str]) -> str:
    """Return the first of some classes, and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(shown(name, 30) for name in names[:LISTED]) + more


def _straight(x: Array, y: Array) -> bool:
    """Whether two numbers lie on a line in every row."""
    a, b = x - x.mean(), y - y.mean()
    aa, bb, ab = float(a @ a), float(b @ b), float(a @ b)
    return aa > 0.0 < bb and abs(aa * bb - ab * ab) <= SAME * aa * bb


def _renamed(x: Any, y: Array) -> bool:
    """Whether every value of x belongs to one of y, and the reverse."""
    for rows in (slice(FIRST), slice(None)):  # some rows answer for most columns
        a, b = x[rows].tolist(), y[rows].tolist()
        pairs, left = set(zip(a, b, strict=True)), set(a)
        if not len(pairs) == len(left) == len(set(b)):
            return False
    return 1 < len(pairs) < len(x)


def _classes(name: str, column: Any, absent: Any, known: list[Any], lost: int) -> Target:
    what = f"the target '{shown(name)}'"
    if len(known) < 2:
        raise ValueError(f"{what} has one class only: at least two are needed")
    count = len(column) - lost
    if len(known) > MOST or 2 * len(known) > count + 2:
        texts = [v for v in known if isinstance(v, str)]
        example = f", such as '{shown(texts[0], 30)}'" if texts else ""
        remedy = hint(texts) or "choose another target" if texts else "ask for regression"
        raise ValueError(
            f"{what} has {len(known)} different values in {count} rows{example}: too many for "
            f"classes; {remedy}"
        )
    if isinstance(known[0], float) and not all(v.is_integer() for v in known):
        # scikit-learn takes fractions for a quantity: as classes they are words
        column = np.array([str(v) for v in column.tolist()], dtype=object)
        known = sorted(str(v) for v in known)
    labels = np.array([int(v) if isinstance(v, float) else v for v in known])
    place = {value: code for code, value in enumerate(known)}
    codes = np.array(
        [-1.0 if gone else place[v] for v, gone in zip(column.tolist(), absent, strict=True)]
    )
    partly = f"{lost} rows have no label; machines for partly labelled rows learn from them"
    notes = [partly] if lost else []
    counts = np.bincount(codes[codes >= 0].astype(np.intp))
    single = [str(v) for v, c in zip(known, counts, strict=True) if c == 1]
    rare = [str(v) for v, c in zip(known, counts, strict=True) if 1 < c < 5]
    if single:
        notes.append(
            f"one row alone of the class {_listed(single)}: predicted from the other rows such a "
            "class is always missed; give it more rows, join it with another, or leave it out"
        )
    if rare:
        notes.append(f"fewer than five rows of the class {_listed(rare)}")
    kind = "partly" if lost else "binary" if len(known) == 2 else "multiclass"
    return Target(name, kind, codes, labels, notes)
