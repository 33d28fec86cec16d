"""Terms of a sum of kernels as a statistician asks for them: degrees of freedom, sizes, slopes.

With k = sum_j k_j the fitted values of the term j at the training points are K_j alpha = K_j C y:
its smoother is S_j = K_j C, and its effective degrees of freedom are

    edf_j = tr(K_j C),   tr(H (H'CH)^-1 H'C) = number of functions of an unpenalised basis

(with a basis, C is less what the basis explains, formula (2)). They add up to those of the fit.
Units and hyperparameters are held. Theory (P15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.kernels.base import Kernel
from mercer.kernels.compose import Scale
from mercer.kernels.dot import Linear
from mercer.kernels.inputs.columns import Columns
from mercer.linalg.line import Line, state_space_of
from mercer.linalg.operators import SeveralOperator
from mercer.linalg.reduced.operator import WeightOperator
from mercer.process.process import Posterior, Prior, batched

WHOLE = 2000  # points up to which C is formed
PROBES = 32  # random vectors beyond
LEVEL = "level where all columns are zero"


@dataclass(frozen=True)
class TermFigures:
    """One term: ``name``, and what it has of the fit.

    Attributes
    ----------
    edf : effective degrees of freedom, the trace of its smoother; None where it is not known.
    edf_error : the standard error of it where it was estimated by random vectors, else 0.
    size : standard deviation of its effect over the training points, in units of f; None where the
        fit has kept the weights of features, and no points.
    share : of the sum of the squares of all sizes.
    """

    name: str
    edf: float | None
    edf_error: float
    size: float | None
    share: float | None


@dataclass(frozen=True)
class Coefficient:
    """A slope, or a level: ``value`` and its standard deviation ``std``; None of a mode."""

    term: str
    column: str
    value: float
    std: float | None

    @property
    def text(self) -> str:
        """The value and its standard deviation."""
        return f"{self.value:.4g}" + ("" if self.std is None else f" ± {self.std:.2g}")


@dataclass(frozen=True)
class TermTable:
    """The terms of a fitted sum; ``print`` gives text, a notebook a table.

    Attributes
    ----------
    terms : list of :class:`TermFigures`.
    coefficients : list of :class:`Coefficient`, of straight lines and of the basis; in your units.
    total : degrees of freedom of the fit, None where they are not known.
    """

    terms: list[TermFigures]
    coefficients: list[Coefficient]
    total: float | None

    def rows(self) -> list[dict[str, Any]]:
        """Return the terms as plain dictionaries."""
        return [asdict(term) for term in self.terms]

    def _tables(self) -> list[list[list[str]]]:
        each = [["term", "edf", "size of the effect", "share"]]
        for t in self.terms:
            edf = "-" if t.edf is None else f"{t.edf:.2f}"
            edf += f" ± {t.edf_error:.1g}" if t.edf_error else ""
            size = "-" if t.size is None else f"{t.size:.4g}"
            share = "-" if t.share is None else f"{100.0 * t.share:.1f} %"
            each.append([t.name, edf, size, share])
        if self.total is not None:
            each.append(["all", f"{self.total:.2f}", "", ""])
        slopes = [[c.term, c.column, c.text] for c in self.coefficients]
        return [each] + ([[["coefficient of", "column", "value"], *slopes]] if slopes else [])

    def __str__(self) -> str:
        blocks = []
        for table in self._tables():
            widths = [max(len(row[j]) for row in table) for j in range(len(table[0]))]
            lines = [
                "  ".join(
                    f"{c:<{w}}" if j < len(row) - 3 + (len(row) == 3) * 2 else f"{c:>{w}}"
                    for j, (c, w) in enumerate(zip(row, widths, strict=True))
                ).rstrip()
                for row in table
            ]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        return "".join(
            f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
            for head, *rows in self._tables()
        )


def degrees(p: Posterior, terms: Sequence[Kernel]) -> list[tuple[float | None, float]]:
    """Return tr(K_j C) of each term and the standard error of an estimate, at the points of p.

    Up to 2000 points C is formed; beyond, 32 random vectors z of signs give z'K_j C z on average.
    """
    C, n = p.operator, len(p.points)
    none: list[tuple[float | None, float]] = [(None, 0.0)] * len(terms)
    if isinstance(C, SeveralOperator) or not C.spreads or C.weighs:
        return none
    h = None if p.basis is None else np.zeros_like(p.basis(p.points[:1]))
    few = n <= WHOLE
    Z = np.eye(n) if few else np.random.default_rng(0).choice([-1.0, 1.0], size=(n, PROBES))
    hZ = None if h is None else np.repeat(h, Z.shape[1], axis=0)
    if few:
        inverse = C.reduce(Z, Z, hZ, hZ)
        return [(float(np.einsum("ij,ij->", k(p.points), inverse)), 0.0) for k in terms]
    found: list[tuple[float | None, float]] = []
    for kernel in terms:
        each = np.diagonal(C.reduce(Z, _times(kernel, p.points, Z), hZ, hZ))
        found.append((float(each.mean()), float(each.std(ddof=1) / np.sqrt(PROBES))))
    return found


def _times(kernel: Kernel, points: Array, V: Array) -> Array:
    """K V for V (n, q), in O(n) where the kernel is Markov on a column, else in blocks of rows."""
    states = state_space_of(kernel, points.shape[1])
    if states is not None:
        return np.asarray(Line(states, points).times(V))
    return batched(lambda rows: kernel(rows, points) @ V, points, len(points))


def sizes(p: Posterior, terms: Sequence[Kernel]) -> Array:
    """Return the standard deviation over the points of what each term adds, (number of terms,)."""
    found = [float(np.sqrt(_times(k, p.points, p.alpha).var(axis=0).mean())) for k in terms]
    return np.array(found)


def straight(kernel: Kernel) -> bool:
    """Whether the functions of a kernel are straight lines: a linear one, scaled, on columns."""
    while isinstance(kernel, (Scale, Columns)):
        kernel = kernel.kernel
    return isinstance(kernel, Linear)


def differences(
    p: Posterior, kernel: Kernel | None, X: Array, Z: Array
) -> tuple[Array, Array | None]:
    """Return f(X_i) - f(Z_i) of a term (None: of the basis), (q, m), and its deviations, (q,).

    X and Z (q, d) are pairs of places, in the units of the fit: for a straight line the difference
    of places that lie one apart is the slope, whatever the places. Formula (2) with
    k(X, P) - k(Z, P) in place of k(X, P).
    """
    C, has_basis = p.operator, p.basis is not None and p.beta is not None
    if C.weighs:  # the only term, and the function itself but for a constant
        rows = (p.basis(X), p.basis(Z)) if p.basis is not None and has_basis else (None, None)
        mean = p.mean(X) - p.mean(Z)
        if not C.spreads:
            return mean, None
        assert isinstance(C, WeightOperator)
        return mean, np.sqrt(np.sum((C.half(X, rows[0]) - C.half(Z, rows[1])) ** 2, axis=0))
    A, prior = np.zeros((len(p.points), len(X))), np.zeros(len(X))
    if kernel is not None:
        A = kernel(p.points, X) - kernel(p.points, Z)
        both = [np.diagonal(kernel(U, V)) for U, V in ((X, X), (Z, Z), (X, Z))]
        prior = both[0] + both[1] - 2.0 * both[2]
    mean, h = A.T @ p.alpha, None
    if p.basis is not None and p.beta is not None:
        h = p.basis(X) - p.basis(Z) if kernel is None else np.zeros((len(X), len(p.beta)))
        mean = mean + h @ p.beta
    if not C.spreads or isinstance(C, SeveralOperator):
        return mean, None
    return mean, np.sqrt(np.maximum(prior - C.reduce_diag(A, h), 0.0))


def level(p: Posterior, X: Array) -> tuple[Array, Array | None]:
    """Return the mean (q, m) and the deviation (q,) of the basis at X (q, d)."""
    assert p.basis is not None
    assert p.beta is not None
    h, C = p.basis(X), p.operator
    if not C.spreads or isinstance(C, SeveralOperator) or C.weighs:
        return h @ p.beta, None
    known = C.reduce_diag(np.zeros((len(p.points), len(X))), h)
    return h @ p.beta, np.sqrt(np.maximum(-known, 0.0))


def coefficients(
    machine: Any, names: Sequence[str], columns: Sequence[str], base: Array | None = None
) -> list[Coefficient]:
    """Return the slopes of the straight terms and of a linear basis of a fitted machine.

    ``names`` are those of its terms, ``columns`` (d,) those of the inputs. Slopes are changes of
    the latent function for one unit of the column as it was given to the machine, from zero or from
    the row of ``base`` (d, d) for each.
    """
    if not (hasattr(machine, "units_") and hasattr(machine, "losses_")):
        return []  # a support vector machine: dual coefficients, and no units
    p = next(iter(machine.posteriors_), None)
    if len(machine.posteriors_) != 1 or not isinstance(p, Posterior) or p.separate:
        return []
    if not isinstance(p.parent, Prior) or p.alpha.shape[1] != 1:
        return []
    units, d, terms = machine.units_.of_latent(machine.losses_[0]), len(columns), []
    origin = machine.units_.standardised(np.zeros((1, d)))
    ahead = machine.units_.standardised(np.eye(d))
    behind = machine.units_.standardised(np.zeros((d, d)) if base is None else base)
    found = []
    every, basis = p.parent.signal.terms(), machine.basis_
    line = isinstance(basis, PolynomialBasis) and basis.degree == 1
    flat = isinstance(basis, PolynomialBasis) and basis.degree == 0
    if not p.operator.weighs or (len(every) == 1 and (basis is None or flat)):
        parts = zip(names, every, strict=False)
        terms = [(name, term) for name, term in parts if straight(term)]
    scale = float(units.y_scale[0])
    if (line or flat) and not p.operator.weighs:
        mean, std = level(p, origin)
        value = float(mean[0, 0]) * scale + float(units.y_shift[0])
        own = None if std is None else float(std[0]) * scale
        found.append(Coefficient("basis", LEVEL, value, own))
    straights: list[tuple[str, Kernel | None]] = [*terms]
    straights += [("basis", None)] if line and not p.operator.weighs else []
    for name, term in straights:
        mean, std = differences(p, term, ahead, behind)
        for j, column in enumerate(columns):
            if term is None or _sees(term, j):
                own = None if std is None else float(std[j]) * scale
                found.append(Coefficient(name, column, float(mean[j, 0]) * scale, own))
    return found


def _sees(kernel: Kernel, j: int) -> bool:
    """Whether a straight term is one of column j."""
    while isinstance(kernel, Scale):
        kernel = kernel.kernel
    return not isinstance(kernel, Columns) or j in kernel.columns
