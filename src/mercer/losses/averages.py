"""Third and fourth derivatives in m of E[g(y, f)], f ~ N(m, v): the bends of a Gaussian average.

A Newton step on the variational Gaussian needs them; the first two are those of ``expected``
(the second derivative in m is twice the first in v, the heat equation). Theory (A3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.arrays import Array
from mercer.losses.quadrature import _jumps, _own_derivatives, average
from mercer.losses.special import normal_pdf

if TYPE_CHECKING:
    from mercer.losses.base import Loss


def higher(loss: Loss, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """T3 = d3 E[g]/dm3 and T4 = d4 E[g]/dm4 by quadrature, all arguments (n,).

    The Gaussian is differentiated twice more than the loss (Stein), with r = f - m:

        T3 = E[g'' r]/v,    T4 = E[g'' (r^2/v - 1)]/v,    a slope jump J at kappa as J delta in g''.

    A loss without derivatives of its own is averaged itself, T3 = E[g He3(r/s)]/s^3 and
    T4 = E[g He4(r/s)]/s^4 (Hermite polynomials), whose rounding errors grow like s^-4.
    """
    s = np.sqrt(v)
    if not _own_derivatives(loss):
        start = loss.value(y, m)

        def whole(yy: Array, f: Array) -> tuple[Array, ...]:
            g, z = loss.value(yy, f) - start[:, None], (f - m[:, None]) / s[:, None]
            return g * z * (z**2 - 3.0), g * (z**4 - 6.0 * z**2 + 3.0)

        third, fourth = average(loss, whole, y, m, v)
        return third / s**3, fourth / v**2
    level = loss.derivatives(y, m)[1]  # constants average to nothing: less to cancel

    def parts(yy: Array, f: Array) -> tuple[Array, ...]:
        bend, z = loss.derivatives(yy, f)[1] - level[:, None], (f - m[:, None]) / s[:, None]
        return bend * z, bend * (z**2 - 1.0)

    third, fourth = average(loss, parts, y, m, v)
    third, fourth = third / s, fourth / v
    for kink, jump in _jumps(loss, y):
        d3, d4 = delta(kink, m, v)
        third, fourth = third + jump * d3, fourth + jump * d4
    return third, fourth


def delta(kink: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """First and second derivative in m of N(kink | m, v): what a unit jump of slope adds."""
    s = np.sqrt(v)
    z = (kink - m) / s
    density = normal_pdf(z)
    return z * density / v, (np.square(z) - 1.0) * density / (v * s)


def step(edge: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """First and second derivative in m of P(f > edge): what a unit jump of g'' adds."""
    s = np.sqrt(v)
    z = (edge - m) / s
    density = normal_pdf(z) / s
    return density, z * density / s
