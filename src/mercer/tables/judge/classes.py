"""Classes of different sizes: how well the rare one is found, and classes never predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from mercer.core.words import shown
from mercer.tables.choose.left_out import LeftOutTable

RARE = 0.2  # of the rows, at most, for the rarer of two classes


def ranked(left: LeftOutTable, code: int) -> dict[str, float]:
    """Return how well rows left out are ranked by the probability of the class ``code``.

    ``share`` of the class among the rows, ``auc``, the area under the ROC curve (the probability
    that a row of the class is ranked before another one), ``average_precision``, the area under
    the curve of precision and recall (the share, by chance), and ``found``, ``found_at_share``: of
    the rows of the class those with a probability of at least one half, and of at least the share.
    """
    own, p, w = left.codes == code, left.proba[:, code], left.weights
    share = float(np.average(own, weights=w))
    at = {
        name: float(np.average(p[own] >= limit, weights=None if w is None else w[own]))
        for name, limit in (("found", 0.5), ("found_at_share", share))
    }
    return {
        "share": share,
        "auc": float(roc_auc_score(own, p, sample_weight=w)),
        "average_precision": float(average_precision_score(own, p, sample_weight=w)),
        **at,
    }


def notes_of_classes(left: LeftOutTable, classes: Any) -> list[str]:
    """Say which classes are never predicted, and of a rare one how a threshold finds its rows.

    Weights of classes are no remedy: they move the probabilities away from how often a class
    occurs, and with them corrected nothing is gained. A threshold says the same and leaves the
    probabilities as they are.
    """
    if left.proba is None:
        return []
    k = left.proba.shape[1]
    predicted, there = set(left.proba.argmax(axis=1).tolist()), set(left.codes.tolist())
    never = [f"'{shown(str(classes[c]), 30)}'" for c in range(k) if c in there - predicted]
    notes = []
    if never:
        what = f"the class {never[0]} is" if len(never) == 1 else f"the classes {_all(never)} are"
        notes.append(
            f"{what} never predicted for rows left out: nowhere the most probable; the "
            "probabilities still say where it is more likely"
        )
    if k == 2 and len(there) == 2:
        code = int(np.average(left.codes, weights=left.weights) < 0.5)
        figures = ranked(left, code)
        if figures["share"] <= RARE:
            notes.append(_rare(f"'{shown(str(classes[code]), 30)}'", figures))
    return notes


def _rare(name: str, of: dict[str, float]) -> str:
    return (
        f"the class {name} is rare, {100 * of['share']:.3g} % of the rows: rows left out are "
        f"ranked with an area under the ROC curve of {of['auc']:.2f}, average precision "
        f"{of['average_precision']:.2f} (by chance {of['share']:.2g}); predicted where its "
        f"probability is at least 0.5, {100 * of['found']:.0f} % of its rows are found, at least "
        f"{of['share']:.2g}, {100 * of['found_at_share']:.0f} %. If a row that is missed costs c "
        "times a false alarm, predict it above 1 / (1 + c)"
    )


def _all(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
