"""Compared: what an approximation says of some quantities, what is true, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mercer.core.arrays import Array

CHANCE = 0.01  # probability that any of the quantities is found to differ where none does


@dataclass(frozen=True)
class Compared:
    """Some quantities of the same sort, by an approximation and by draws of the posterior.

    Attributes
    ----------
    name : what they are.
    approximate, truth, error : (k,), the truth with its Monte Carlo standard error.
    scale : (k,) or a number, what a difference is measured by.
    unit : what ``scale`` is, in words.
    tolerance : size of a difference, in this unit, from which it matters.
    """

    name: str
    approximate: Array
    truth: Array
    error: Array
    scale: Array | float
    unit: str
    tolerance: float

    @property
    def difference(self) -> Array:
        """(approximate - truth) / scale, (k,)."""
        return np.asarray((self.approximate - self.truth) / self.scale)

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Which differences (k,) are beyond what the error of the draws explains.

        The limit is that of the largest of k normal numbers: if nothing differs, one is found with
        probability 0.01.
        """
        limit = norm.isf(0.5 * CHANCE / len(self.truth))
        return np.asarray(np.abs(self.approximate - self.truth) > limit * self.error)

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Which differences (k,) are beyond the error and large enough to matter."""
        return np.asarray(self.beyond & (np.abs(self.difference) > self.tolerance))

    @property
    def worst(self) -> int:
        """The quantity with the largest difference beyond the error; without one the largest."""
        size = np.abs(self.difference)
        return int(np.argmax(np.where(self.beyond, size, -1.0) if self.beyond.any() else size))

    def line(self) -> str:
        """Return what was found, in a line."""
        size, error = np.abs(self.difference), self.error / self.scale
        verdict = "within the error of the draws"
        if self.flagged.any():
            verdict = f"{int(self.flagged.sum())} of {len(size)} differ by more than "
            verdict += f"{self.tolerance:g} {self.unit}"
        elif self.beyond.any():
            verdict = f"seen in {int(self.beyond.sum())} of {len(size)}, too small to matter"
        at = self.worst
        return (
            f"{self.name:<22} mean |difference| {size.mean():.3g}, largest {size[at]:.3g} "
            f"+- {np.broadcast_to(error, size.shape)[at]:.2g} {self.unit}: {verdict}"
        )
