"""One batch of maximum entropy discrimination for several machines, and what it says left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mercer.arrays import Array, Index
from mercer.inference.med import discriminate

FOLDS = 5


@dataclass(frozen=True)
class MEDBatch:
    """A batch with the kernel matrix of its rows and the scores before it.

    Attributes
    ----------
    K : (n, n) kernel matrix.
    Y : (n, k) labels -1 and +1, a column for each machine.
    weights : (n,) weights of the rows.
    before : (n, k) f0, the scores before the batch, without bias.
    biases : (k,) the biases before it.
    """

    K: Array
    Y: Array
    weights: Array
    before: Array
    biases: Array

    def solve(
        self, C: float, rule: str, tol: float, max_iter: int
    ) -> tuple[Array, Array, list[dict[str, Any]]]:
        """Return y * alpha (k, n), the biases (k,) and a report for each machine: Theorem 1.

        ``rule`` is "exact", or "median": the paper's bias, that of y - f over the support vectors.
        """
        coefficients, biases, reports = [], [], []
        machines = zip(np.ascontiguousarray(self.Y.T), self.before.T, self.biases, strict=True)
        for y, f, b in machines:
            found = discriminate(
                self.K,
                y,
                C,
                weights=self.weights,
                offset=f,
                previous=float(b),
                tol=tol,
                max_iter=max_iter,
            )
            held = found.alpha > 0.0
            median = rule == "median" and held.any()
            coefficients.append(y * found.alpha)
            biases.append(np.median((y - found.latent)[held]) if median else found.bias)
            reports.append(found.report)
        return np.array(coefficients), np.array(biases, dtype=np.float64), reports

    def left_out(self, codes: Index, C: float, **options: Any) -> Array | None:
        """Return f without bias (n, k) of each row by a machine that has not seen it: five folds.

        The folds are stratified by ``codes`` (n,), fewer where a class has fewer rows; None if one
        has a single row. The scores before the batch are those of all folds.
        """
        counts = np.bincount(codes)
        folds = int(min(FOLDS, counts[counts > 0].min()))
        if folds < 2 or np.count_nonzero(counts) < 2:
            return None
        scores = np.empty(self.Y.shape)
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        for train, test in split.split(codes, codes):
            part = MEDBatch(
                np.ascontiguousarray(self.K[np.ix_(train, train)]),
                self.Y[train],
                self.weights[train],
                self.before[train],
                self.biases,
            )
            coefficients, _, _ = part.solve(C, **options)
            scores[test] = self.before[test] + self.K[np.ix_(test, train)] @ coefficients.T
        return scores
