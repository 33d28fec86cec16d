"""DiscriminationDisplay: how well scores tell classes apart (ROC, precision and recall)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.arrays import Array, Index
from mercer.plots.probabilities import ClassPredictions
from mercer.plots.style import GREY, class_line
from mercer.wording import shown

MOST = 8  # curves; with more classes those with the most rows are drawn


@dataclass(frozen=True)
class Curve:
    """One class against the rest: x and y of the curve, the area below it, the class' share."""

    label: str
    x: Array
    y: Array
    area: float
    share: float


@dataclass(repr=False, eq=False)
class DiscriminationDisplay(ClassPredictions):
    """The curve of each class against the rest (two classes: of the second one).

    "roc": share of the class found against share of false alarms; a coin follows the diagonal.
    "pr": precision (share of alarms that are right) against recall (share of the class found); a
    coin stays at the share of the class. Area 1 is perfect.

    Parameters
    ----------
    curves : one for each class drawn.
    kind : "roc" or "pr".

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> display = DiscriminationDisplay.from_predictions([0, 0, 1, 1], p, kind="roc")
    >>> display.curves[0].area
    0.75
    """

    curves: list[Curve]
    kind: str = "roc"

    @classmethod
    def compute(cls, codes: Index, proba: Array, classes: Array, **options: Any) -> Self:
        """Return the display without drawing it; ``kind`` is "roc" (default) or "pr".

        ``weights`` (n,) say how often each row counts.
        """
        kind, weights = options.pop("kind", "roc"), options.pop("weights", None)
        if kind not in ("roc", "pr") or options:
            raise ValueError(f"kind must be 'roc' or 'pr', not {kind!r}; no other option exists")
        counts = np.bincount(codes, weights, len(classes))
        total = counts.sum()
        present = [c for c in np.unique(codes).tolist() if not np.all(codes == c)]
        if not present:
            raise ValueError("one class alone has no such curve: give rows of two classes or more")
        wanted = present[-1:] if len(classes) == 2 else present
        most = sorted(sorted(wanted, key=lambda c: -counts[c])[:MOST])
        found = [
            _curve(kind, str(classes[c]), codes == c, proba[:, c], counts[c] / total, weights)
            for c in most
        ]
        return cls(found, kind)

    def draw(self, ax: Any) -> None:
        """See :class:`mercer.plots.Display`."""
        roc = self.kind == "roc"
        for i, curve in enumerate(self.curves):
            label = f"{shown(curve.label, 18)} ({'area' if roc else 'average'} {curve.area:.3f})"
            ax.plot(curve.x, curve.y, lw=1.8, label=label, **class_line(i))
            if not roc:
                ax.axhline(curve.share, color=class_line(i)["color"], lw=0.6)
        if roc:
            ax.plot([0, 1], [0, 1], color=GREY, lw=1)
        words = ("share of false alarms", "share found") if roc else ("recall", "precision")
        ax.set(xlabel=words[0], ylabel=words[1])
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        place = "lower right" if roc else "lower left"
        for text in ax.legend(loc=place, fontsize=9, frameon=False).get_texts():
            text.set_parse_math(False)


def _curve(
    kind: str, label: str, truth: Array, score: Array, share: float, w: Array | None
) -> Curve:
    from sklearn.metrics import (
        average_precision_score,
        precision_recall_curve,
        roc_auc_score,
        roc_curve,
    )

    if kind == "roc":
        x, y, _ = roc_curve(truth, score, sample_weight=w)
        area = float(roc_auc_score(truth, score, sample_weight=w))
        return Curve(label, x, y, area, float(share))
    precision, recall, _ = precision_recall_curve(truth, score, sample_weight=w)
    area = float(average_precision_score(truth, score, sample_weight=w))
    return Curve(label, recall, precision, area, float(share))
