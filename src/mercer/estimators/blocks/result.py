"""What a fit on blocks ends in: an ordinary fitted machine, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.estimators.blocks.facts import TableFacts
from mercer.estimators.shared.machine import Fit, KernelMachine
from mercer.estimators.shared.parts import inducing_of
from mercer.estimators.shared.predictions import infinite_variance
from mercer.estimators.shared.units import (
    describe_units,
    flat_words,
    standardised_basis,
    up_to,
)
from mercer.inference.blocks.prepared import BlockSolution
from mercer.kernels.stationary.base import relevance
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.operators import ExplicitOperator
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior

LEFT_OUT = (
    "a fit on blocks keeps nothing of single rows: hold some out and call score, or the methods "
    "that predict, on them"
)


def condition(learner: KernelMachine, fit: Fit, facts: TableFacts, found: BlockSolution) -> None:
    """Set the fitted attributes."""
    draw, parts, units = fit.draws[0], fit.parts, fit.units
    operator = ExplicitOperator(None) if found.operator is None else found.operator
    basis = standardised_basis(parts.basis, units)
    prior = Prior(draw.kernel, found.alpha.shape[1])
    posterior = Posterior(prior, found.support, found.alpha, operator, beta=found.beta, basis=basis)
    learner.posteriors_, learner.losses_ = [posterior], [draw.loss.for_new()]
    learner.units_, learner.basis_, learner.flat_ = units, parts.basis, fit.table.flat
    learner.observed_, learner.left_out_ = None, None
    learner.kernel_ = learner._stated_kernel(fit, draw)
    learner.loss_ = units.loss_in_user_units(draw.loss)
    # of all rows, whose total weight the change of units counts
    whole = replace(fit, problem=replace(fit.problem, row_weights=np.array([facts.weight])))
    learner.log_evidence_ = None
    if parts.inference.has_evidence and draw.scored and draw.loss.normalised:
        learner.log_evidence_ = learner._in_user_units(whole, found.value)
    learner.relevance_ = relevance(draw.kernel, fit.problem.points, fit.problem.weights)
    details = found.report.details
    fit.report.setdefault("inducing", {}).update(described_points(found))
    fit.report |= {
        "standardize": {"on": parts.standardize} | describe_units(units),
        "rows": {"used": facts.used, "weight": facts.weight},
        "inference": {"name": type(parts.inference).__name__, **found.report.plain()},
        "gram": "inducing",
        "degrees_of_freedom": details.get("degrees_of_freedom"),
        "left_out": LEFT_OUT,
        "density": _density(learner, fit, facts, draw.loss),
    }
    learner.report_ = fit.report
    if said := infinite_variance(learner.loss_):
        learner.report_["variance"] = said


def _density(learner: KernelMachine, fit: Fit, facts: TableFacts, loss: Loss) -> dict[str, Any]:
    """Return what the evidence is a density of; the table is known by its sample and its size."""
    found = learner._density(fit, loss)
    machines = 1 if loss.response == "multiclass" else fit.table.Y.shape[1]
    flat = up_to(flat_words(fit.parts.basis, fit.table.points, fit.table.total))
    found |= {"evidence": learner._measures(loss, machines)[0] + flat, "left_out": None}
    if len(facts.sample.X) < facts.used:
        found |= {name: f"{found[name]}/{facts.rows}" for name in ("targets", "rows")}
    return found


def described_points(found: BlockSolution) -> dict[str, Any]:
    """Return what became of the points, and how much of the prior variance they explain."""
    details = found.report.details
    found_of = {name: details[name] for name in ("explained", "jitter") if name in details}
    told: dict[str, Any] = {"points": len(found.support), "dropped": int((~found.used).sum())}
    return told | found_of


def described(engine: Engine, gram: Any) -> dict[str, Any]:
    """Return what ``report_["blocks"]`` says: where the rows were, and how often they were read."""
    found: dict[str, Any] = {
        "engine": type(engine).__name__,
        "blocks": engine.blocks,
        "passes": engine.passes,
    }
    if inducing_of(gram) is None:
        found["gram"] = "the table comes in blocks: gram='auto' took Inducing() with its defaults"
    return found


def adopt(machine: Any, learner: Any) -> None:
    """Give a machine what a copy of it has learned."""
    own = learner.get_params(deep=False)
    vars(machine).update({name: v for name, v in vars(learner).items() if name not in own})
