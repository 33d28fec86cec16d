"""Section 4.4 of the thesis: which inputs automatic relevance determination keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from _thesis_data import SETS

METHODS = ("lap", "vbgp", "vbsvm", "ep")
LEAST = 0.01  # of the largest w: an input below is ignored
OFTEN = 0.75  # of the searches
# what the thesis reports of its runs, inputs counted from 1
_THESIS = {
    "crabs": "kept 2, 3",
    "pima": "ignored 3, 4",
    "wdbc": "largest 24, many ignored",
    "twonorm": "no effect",
    "ringnorm": "no effect",
    "waveform": "largest 9, 10, 11, 16, 17; ignored 1, 2, 3, 6",
}


def kept(store: dict[Any, dict[str, Any]], data: str, variant: str = "no") -> np.ndarray:
    """Share of the searches (d,) in which an input has at least a hundredth of the largest w."""
    rows = [
        row["w"]
        for cell, row in store.items()
        if cell.data == data and cell.variant == variant and cell.method in METHODS
    ]
    if not rows:
        return np.zeros(0)
    w = np.array(rows, dtype=np.float64)
    return np.mean(w >= LEAST * w.max(axis=1, keepdims=True), axis=0)


def lists(store: dict[Any, dict[str, Any]]) -> list[str]:
    """The lists in Markdown."""
    lines = ["## Inputs that are kept (section 4.4)", ""]
    lines += [
        "An input is kept in a search if its w is a hundredth of the largest or more. Inputs,",
        f"counted from 1, that are kept (or ignored) in {OFTEN:.0%} or more of the searches of",
        "Laplace, VB-GP, VB-SVM and EP without hyperprior, over all splits; `relevance_` and",
        "`LengthScaleDisplay` show the same of any machine.",
        "",
        "| set | searches | kept | ignored | thesis |",
        "|---|---|---|---|---|",
    ]
    shown = 0
    for data in SETS:
        share = kept(store, data)
        if not len(share):
            continue
        count = sum(c.data == data and c.variant == "no" and c.method in METHODS for c in store)
        cells = (_numbers(share >= OFTEN), _numbers(share <= 1 - OFTEN))
        known = _THESIS.get(data.removesuffix("-ripley"), "")
        lines.append(f"| {data} | {count} | {cells[0]} | {cells[1]} | {known} |")
        shown += 1
    return [*lines, ""] if shown else []


def _numbers(which: np.ndarray) -> str:
    found = (np.flatnonzero(which) + 1).tolist()
    if len(found) == len(which):
        return "all"
    return ", ".join(map(str, found)) or "none"
