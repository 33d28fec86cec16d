"""What every pass over blocks begins and ends with: rows in the units of a fit, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.inference.base import Report
from mercer.linalg.blocks.engine import RowBlock
from mercer.linalg.operators import PosteriorOperator


class BlockRows(NamedTuple):
    """The rows of a block that count, in the units of the fit."""

    X: Array  # (b, d)
    y: Array  # (b, m) numbers, -1 and +1, or codes of classes in one column
    w: Array  # (b,) how much each counts, above zero
    H: Array | None  # (b, c) the basis

    def among(self, some: slice) -> BlockRows:
        """Return some of the rows."""
        H = None if self.H is None else self.H[some]
        return BlockRows(self.X[some], self.y[some], self.w[some], H)


@dataclass(frozen=True)
class Prepared:
    """Turns a block of the table into rows in the units of a fit; it can be pickled.

    Parameters
    ----------
    x_shift, x_scale : (d,) X is (X - x_shift) / x_scale inside.
    y_shift, y_scale : (m,) the same for the targets, and for the numbers that stand for labels.
    classes : (k,) the labels, sorted; None for numbers.
    coding : of labels "signed" (-1 and +1 for two classes), "rest" (k columns, +1 for the own
        class), or "codes" (0 .. k-1 in one column).
    class_weights : (k,) by which the rows of each class count more, or None.
    basis : h of the inputs in the units of the fit, (b, d) -> (b, c), or None.
    read : what the loss makes of the targets (b, m) as they were given, or None.

    Examples
    --------
    >>> import numpy as np
    >>> prepared = Prepared(np.array([1.0]), np.array([2.0]), classes=np.array(["no", "yes"]))
    >>> block = RowBlock(0, np.array([[1.0], [5.0]]), np.array(["yes", "no"]), np.ones(2))
    >>> rows = prepared(block)
    >>> rows.X.ravel(), rows.y.ravel()
    (array([0., 2.]), array([ 1., -1.]))
    """

    x_shift: Array
    x_scale: Array
    y_shift: Array = field(default_factory=lambda: np.zeros(1))
    y_scale: Array = field(default_factory=lambda: np.ones(1))
    classes: NDArray[Any] | None = None
    coding: str = "signed"
    class_weights: Array | None = None
    basis: Callable[[Array], Array] | None = None
    read: Callable[[Array], Array] | None = None

    def __call__(self, block: RowBlock) -> BlockRows:
        """Return the rows of positive weight."""
        w, y = np.asarray(block.w, dtype=np.float64), np.asarray(block.y)
        codes = None
        if self.classes is not None:
            codes = self._codes(y.ravel(), block.number)
            if self.class_weights is not None:
                w = w * self.class_weights[codes]
        keep = w > 0.0
        X = self.points(block.X if keep.all() else block.X[keep])
        if codes is None:
            Y = np.asarray(y.reshape(len(y), -1)[keep], dtype=np.float64)
            Y = Y if self.read is None else self.read(Y)
        else:
            Y = self._coded(codes[keep])
        Y = np.asarray((Y - self.y_shift) / self.y_scale)
        return BlockRows(X, Y, w[keep], None if self.basis is None else self.basis(X))

    def points(self, X: Array) -> Array:
        """Return inputs (b, d) in the units of the fit."""
        return np.ascontiguousarray((X - self.x_shift) / self.x_scale)

    def functions(self, Z: Array) -> int:
        """Return how many functions the basis has, by points Z (m, d) in the units of the fit."""
        return 0 if self.basis is None else self.basis(Z[:1]).shape[1]

    def _codes(self, labels: NDArray[Any], number: int) -> NDArray[np.intp]:
        """Return the class of each label, 0 .. k-1."""
        assert self.classes is not None
        found = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        wrong = np.flatnonzero(self.classes[found] != labels)
        if len(wrong):
            raise ValueError(
                f"the label {labels[wrong[0]]!r} in row {wrong[0]} of block {number} is none of "
                f"the classes {self.classes.tolist()} that were found: the table has changed"
            )
        return np.asarray(found, dtype=np.intp)

    def _coded(self, codes: NDArray[np.intp]) -> Array:
        """Return classes (b,) as the loss wants them, (b, m)."""
        assert self.classes is not None
        if self.coding == "codes":
            return codes[:, None].astype(np.float64)
        if self.coding == "rest":
            return np.where(codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)
        return np.where(codes == 1, 1.0, -1.0)[:, None]


@dataclass
class BlockSolution:
    """What the passes of an inference end with.

    Attributes
    ----------
    value : the evidence or its bound (minus the objective for a mode), of targets as they are
        inside.
    support, used : Z (m, d) on which alpha stands, and which of the points given they are; others
        were determined by these.
    alpha, beta : (m, o) coefficients, and (c, o) of the basis, or None.
    operator : C at the points; None for a mode.
    report : how it ended; ``details["passes"]`` counts the passes over the table.
    state : what the slopes of this inference need.
    """

    value: float
    support: Array
    used: NDArray[np.bool_]
    alpha: Array
    beta: Array | None
    operator: PosteriorOperator | None
    report: Report
    state: dict[str, Any] = field(default_factory=dict)
