"""Structure that is left in residuals: along a column, among neighbours, in the order of rows.

Neighbours with like residuals say that the model is too stiff there, or misses something. As in
``gam.check`` of mgcv (Wood, Generalized additive models, 2017, section 5.9), the variance estimated
from differences of neighbours is divided by that of all residuals,

    index = (1/2) mean_i (r_i - r_next(i))^2 / mean_i (r_i - mean r)^2,

about 1 if there is nothing, and compared with the index of shuffled residuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from mercer.core.arrays import Array, Index

SHUFFLES = 200
MOST = 2000  # rows among which neighbours are sought


@dataclass(frozen=True)
class Structure:
    """Residuals along one direction: ``name``, ``index`` and ``p``, small where it is below 1."""

    name: str
    index: float
    p: float


def along(name: str, r: Array, values: Array, seed: int = 0) -> Structure:
    """Return the structure of residuals r (n,) in the order of ``values`` (n,).

    Rows of equal values follow each other in random order.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 6, 60)
    >>> found = along("x", np.sin(x), x)
    >>> bool(found.index < 0.1), bool(found.p < 1e-6)
    (True, True)
    """
    rng = np.random.default_rng(seed)
    order = np.lexsort([rng.random(len(r)), values])
    pairs = np.stack([order[:-1], order[1:]])
    return _tested(name, r, pairs, rng)


def among(name: str, r: Array, X: Array, seed: int = 0) -> Structure:
    """Return the structure of residuals r (n,) among nearest neighbours of X (n, d).

    Columns count by their deviations; of more than 2000 rows some are drawn.
    """
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(len(r))[:MOST])
    scale = X[some].std(axis=0)
    inside = X[some][:, scale > 0.0] / scale[scale > 0.0]
    if not inside.shape[1]:
        return Structure(name, 1.0, 1.0)
    nearest = np.asarray(cKDTree(inside).query(inside, 2)[1])
    # of equal rows the row itself may come second
    other = np.where(nearest[:, 1] == np.arange(len(some)), nearest[:, 0], nearest[:, 1])
    return _tested(name, r[some], np.stack([np.arange(len(some)), other]), rng)


def _tested(name: str, r: Array, pairs: Index, rng: np.random.Generator) -> Structure:
    spread = float(np.mean((r - r.mean()) ** 2))
    if len(r) < 10 or not spread > 0.0:
        return Structure(name, 1.0, 1.0)

    def index(r: Array) -> float:
        return float(0.5 * np.mean((r[pairs[0]] - r[pairs[1]]) ** 2) / spread)

    own, others = index(r), np.array([index(rng.permutation(r)) for _ in range(SHUFFLES)])
    z = (own - others.mean()) / (others.std() or 1.0)
    return Structure(name, own, float(ndtr(z)))
