"""Prequential figures: every example predicted before it is learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array, Index


@dataclass(frozen=True)
class Prequential:
    """Running sums over a stream, so that memory stays flat.

    Attributes
    ----------
    weight : total weight of the examples predicted so far.
    log_loss_sum : sum of -log P(label) before each was learned.
    right : weight of those whose label was the most probable one.
    """

    weight: float = 0.0
    log_loss_sum: float = 0.0
    right: float = 0.0

    @property
    def log_loss(self) -> float:
        """Mean log loss before each update; NaN before the first."""
        return self.log_loss_sum / self.weight if self.weight else float("nan")

    @property
    def accuracy(self) -> float:
        """Share of labels foreseen before each update; NaN before the first."""
        return self.right / self.weight if self.weight else float("nan")

    def add(self, log_p: Array, codes: Index, w: Array) -> Prequential:
        """Return the figures with b further examples: log probabilities (b, k), classes, weights.

        Examples
        --------
        >>> import numpy as np
        >>> p = np.log([[0.5, 0.5], [0.2, 0.8]])
        >>> Prequential().add(p, np.array([0, 1]), np.ones(2)).accuracy
        1.0
        """
        seen = log_p[np.arange(len(codes)), codes]
        right = w @ (log_p.argmax(axis=1) == codes)
        return Prequential(
            self.weight + float(w.sum()),
            self.log_loss_sum - float(w @ seen),
            self.right + float(right),
        )
