"""What the evidence for an erratum is: one quantity as printed, as corrected, and as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Check(NamedTuple):
    """A quantity in three ways; None where there is no such form.

    truth : by quadrature, simulation, finite differences, refitting, or an independent program.
    printed, corrected : the value that follows from the equation as printed, and as corrected.
    tol : how close to the truth the corrected value is; the printed one is off by three times that.
    """

    what: str
    truth: float
    printed: float | None
    corrected: float | None
    tol: float = 1e-6


EVIDENCE: dict[str, Callable[[], Check]] = {}


def evidence(function: Callable[[], Check]) -> Callable[[], Check]:
    """Register the evidence of an erratum under the name of the function, in capitals."""
    EVIDENCE[function.__name__.upper()] = function
    return function
