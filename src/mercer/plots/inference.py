"""InferenceDisplay: what an approximate posterior says beside draws of the true one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.plots.style import BLUE, GREY, INK, ORANGE, Display, same_length
from mercer.referee.check import InferenceCheck, check_inference_on
from mercer.referee.evidence import EvidenceBracket

KINDS = ("mean", "sd", "predictions", "evidence")


@dataclass(repr=False, eq=False)
class InferenceDisplay(Display):
    """Differences of an approximate posterior from the truth, or where its evidence lies.

    Of latent means, deviations and predictions each point is one quantity: the truth, and how far
    the approximation is from it, with two Monte Carlo errors of the truth. Points whose bars cross
    zero do not differ as far as the draws can tell. Of the evidence all bounds and estimates.

    Parameters
    ----------
    truth, difference, error : (k,) what is true, how far the approximation is from it, and the
        error of the truth; the last two in ``unit``.
    unit, name : what they are, in words.
    bracket : of the evidence, which is drawn in place of them; or None.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier, check_inference_on
    >>> from mercer.inference import MCMC
    >>> X = np.linspace(0, 4, 12)[:, None]
    >>> model = GPClassifier(search=None).fit(X, np.sin(2 * X[:, 0]) > 0)
    >>> method = MCMC(samples=50, warmup=40)
    >>> check = check_inference_on(model, X, np.sin(2 * X[:, 0]) > 0, inference=method, runs=0)
    >>> InferenceDisplay.from_check(check, "sd").difference.shape
    (12,)
    """

    truth: Array
    difference: Array
    error: Array
    unit: str
    name: str
    bracket: EvidenceBracket | None = None

    @classmethod
    def from_predictions(
        cls, approximate: Any, truth: Any, error: Any, *, name: str = "f", ax: Any = None
    ) -> Self:
        """Draw what an approximation says (k,) beside the truth (k,) and its error (k,)."""
        own, true, about = same_length("approximate, truth and error", approximate, truth, error)
        return cls(true, own - true, about, "its own unit", name).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, kind: str = "mean", *, ax: Any = None, **options: Any
    ) -> Self:
        """Check a fitted model on its training rows and draw one of the figures.

        ``options`` are those of :func:`mercer.check_inference_on`.
        """
        return cls.from_check(check_inference_on(estimator, X, y, **options), kind, ax=ax)

    @classmethod
    def from_check(cls, check: InferenceCheck, kind: str = "mean", *, ax: Any = None) -> Self:
        """Draw one of the figures of a check: "mean", "sd", "predictions" or "evidence"."""
        if kind not in KINDS:
            raise ValueError(f"there is no figure {kind!r}; known: {', '.join(KINDS)}")
        figures = check.mean if kind == "evidence" else getattr(check, kind)
        if figures is None:
            raise ValueError("this check has no predictions: a regression needs y_new beside X_new")
        error = np.broadcast_to(figures.error / figures.scale, figures.truth.shape)
        name = f"{check.inference}: {figures.name}"
        bracket = check.evidence if kind == "evidence" else None
        shown = cls(figures.truth, figures.difference, error, figures.unit, name, bracket)
        return shown.plot(ax)

    def draw(self, ax: Any) -> None:
        if self.bracket is not None:
            self._draw_evidence(ax, self.bracket)
            return
        bars = {"fmt": "o", "ms": 4, "lw": 1.0, "color": ORANGE, "ecolor": GREY}
        ax.errorbar(self.truth, self.difference, 2.0 * self.error, **bars)
        ax.axhline(0.0, color=INK, lw=0.8)
        self._label(ax, f"{self.name}, by draws", f"approximation - truth ({self.unit})")

    def _draw_evidence(self, ax: Any, found: EvidenceBracket) -> None:
        places = [
            ("at most (mode)", found.upper, None, GREY),
            ("annealed", found.annealed, found.annealed_error, BLUE),
            ("bridge", found.bridge, found.bridge_error, BLUE),
            ("the model's own", found.approximate, None, ORANGE),
            ("at least (best Gaussian)", found.lower, None, GREY),
            ("at least (its Gaussian)", found.given, None, GREY),
        ]
        known = [place for place in places if place[1] is not None][::-1]
        for height, (_, value, error, color) in enumerate(known):
            ax.errorbar(
                value, height, xerr=None if error is None else 2.0 * error, fmt="o", c=color
            )
        ax.set_yticks(range(len(known)), [name for name, *_ in known])
        self._label(ax, "log evidence", "bound or estimate")
