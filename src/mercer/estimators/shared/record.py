"""The record of a kernel machine: what every estimator with a posterior keeps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.core.arrays import Array
from mercer.core.basis import Basis
from mercer.core.kinds import Labels, Numbers, PartOf, Plain, PlainReport, Record
from mercer.core.record import COLUMNS, Each, Fields, Later, Maybe, Recorded
from mercer.estimators.shared.units import Units, standardised_basis
from mercer.inference.base import Problem
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.process.record import POSTERIOR

UNITS = Fields(
    Units,
    {
        "x_shift": Numbers("d"),
        "x_scale": Numbers("d", 0.0, above=True),
        "y_shift": Numbers("m"),
        "y_scale": Numbers("m", 0.0, above=True),
    },
)


# figures of rows left out: they do not exist where the others say nothing
_TARGETS, _MARGINS = (Maybe(Numbers(shape, finite=False)) for shape in ("N | N m", "N m"))
LEFT_OUT = Fields(
    LeftOut,
    {
        "weights": Numbers("N", 0.0),
        "mean": _TARGETS,
        "variance": _TARGETS,
        "log_density": _TARGETS,
        "proba": Maybe(Numbers("N c", finite=False)),
        "codes": Maybe(Numbers("N")),
        "margin": _MARGINS,
        "bound": _MARGINS,
        "reason": Maybe(Plain(str)),
        "quantiles": Later(Numbers("N p")),
    },
)


@dataclass(frozen=True)
class Observed:
    """The targets of a fit in its own units, where the posterior alone does not say them."""

    y: Array  # (n, l) at the points of the posterior, as the loss wants them
    weights: Array  # (n,)

    @classmethod
    def of(cls, problem: Problem, points: Array) -> Observed | None:
        """Return those of a problem; None if the posterior stands on other points than it."""
        return cls(problem.y, problem.weights) if len(points) == len(problem.points) else None


OBSERVED = Fields(
    Observed, {"y": Numbers("o l"), "weights": Numbers("o", 0.0, above=True)}, own="o l"
)


def check_left_out(found: LeftOut | None, flat: bool) -> None:
    """Refuse figures of another shape than the targets, which are ``flat`` or have columns."""
    if found is None or found.codes is not None or found.quantiles is not None:
        return
    figures = (found.mean, found.variance, found.log_density)
    if any(figure is None or (figure.ndim == 1) != flat for figure in figures):
        raise ValueError("the leave-one-out figures do not have the shape of the targets")


def link_shared(posteriors: list[Any]) -> None:
    """Give members that share the operator C of the one before them that operator."""
    owner = posteriors[0]
    for posterior in posteriors:
        if not posterior.follows:
            owner = posterior
            continue
        same = owner is not posterior and np.array_equal(owner.points, posterior.points)
        if not same or owner.parent.kernel != posterior.parent.kernel:
            raise ValueError("a posterior shares the operator of another one, which is not there")
        posterior.operator.of = owner.operator


class MachineRecord(Recorded):
    """What :class:`~mercer.estimators.shared.machine.KernelMachine` writes to a model file."""

    units_: Units
    basis_: Basis | None
    flat_: bool
    log_evidence_: float | None
    report_: dict[str, Any]
    left_out_: LeftOut | None
    posteriors_: list[Any]  # a Process each, of the kinds that are recorded
    observed_: Observed | None
    losses_: list[Loss]

    @classmethod
    def _record(cls) -> Record:
        # d columns, m outputs, N rows left out, p posteriors of n points with b basis functions
        classes = {"classes_": Labels()} if issubclass(cls, ClassifierMixin) else {}
        return {
            **COLUMNS,
            **classes,
            "units_": UNITS,
            "basis_": Maybe(PartOf(Basis)),
            "kernel_": PartOf(Kernel),
            "loss_": PartOf(Loss),
            "flat_": Plain(bool),
            "log_evidence_": Maybe(Plain(float, finite=False)),
            "report_": PlainReport(),
            "left_out_": Maybe(LEFT_OUT),
            "relevance_": Maybe(Numbers("d", 0.0)),
            "posteriors_": Each(POSTERIOR, "p", least=1),
            "losses_": Each(PartOf(Loss), "p"),
            "observed_": Later(OBSERVED),
        }

    def _restored(self) -> None:
        link_shared(self.posteriors_)
        basis = self.basis_
        for posterior in self.posteriors_:
            if (basis is None) != (posterior.beta is None):
                raise ValueError("there are coefficients of a basis, but no basis, or the reverse")
            if basis is not None and posterior.beta is not None:
                d, k = len(self.units_.x_scale), len(posterior.beta)
                if basis.size(d) not in (None, k):  # before its functions are formed
                    raise ValueError(f"{basis!r} does not have {k} functions of {d} columns")
                posterior.basis = standardised_basis(basis, self.units_)

    def _check_fitted(self) -> None:
        """Refuse parts that do not fit the arrays: predict some of the points."""
        m = len(self.units_.y_scale)
        if self.flat_ and m != 1:
            raise ValueError(f"flat targets have one output, not {m}")
        classes, grades = getattr(self, "classes_", None), getattr(self.losses_[0], "cuts", None)
        functions = max(2, m) if grades is None else len(grades()) + 1
        if classes is not None and len(classes) != functions:
            raise ValueError(f"{len(classes)} classes do not have {m} latent functions")
        check_left_out(self.left_out_, self.flat_)
        observed = self.observed_
        if observed is not None and len(observed.y) != len(self.posteriors_[0].points):
            raise ValueError("there are not as many targets as points")
        for posterior, loss in zip(self.posteriors_, self.losses_, strict=True):
            points = posterior.points[:: 1 + len(posterior.points) // 8]
            if posterior.operator.weighs:  # it has no points
                points = np.ones((1, len(self.units_.x_scale)))
            q, mean, f = len(points), posterior.mean(points), len(loss.latents) or m
            fine = bool(mean.shape == (q, f) and np.isfinite(mean).all())
            if posterior.has_spread and not posterior.parent.kernel.pairwise:
                blocks = posterior.blocks(points)
                fine &= bool(blocks.shape == (q, f, f) and np.isfinite(blocks).all())
                variances = np.diagonal(blocks, axis1=1, axis2=2)
                if posterior.beta is None:  # with another kernel they are far below zero
                    prior = posterior.parent.variances(points)
                    fine &= bool((variances >= -1e-6 * prior).all())
                loss.predict(mean, blocks if loss.joint else variances)
            if not fine:
                raise ValueError("the parts of the model do not belong to its arrays")
        if classes is not None:
            first = self.units_.in_user_units(points[:1])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # this row has no column names
                self.predict(first)  # type: ignore[attr-defined]  # a classifier has it
