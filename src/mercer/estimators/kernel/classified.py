"""ClassMachine: the steps of a fit in which a classifier differs from a regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared import labels
from mercer.estimators.shared.machine import (
    Fit,
    Given,
    KernelMachine,
    column_units,
)
from mercer.estimators.shared.parameters import Draw, Solved
from mercer.estimators.shared.parts import Parts
from mercer.estimators.shared.predictions import ClassProbabilities, latent, log_probabilities
from mercer.estimators.shared.table import Table, build_table, read_rows
from mercer.estimators.shared.units import Units, standardised_basis
from mercer.inference.base import Problem
from mercer.left_out.cavity import cavities
from mercer.left_out.figures import LeftOut
from mercer.process.process import Posterior


def read_classes(machine: Any, X: Any, y: Any, sample_weight: Any) -> Given:
    """Return the rows of a classifier with ``class_weight``; classes are sorted."""
    X, y = read_rows(machine, X, y)
    found = labels.read_labels(y, machine.class_weight, sample_weight)
    names = getattr(machine, "feature_names_in_", None)
    return Given(X, y, found.weights, names, found)


class ClassMachine(ClassProbabilities, KernelMachine):
    """A kernel machine for classes: labels as the loss wants them, columns alone standardised."""

    class_weight: Any

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        given = read_classes(self, X, y, sample_weight)
        assert given.labels is not None
        given.labels.check_present()
        return given

    def _check(self, given: Given, parts: Parts) -> None:
        if parts.kernel.pairwise and np.any(given.weights == 0.0):
            raise ValueError(
                "a row of weight zero cannot be left out of a matrix of kernel values: drop the "
                "row and its column"
            )

    def _targets(self, given: Given, parts: Parts) -> Array:
        assert given.labels is not None
        codes, k = given.labels.codes, len(given.labels.classes)
        if parts.loss.response == "multiclass":
            return codes[:, None].astype(np.float64)
        return labels.binary_targets(codes)[:, None] if k == 2 else labels.one_vs_rest(codes, k)

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        flat = Y.shape[1] == 1 and parts.loss.response != "multiclass"
        return build_table(given.X, Y, given.weights, parts.by_row, flat, parts.arrays, alike=True)

    def _units(self, given: Given, parts: Parts, table: Table) -> Units:
        assert given.labels is not None
        joint = parts.loss.response == "multiclass"  # a latent function for each class number
        outputs = len(given.labels.classes) if joint else table.Y.shape[1]
        return column_units(parts, table, outputs)

    def _pose(self, given: Given, parts: Parts, table: Table, units: Units) -> Problem:
        points = units.standardised(table.points)
        function = standardised_basis(parts.basis, units)
        H = None if function is None else function(points)
        if H is not None and np.linalg.matrix_rank(H) < H.shape[1]:
            raise ValueError(
                f"the {H.shape[1]} basis functions are linearly dependent on the {len(H)} distinct "
                "training rows; choose a smaller basis"
            )
        assert given.labels is not None
        keep = table.keep
        rows = given.labels.rows[keep]
        return Problem(
            points,
            table.mean,
            table.total,
            table.spread,
            H,
            table.group,
            table.Y[keep],
            rows,
            # a row that is left out takes its class weight with it
            left_out=given.weights[keep] * np.minimum(1.0, 1.0 / rows),
        )

    def _left_out(
        self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior
    ) -> LeftOut | str:
        """Return the probability of each class for every row, from the cavities."""
        given, table = fit.given.labels, fit.table
        assert given is not None
        proba = np.empty((len(table.X), len(given.classes)))
        pair = cavities(fit.problem, solved.gram, draw.loss, solved.solution)
        proba[table.keep] = np.exp(log_probabilities(draw.loss, *pair))
        unused = table.weights == 0.0
        if np.any(unused):
            inside = fit.units.standardised(table.X[unused])
            proba[unused] = np.exp(
                log_probabilities(draw.loss, *latent(posterior, draw.loss, inside))
            )
        return LeftOut.of_classes(proba, given.codes.astype(np.float64), given.rows)

    def _calibrate(self, fit: Fit) -> None:
        assert fit.given.labels is not None
        self.classes_ = fit.given.labels.classes
