"""What the calls of compiled functions are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np

Arguments = dict[str, Any]
Case = tuple[
    Arguments, Arguments
]  # what is given; what written arrays must hold ("return": answer)
RIGHT = {"rtol": 1e-9, "atol": 1e-9}
PROFILES = (
    lambda s: np.exp(-0.5 * s),
    lambda s: np.exp(-np.sqrt(s)),
    lambda s: (1 + np.sqrt(3 * s)) * np.exp(-np.sqrt(3 * s)),
    lambda s: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s)),
)
SIZES = (0, 1, 2, 3, 7, 130)


def size(rng: np.random.Generator, least: int = 0) -> int:
    return max(least, int(rng.choice(SIZES)))


def empty(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan)
