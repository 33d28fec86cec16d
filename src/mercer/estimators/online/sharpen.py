"""How sure several classes may be, learned from the rows that were predicted; theory (O22).

Functions that are each one class against the rest say probabilities whose normalised form is too
cautious, the more so the more classes there are. The power that would have foreseen the labels so
far best makes them as sure as they have earned to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.core.arrays import Array, Index

POWERS = np.exp2(np.arange(-2.0, 5.25, 0.25))  # 1/4 ... 32
WINDOW = 300.0  # rows after which a row counts 1/e: what is needed changes as more is learned
PRICE = 0.5 * np.abs(np.log2(POWERS))  # nats, half of one for each doubling


@dataclass(frozen=True, eq=False)
class Sharpening:
    """The log loss that each power would have had, summed over the latest rows foreseen."""

    sums: Array = field(default_factory=lambda: np.zeros(len(POWERS)))  # (p,) nats

    @property
    def power(self) -> float:
        """The power of the least loss; one before any row."""
        return float(POWERS[int(np.argmin(self.sums + PRICE))])

    def applied(self, log_p: Array) -> Array:
        """Return log probabilities (q, k) raised to the power, and normalised."""
        power = self.power
        return log_p if power == 1.0 else _normalised(power * log_p)

    def given(self, log_p: Array, codes: Index, w: Array) -> Sharpening:
        """Return it given the classes of rows with log probabilities (b, k), not yet sharpened.

        Examples
        --------
        >>> import numpy as np
        >>> cautious = np.log(np.tile([0.4, 0.3, 0.3], (50, 1)))
        >>> Sharpening().given(cautious, np.zeros(50, dtype=int), np.ones(50)).power > 8.0
        True
        """
        rows = np.arange(len(codes))
        lost = [-float(w @ _normalised(power * log_p)[rows, codes]) for power in POWERS]
        return Sharpening(np.exp(-float(w.sum()) / WINDOW) * self.sums + np.array(lost))


def _normalised(log_p: Array) -> Array:
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
