"""Sample: the rows that candidates are screened on."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Index
from mercer.tables.data.target import Target

ROWS = 500


def sample(target: Target, rng: np.random.Generator, rows: int = ROWS) -> tuple[Index, Index]:
    """Return (rows with a target, rows without) to screen on, at most ``rows`` together.

    Every class keeps its share, and at least two rows if it has them; labelled rows are at most
    three fifths where rows without a label take part.
    """
    known = np.flatnonzero(target.known)
    if target.structure is not None:  # whole groups, or the latest rows
        return target.structure.some(known, rows, rng), known[:0]
    others = np.flatnonzero(~target.known) if target.classes is not None else known[:0]
    limit = rows if not len(others) else max(3 * rows // 5, rows - len(others))
    if len(known) > limit and target.classes is None:
        known = rng.permutation(known)[:limit]
    elif len(known) > limit:
        codes, share = target.values[known], limit / len(known)
        kept = []
        for code in np.unique(codes):
            each = rng.permutation(known[codes == code])
            kept.append(each[: max(2, int(np.floor(share * len(each))))])
        known = np.concatenate(kept)
    others = rng.permutation(others)[: max(0, rows - len(known))]
    return np.sort(known), np.sort(others)
