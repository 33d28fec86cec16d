"""Weight space: the maps phi of sums and multiples, k(x, z) = phi(x)'phi(z), and their gradients.

With D = 2 G phi for a symmetric G, d<G, phi phi'> = <D, dphi>: no (n, n) array is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Gradient, Kernel, positive, prefixed, stated_below, zero_gradient


def width_of(kernel: Kernel, X: Array) -> int | None:
    """Return how many features the signal of a kernel has at X (n, d), None if infinitely many.

    A class that states its values anew and inherits a map has none: the map is another kernel's.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> X = np.zeros((5, 3))
    >>> width_of(2.0 * Linear() + 1.0, X), width_of(Linear() + RBF(), X)
    (4, None)
    """
    return None if _restated(kernel) else kernel.width(X)


def _restated(kernel: Kernel) -> bool:
    """Whether the class of a part states its values below the class that states its map."""
    other = "explicit" if type(kernel).features is Kernel.features else "features"
    parts = [part for part in kernel.children().values() if isinstance(part, Kernel)]
    return stated_below(type(kernel), "__call__", other) or any(map(_restated, parts))


class Stacked(Kernel, abstract=True):
    """A sum: the maps of its ``parts`` side by side; white noise has none, of width zero."""

    parts: Sequence[Kernel]

    def explicit(self, X: Array) -> Any:
        found = [part.explicit(X) for part in self.parts]
        return None if any(F is None for F in found) else np.hstack(found)

    def width(self, X: Array) -> int | None:
        found = [part.width(X) for part in self.parts]
        known = [m for m in found if m is not None]
        return sum(known) if len(known) == len(found) else None

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        gradient, start = Gradient(), 0
        for i, part in enumerate(self.parts):
            own = slice(start, start := start + (m := part.width(X) or 0))
            slope = part.explicit_pullback(X, F[:, own], D[:, own]) if m else zero_gradient(part)
            gradient |= prefixed(str(i), slope)
        return gradient


class Multiplied(Kernel, abstract=True):
    """A multiple: the map of its ``kernel`` times the root of its ``variance``."""

    kernel: Kernel

    def explicit(self, X: Array) -> Any:
        F = self.kernel.explicit(X)
        return None if F is None else F * self._root()

    def width(self, X: Array) -> int | None:
        return self.kernel.width(X)

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        root = self._root()
        slopes = self.kernel.explicit_pullback(X, F / root, root * D)
        return {"variance": 0.5 * float(np.vdot(D, F)) / root**2, **prefixed("kernel", slopes)}

    def _root(self) -> float:
        return float(np.sqrt(positive(self, "variance")))
