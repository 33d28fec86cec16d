"""How a stream of quantities begins: kernel and noise by the evidence of its first rows."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.gaussian_process.regressor import GPRegressor
from mercer.estimators.shared.parts import start_length
from mercer.estimators.shared.units import Units
from mercer.inference import with_spread
from mercer.kernels.base import Kernel
from mercer.losses import Gaussian
from mercer.losses.base import Loss

FEWEST = 10  # rows from which kernel parameters can be learned
SITES = 300  # rows that a loss other than the Gaussian's learns them from, at most
FLOOR = 1e-8  # of the prior variance: a noise that is learned is not below, or rows are exact
HIGHEST = 1e70  # target whose fourth power, a square of a log density, is still a number
MOST = 1e70  # variance of a known noise, standardised, and the inverse of the least
FARTHEST = 1e18  # standardised target: beside it nothing is left of the others, in 16 digits
NOISE = 0.1  # of the variance of the targets, where nothing is known yet


@dataclass(frozen=True)
class Begin:
    """The parts that a stream begins with, in standardised units."""

    kernel: Kernel
    loss: Loss
    known: bool  # whether the level of the noise is given, or there is none
    search: Any  # what the search says of itself; None: there was none
    inference: str


def check_noise(noise: Any) -> None:
    """Refuse a noise that is neither "learned" nor a positive number."""
    if isinstance(noise, str) and noise == "learned":
        return
    real = isinstance(noise, numbers.Real) and not isinstance(noise, bool)
    if not real or not 0.0 < float(noise) < np.inf:
        raise ValueError(
            'noise must be "learned" or a positive number, the variance of y about f, not '
            f"{noise!r}"
        )


def most_rows(reservoir: Any) -> int:
    """Return how many of the latest rows are kept, or refuse the parameter."""
    whole = isinstance(reservoir, numbers.Integral) and not isinstance(reservoir, bool)
    if not whole or reservoir < 20:
        raise ValueError(f"reservoir must be a number of rows, at least 20, not {reservoir!r}")
    return int(reservoir)


def moderate_targets(y: Array, units: Units) -> Array:
    """Return y (n,) in standardised units, or refuse targets that are too large to compute with.

    Examples
    --------
    >>> from mercer.estimators.shared.units import no_units
    >>> moderate_targets(np.array([2.0, 3.0]), no_units(1, 1))
    array([2., 3.])
    """
    top = float(np.abs(y).max(initial=0.0))
    if top > HIGHEST:
        raise ValueError(
            f"the targets reach {top:.3g}: powers of them leave the range of floating-point "
            "numbers; scale the target, by giving y in other units"
        )
    inside = units.y_standardised(y[:, None])[:, 0]
    far = float(np.abs(inside).max(initial=0.0))
    if far > FARTHEST:
        raise ValueError(
            f"the targets reach {top:.3g}, {far:.3g} in the units of the stream, where all other "
            "rows are lost in rounding errors; scale the target, or start again with rows that "
            "show how far it goes (and a kernel by name, which takes its units from them)"
        )
    return inside


def _inside(noise: float, unit: float) -> float:
    """Return a known noise in the units of the stream, or refuse one in which nothing is seen.

    Examples
    --------
    >>> _inside(0.5, 2.0)
    0.125
    """
    inside = noise / unit**2
    if not 1.0 / MOST < inside < MOST:
        raise ValueError(
            f"a noise of variance {noise:.3g} is {inside:.3g} in the units of the stream, for "
            f"targets of deviation {unit:.3g}: powers of that leave the range of floating-point "
            "numbers; give the variance in the units of y, squared, or noise='learned'"
        )
    return inside


def begun(
    machine: Any,
    kernel: Kernel,
    named: bool,
    loss: Loss,
    X: Array,
    y: Array,
    w: Array,
    unit: float,
) -> Begin:
    """Return kernel and loss for rows X (n, d), y (n,) of weights w, learned if they can be.

    ``unit`` is what the targets were divided by: a known noise is in the user's.
    """
    quadratic, given = loss.offers("quadratic"), machine.noise != "learned"
    name = type(with_spread(loss)).__name__.lower()
    if quadratic and given:
        loss = Gaussian(_inside(float(machine.noise), unit)).fix("noise")
    elif quadratic and isinstance(machine.loss, str):
        loss = Gaussian(NOISE * (float(np.average(y**2, weights=w)) or 1.0))
    known = not quadratic or given
    if machine.search is None or len(np.unique(X, axis=0)) < FEWEST or np.ptp(y) == 0.0:
        kernel = kernel.frozen(X, w)
        if named:
            start_length(kernel, X, w)
        return Begin(kernel, loss, known, None, name)
    if not quadratic and len(X) > SITES:
        some = np.unique(np.linspace(0, len(X) - 1, SITES).round().astype(np.intp))
        X, y, w = X[some], y[some], w[some]
    given_kernel = machine.kernel if named else kernel
    fitted = GPRegressor(given_kernel, loss=loss, search=machine.search).fit(X, y, sample_weight=w)
    search = fitted.report_["search"]
    told = {key: search[key] for key in ("converged", "evaluations") if key in search}
    loss, least = fitted.loss_, FLOOR * float(fitted.kernel_.diag(X).mean())
    if quadratic and not given and float(loss.noise) < least:  # type: ignore[attr-defined]  # the Gaussian has it
        loss, told["noise_floor"] = Gaussian(least), True
    return Begin(fitted.kernel_, loss, known, told, name)
