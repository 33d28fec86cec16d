"""Figures of a stream: each labelled row predicted before it is learned."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Figures:
    """Sums over rows.

    Attributes
    ----------
    rows, wrong : labelled rows that were predicted before they were learned, and the errors.
    told, log_loss : rows for which there were probabilities, and the sum of -log P(label).
    """

    rows: int = 0
    wrong: int = 0
    told: int = 0
    log_loss: float = 0.0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def means(self) -> dict[str, float | None]:
        """Return error rate and mean log loss; None without rows.

        Examples
        --------
        >>> (Figures(4, 1, 4, 2.0) + Figures(4, 0, 0, 0.0)).means()
        {'error': 0.125, 'log_loss': 0.5}
        """
        return {
            "error": self.wrong / self.rows if self.rows else None,
            "log_loss": self.log_loss / self.told if self.told else None,
        }
