"""Nodes and weights that turn Green's functions into the kernel of a differential operator.

For P(z) = sum_m a_m z^m, k = (1 / 2 pi i) contour integral of G(r; sqrt(-z)) / P(z) dz around the
roots of P: a divided difference of G over the roots. A root that stands alone contributes its
residue G / P'. Roots that (nearly) coincide are taken together by the trapezoidal rule on a circle
in the plane of q = sqrt(-z), whose error falls geometrically; partial fractions would cancel there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array
from mercer.kernels.greens import Complex

_CLOSE = 0.1
_LIMIT = 0.6


@dataclass(frozen=True)
class Nodes:
    """k = Re sum_l weight_l G(q_l);  dk/da_m = Re sum_l (value_ml G(q_l) + slope_ml dG/dz(q_l)).

    Only nodes with Im q >= 0 are kept: those of the lower half plane are their conjugates.
    """

    q: Complex
    weight: Complex
    value: Complex
    slope: Complex


def contour_nodes(coefficients: Array) -> Nodes:
    """Return the nodes of P(z) = sum_m coefficients[m] z^m, positive for z >= 0."""
    P = np.polynomial.Polynomial(coefficients)
    roots = np.sqrt(-P.roots().astype(complex))
    powers = np.arange(len(coefficients))
    q: list[Complex] = []
    weight: list[Complex] = []
    value: list[Complex] = []
    slope: list[Complex] = []
    for members, others in _clusters(roots):
        centre = members.mean()
        if abs(centre.imag) < 1e-10 * abs(centre):
            centre = complex(centre.real)
        if centre.imag < 0.0:
            continue
        if len(members) == 1:
            nodes = np.array([centre], dtype=np.complex128)
            twice = 2.0 if centre.imag > 0.0 else 1.0
            z = -(nodes**2)
            first, second = P.deriv(1)(z), P.deriv(2)(z)
            moved = -(z ** powers[:, None]) / first  # dz/da_m of the root
            lower = np.maximum(powers - 1, 0)[:, None]
            w = twice / first
            v = -w * (powers[:, None] * z**lower + second * moved) / first
            s = w * moved
        else:
            nodes, steps = _circle(members, centre, others)
            z = -(nodes**2)
            w = -2.0 * nodes * steps / P(z)
            v = -w * z ** powers[:, None] / P(z)
            s = np.zeros_like(v)
        q.append(nodes)
        weight.append(w)
        value.append(v)
        slope.append(s)
    return Nodes(np.concatenate(q), np.concatenate(weight), np.hstack(value), np.hstack(slope))


def _circle(members: Complex, centre: complex, others: Complex) -> tuple[Complex, Complex]:
    """Return nodes on a circle around the members, and (q - centre) / count for each.

    The other singularities are the other roots, all roots mirrored, and q = 0.
    """
    inside = np.abs(members - centre).max()
    outside = np.abs(_singular(members, others) - centre).min()
    radius = max(np.sqrt(inside * outside), 0.5 * outside)
    rate = max(inside / radius, radius / outside)
    count = 2 * min(int(np.ceil(-18.0 / np.log(rate))), 256)
    angle = 2.0 * np.pi * (np.arange(count) + 0.5) / count
    steps = radius * np.exp(1j * angle)
    if centre.imag == 0.0:  # symmetric: the upper half, counted twice
        steps = steps[: count // 2]
    return centre + steps, 2.0 * steps / count


def _singular(members: Complex, others: Complex) -> Complex:
    return np.concatenate([others, -others, -members, [0.0]])


def _clusters(roots: Complex) -> list[tuple[Complex, Complex]]:
    """Return (members, other roots) of each cluster.

    Roots closer than a tenth of their size are joined; then any cluster whose circle would pass
    too close to another root is joined with the one nearest to it.
    """
    label = np.arange(len(roots))
    distance = np.abs(roots[:, None] - roots)
    size = np.maximum(np.abs(roots)[:, None], np.abs(roots))
    for i, j in np.argwhere(distance < _CLOSE * size):
        label[label == label[j]] = label[i]
    while True:
        for name in np.unique(label):
            members, others = roots[label == name], np.flatnonzero(label != name)
            if len(members) == 1 or not len(others):
                continue
            gaps = np.abs(roots[others] - members.mean())
            if np.abs(members - members.mean()).max() > _LIMIT * gaps.min():
                label[label == label[others[gaps.argmin()]]] = name
                break
        else:
            break
    return [(roots[label == name], roots[label != name]) for name in np.unique(label)]
