"""The steps of a fit in which a classifier differs from a regression, and its probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.estimators.shared import labels
from mercer.estimators.shared.machine import Fit, Given, KernelMachine, column_units
from mercer.estimators.shared.parameters import Draw, Solved
from mercer.estimators.shared.parts import Parts, given_loss
from mercer.estimators.shared.predictions import (
    Classifies,
    latent,
    log_probabilities,
    mixed,
    sides_of_means,
)
from mercer.estimators.shared.table import Table, build_table, read_rows
from mercer.estimators.shared.units import Units
from mercer.inference.base import Problem
from mercer.left_out.cavity import cavities
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.process.process import Posterior


def class_loss(given: Any, others: str, also: str = "") -> Loss:
    """Return the loss that a user gave; refuse one that is not for classes and name ``others``."""
    loss = given_loss(given, also)
    if loss.response not in ("binary", "multiclass"):
        raise ValueError(
            f"{type(loss).__name__} is a loss for {loss.response} targets, not for classes; "
            f"choose {others}"
        )
    return loss


class LabelMachine(Classifies, KernelMachine):
    """A kernel machine that reads labels, sorted as ``classes_``."""

    class_weight: Any

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        X, y = read_rows(self, X, y)
        found = labels.read_labels(y, self.class_weight, sample_weight)
        return Given(X, y, found.weights, getattr(self, "feature_names_in_", None), found)

    def _units(self, given: Given, parts: Parts, table: Table) -> Units:
        joint = parts.loss.response == "multiclass"  # a latent function for each class number
        outputs = len(given.labels.classes) if joint else table.Y.shape[1]
        return column_units(parts, table, outputs)  # targets stay as they are

    def _calibrate(self, fit: Fit) -> None:
        self.classes_ = fit.given.labels.classes


class ClassMachine(LabelMachine):
    """A machine with a loss for classes: probabilities from means and variances of f, averaged.

    Its scores are log odds, unless a child states another ``decision_function``.
    """

    def _check(self, given: Given, parts: Parts) -> None:
        given.labels.check_present()
        if parts.kernel.pairwise and np.any(given.weights == 0.0):
            raise ValueError(
                "a row of weight zero cannot be left out of a matrix of kernel values: drop the "
                "row and its column"
            )

    def _targets(self, given: Given, parts: Parts) -> Array:
        codes, k = given.labels.codes, len(given.labels.classes)
        if parts.loss.response == "multiclass":
            return codes[:, None].astype(np.float64)
        return labels.binary_targets(codes)[:, None] if k == 2 else labels.one_vs_rest(codes, k)

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        flat = Y.shape[1] == 1 and parts.loss.response != "multiclass"
        return build_table(given.X, Y, given.weights, parts.by_row, flat, parts.arrays, alike=True)

    def _pose(self, given: Given, parts: Parts, table: Table, units: Units) -> Problem:
        columns = replace(units, y_shift=np.zeros(1), y_scale=np.ones(1))
        rows = given.labels.rows[table.keep]
        # a row that is left out takes its class weight with it
        gone = given.weights[table.keep] * np.minimum(1.0, 1.0 / rows)
        problem = super()._pose(given, parts, table, columns)
        return replace(problem, row_weights=rows, left_out=gone)

    def _check_basis(self, H: Array) -> None:
        if np.linalg.matrix_rank(H) < H.shape[1]:
            raise ValueError(
                f"the {H.shape[1]} basis functions are linearly dependent on the {len(H)} distinct "
                "training rows; choose a smaller basis"
            )

    def _left_out(
        self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior
    ) -> LeftOut | str:
        """Return the probability of each class for every row, from the cavities."""
        given, table, loss = fit.given.labels, fit.table, draw.loss
        proba = np.empty((len(table.X), len(given.classes)))
        pair = cavities(fit.problem, solved.gram, loss, solved.solution)
        proba[table.keep] = np.exp(log_probabilities(loss, *pair))
        unused = table.weights == 0.0
        if np.any(unused):
            inside = fit.units.standardised(table.X[unused])
            proba[unused] = np.exp(log_probabilities(loss, *latent(posterior, loss, inside)))
        return LeftOut.of_classes(proba, given.codes.astype(np.float64), given.rows)

    # ------------------------------------------------------------------ predictions
    def _latents(self, X: Any, noise: bool) -> list[tuple[Array, Array | None]]:
        """Return mean and variance of f at X for each posterior; see :func:`latent`."""
        inside = self._inputs(X)
        pairs = zip(self.posteriors_, self.losses_, strict=True)
        return [latent(posterior, loss, inside, noise) for posterior, loss in pairs]

    def predict_latent(self, X: Any) -> tuple[Array, Array | None]:
        """Return mean and standard deviation of f at X: (q,), or (q, k) for several classes.

        Noise parts of the kernel are left out. The deviation is None for a mode, which has none.
        Of a committee these are mean and deviation of the mixture.
        """
        pairs = self._latents(X, noise=False)
        own = [v if v is None or v.ndim < 3 else np.diagonal(v, 0, 1, 2) for _, v in pairs]
        mean, variance = mixed([(m, v) for (m, _), v in zip(pairs, own, strict=True)])
        std = None if variance is None else np.sqrt(variance)
        if self.flat_:
            return mean[:, 0], None if std is None else std[:, 0]
        return mean, std

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`; finite."""
        pairs = self._latents(X, noise=True)
        each = [log_probabilities(g, *pair) for g, pair in zip(self.losses_, pairs, strict=True)]
        return np.asarray(np.logaddexp.reduce(each, axis=0) - np.log(len(each)))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``.

        Averaged over the posterior of f: for two classes by a closed form or quadrature to 1e-10,
        for a softmax by a fixed quasi-random rule (see :meth:`mercer.losses.Softmax.predict`), and
        over the members of a committee.
        """
        p = np.exp(self.predict_log_proba(X))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (q,); for several classes the log probabilities.

        Zero, or a tie, exactly where the probabilities tie.
        """
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X: (q,).

        With ``kernel="precomputed"`` X is (q, n), the kernel values of new rows with the training
        rows. They do not say how f varies at the new rows, so that there are no probabilities; of
        two classes the more probable one is known all the same.
        """
        inside = self._inputs(X)
        sides = sides_of_means(self.posteriors_, self.losses_, inside)
        if sides is None:
            sides = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[sides])
