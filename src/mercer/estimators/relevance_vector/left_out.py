"""Rows left out of a relevance vector machine: computed when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.relevance_vector.fit import RelevanceFit
from mercer.estimators.shared.table import Table
from mercer.estimators.shared.units import Units
from mercer.inference.sites.base import cavity
from mercer.process.features import Sparse
from mercer.search.relevance.state import WeightFactor


@dataclass(frozen=True)
class _Fitted:
    """The posterior of one target, p functions at the n distinct rows."""

    process: Sparse
    F: Array  # (p, n)
    mu: Array  # (p,)
    factor: WeightFactor
    a: Array  # (n,)
    b: Array  # (n,)


@dataclass(frozen=True)
class HeldRows:
    """What the figures of rows left out need: the rows, and the posterior of each target."""

    table: Table
    fitted: list[_Fitted]

    @classmethod
    def of(cls, found: list[RelevanceFit], table: Table) -> Self:
        """Keep copies: figures must not change with the caller's arrays."""
        own = {name: getattr(table, name).copy() for name in ("X", "Y", "weights")}
        states = [(one.process, one.state) for one in found]
        fitted = [_Fitted(p, s.F, s.mu, s.factor, s.a, s.b) for p, s in states]
        return cls(replace(table, **own), fitted)

    def moments(self, units: Units, alike: bool) -> tuple[Array, Array]:
        """Latent mean and variance (N, m) of every row from the others, standardised.

        Functions, precisions and noise are held. The posterior of the weights without row r is that
        of a Gaussian site less: the cavity of GPML (3.56), exact for Gaussian noise. Where rows
        were merged, each is left out with at most unit weight; ``alike``: only rows of equal
        targets were. A row of weight zero is predicted from all that count. NaN where the others
        say nothing of a row.
        """
        table, g = self.table, self.table.group
        share = np.minimum(table.weights[table.keep], 1.0) / table.total[g]
        rows, unused = units.y_standardised(table.Y), np.flatnonzero(table.weights == 0.0)
        mean, variance = np.empty((2, len(table.X), len(self.fitted)))
        for j, one in enumerate(self.fitted):
            f, half = one.mu @ one.F, one.factor.half(one.F)
            a = one.a[g]
            if not alike:  # the slope of the row itself, not that of the mean at its point
                a = one.b[g] * (rows[table.keep, j] - f[g])
            with np.errstate(divide="ignore", invalid="ignore"):
                var = np.einsum("ij,ij->j", half, half)
                m, v = cavity(f[g], var[g], a, one.b[g], share)
            proper = (v >= 0.0) & np.isfinite(v) & np.isfinite(m)
            mean[table.keep, j] = np.where(proper, m, np.nan)
            variance[table.keep, j] = np.where(proper, v, np.nan)
            if len(unused):
                inside = units.standardised(table.X[unused])
                mean[unused, j] = one.process.mean(inside)[:, 0]
                variance[unused, j] = one.process.var(inside)
        return mean, variance
