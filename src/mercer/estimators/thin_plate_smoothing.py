"""Variance and smoothing parameter of a thin-plate spline: given, or found on its spectrum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.estimators.thin_plate_forms import Form
from mercer.search import balanced
from mercer.search.smoothing import LIMIT, Spectrum, find_lam

# Noise variance, in units of var(y), of targets that a polynomial meets exactly: their rounding.
LEAST_NOISE = float((4.0 * np.finfo(float).eps) ** 2)


@dataclass(frozen=True)
class Smoothing:
    """What was chosen, in inside units, and what is reported of it."""

    variance: float
    lam: float
    report: dict[str, Any]


def choose(form: Form, lam: float | None, criterion: str, unit: float) -> Smoothing:
    """Return variance and lam; ``lam`` is given in the user's units, lam = unit * inside.

    The search sees weights that are scaled as in :func:`mercer.search.balanced`, so that copies of
    a table do not pretend to be new observations of its noise.
    """
    own = form.spectrum()
    scaled, c = balanced(form.problem)
    total, within = float(scaled.row_weights.sum()), float(scaled.spread.sum())
    spectrum = _times(own, c, total, within)
    largest = LIMIT * float(own.d.max(initial=0.0))
    if lam is None:
        inside, search = find_lam(spectrum, criterion)
        search["weights_times"] = c
        variance = spectrum.variance(inside)
        if criterion == "gcv":
            variance = spectrum.noise(inside) / inside
            search["gcv"] = spectrum.gcv(inside)
    else:
        inside, search = min(lam / unit, largest), None
        variance = spectrum.variance(c * inside)
    report: dict[str, Any] = {"search": search}
    least = LEAST_NOISE / max(inside, float(spectrum.d.max(initial=0.0)) * 1e-16)
    if not variance > least:
        variance = least
        report["least_noise"] = variance * inside
    report["lam"] = unit * inside if inside < 0.5 * min(c, 1.0) * largest else np.inf
    report["degrees_of_freedom"] = own.degrees(inside)
    return Smoothing(variance, inside, report)


def _times(s: Spectrum, c: float, total: float, within: float) -> Spectrum:
    """Return the spectrum for weights times c."""
    return replace(
        s,
        d=c * s.d,
        squares=c * s.squares,
        rest=c * s.rest,
        lost=c * s.lost,
        floor=c * s.floor,
        total=total,
        within=within,
    )
