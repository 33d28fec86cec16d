"""The fit of a kernel machine on a table in blocks.

refuse -> open -> facts and a sample (one pass) -> the ordinary search on the sample: kernel, loss
and points -> if asked, climb with all rows -> the passes of the inference -> the posterior

Nothing is known of single rows in the end: the fitted estimator is an ordinary one on inducing
points, and what it predicts, writes to files and says of itself is what it says in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array
from mercer.core.component import Component
from mercer.estimators.blocks.climb import climbed, solved, staged
from mercer.estimators.blocks.facts import TableFacts, Targets, find_facts
from mercer.estimators.blocks.result import adopt, condition, described
from mercer.estimators.blocks.table import BlockTable
from mercer.estimators.shared.inducing import Reduced
from mercer.estimators.shared.labels import NO_LABELS, Labelled, row_weights
from mercer.estimators.shared.machine import Fit, Given, KernelMachine, generator
from mercer.estimators.shared.parameters import Draw
from mercer.estimators.shared.parts import Parts, inducing_of
from mercer.estimators.shared.predictions import Classifies
from mercer.estimators.shared.table import Table, restored_on_error
from mercer.estimators.shared.units import Units, standardised_basis
from mercer.inference import EP, Inference, Primal, Variational
from mercer.inference.blocks.prepared import Prepared
from mercer.kernels.base import Kernel
from mercer.linalg.blocks.checkpoint import Checkpointed
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.representation import TYPICAL, Inducing
from mercer.losses.base import Loss

DRAWN, DRAWN_OF_SITES = 20_000, 5_000  # rows of a sample; of one whose evaluations take many steps
TIMES = 10  # rows of a sample for each point


def asked(machine: Any, name: str, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Fit a machine to a table in blocks; if anything fails, it stays as it was."""
    if name != "fit":
        raise TypeError(
            f"{name} takes the rows of one batch, in memory: read a part of the table for each call"
        )
    with restored_on_error(machine):
        return machine._fit_blocks(BlockTable.of(X, y, sample_weight))


def learned(machine: KernelMachine, table: BlockTable) -> None:
    """Fit a kernel machine; see the module."""
    learner = _on_blocks(machine)
    require_targets(table)
    engine, source = table.opened()
    with table.kept(engine, source, machine) as engine:
        _learn(learner, table, engine, source)
        learner.report_["blocks"] |= described(engine, machine.gram)
    adopt(machine, learner)


def _learn(learner: KernelMachine, table: BlockTable, engine: Engine, source: Any) -> None:
    labelled = isinstance(learner, Classifies)
    parts = _resolved(learner, source.names, source.width, labelled)
    rows = sample_size(table, parts.inducing, parts.inference)
    read = None if labelled else Targets(parts.loss)
    facts = find_facts(engine, labels=labelled, rows=rows, seed=seed_of(learner), read=read)
    named(learner, source.names, source.width)
    fit, factors = _sampled(learner, facts, source.names)
    learner._begin(fit)
    Z = _searched(learner, fit, engine)
    prepared = _prepared(learner, fit, facts, factors)
    given = fit.parts.inducing
    if given is not None and given.move is True and given.max_iter and fit.parts.search is not None:
        found = fit.draws[0], Z, generator(learner.random_state)
        fit.draws[0], Z, told = climbed(engine, prepared, fit.parts, fit.problem, *found)
        fit.report |= {"sample": fit.report["search"], "search": told}
    draw = fit.draws[0]
    solution = solved(engine, prepared, fit.parts.inference, draw.kernel, draw.loss, Z)
    fit.parts.inference.warn(solution.report)
    condition(learner, fit, facts, solution)
    learner._calibrate(fit)
    learner.report_["blocks"] = {"rows": facts.rows, "sample": len(facts.sample.X)}


def require_targets(table: BlockTable) -> None:
    """Refuse a table of which nobody says what is to be learned."""
    if table.y is None:
        raise ValueError("y is missing: name the column with the targets, fit(table, 'price')")


# ---------------------------------------------------------------------- before anything is read
def _on_blocks(machine: KernelMachine) -> KernelMachine:
    """Return a copy of the machine that learns on inducing points; refuse other representations."""
    changed: dict[str, Any] = {"gram": points_for(machine)}
    if getattr(machine, "discriminant", "mean") != "mean":
        raise ValueError("discriminant='mode' needs rows in memory: leave 'mean'")
    return cast(KernelMachine, clone(machine).set_params(**changed))


def points_for(machine: Any) -> Inducing:
    """Return the inducing points of a fit on blocks; refuse what needs all rows at once."""
    given = getattr(machine, "gram", None)
    found = inducing_of(given)
    if found is not None:
        return found
    if given is None or (isinstance(given, str) and given == "auto"):
        return Inducing()
    raise ValueError(
        f"gram={given!r} needs all rows in memory, and this table comes in blocks: give "
        "gram=mercer.linalg.Inducing(m=...), which takes them one block after the other, or read a "
        "sample of the rows into an array"
    )


def _resolved(learner: KernelMachine, names: Any, d: int, labelled: bool) -> Parts:
    """Return the parts of d columns, refused by the rules of the estimator before rows are read.

    "auto" takes what passes over blocks can find: where that is not what serves in memory, the
    variational bound.
    """
    codes = np.arange(2)
    cuts = getattr(getattr(learner, "loss", None), "cuts", None)
    if cuts is not None:
        codes = np.arange(len(cuts()) + 1)
    ones = np.ones(len(codes))
    labels = Labelled(codes, codes, ones, ones) if labelled else NO_LABELS
    given = Given(np.zeros((len(codes), d)), codes.astype(np.float64), ones, names, labels)
    parts = learner._resolve(given)
    chosen = learner.get_params(deep=False).get("inference", None)
    dear = isinstance(parts.inference, EP) or not _takes_blocks(parts.inference)
    if dear and isinstance(chosen, str) and chosen == "auto":
        learner.set_params(inference="variational")
        parts = learner._resolve(given)
    if not _takes_blocks(parts.inference) or parts.loss.latents:
        name = type(parts.inference).__name__
        what = type(parts.loss).__name__ if parts.loss.latents else f"{name} inference"
        raise ValueError(
            f"{what} keeps something for each row between its steps, and blocks keep nothing: use "
            "inference='exact' for Gaussian noise, 'variational' or 'ep' for other likelihoods, "
            "'primal' for the mode of a convex loss (KernelRegressor, KernelClassifier)"
        )
    if isinstance(parts.inference, EP):
        _check_sweeps(parts)
    if parts.loss.of_rows:
        raise ValueError(
            "the loss has a parameter for each row, and rows come in blocks: give sample_weight, "
            "the column of weights 1 / noise, and one noise for all"
        )
    return parts


def _takes_blocks(inference: Inference) -> bool:
    plain = not isinstance(inference, Variational) or inference.get_params()["factors"] is None
    return "quadratic" in inference.needs or (
        isinstance(inference, (Variational, EP, Primal)) and plain
    )


def _check_sweeps(parts: Parts) -> None:
    """Refuse what EP on blocks cannot do."""
    from mercer.inference.blocks.sweeps import check

    check(parts.loss, parts.basis is not None, **parts.inference.get_params())
    if parts.inducing is not None and parts.inducing.move is True:
        raise ValueError(
            "Inducing(move=True) follows the slope of a bound over all rows, and EP has none: use "
            "inference='variational', or Inducing(move=False)"
        )


def sample_size(table: BlockTable, given: Inducing | None, inference: Inference) -> int:
    """Return how many rows are drawn."""
    if table.sample is not None:
        if not isinstance(table.sample, (int, np.integer)) or table.sample < 2:
            raise ValueError(f"sample must be a number of rows, at least 2, not {table.sample!r}")
        return int(table.sample)
    m = TYPICAL if given is None or isinstance(given.m, str) else given.m
    count = int(m) if isinstance(m, (int, np.integer)) else len(m)
    few = inference.has_evidence and "quadratic" not in inference.needs
    return max(DRAWN_OF_SITES if few else DRAWN, TIMES * count)


def seed_of(machine: Any) -> int:
    """Return the seed of the keys by which rows are drawn."""
    given = getattr(machine, "random_state", None)
    if given is None or isinstance(given, (int, np.integer)):
        return int(given or 0)
    return int(generator(given).integers(1 << 31))


def named(learner: Any, names: Any, d: int) -> None:
    """Keep number and names of the columns, as scikit-learn does."""
    learner.n_features_in_ = d
    vars(learner).pop("feature_names_in_", None)
    if names is not None:
        learner.feature_names_in_ = np.array(names, dtype=object)


# ---------------------------------------------------------------------- the sample
def _sampled(learner: KernelMachine, facts: TableFacts, names: Any) -> tuple[Fit, Array | None]:
    """Return the fit of the sample in the units of all rows, and the weight of each class."""
    s, factors, labels = facts.sample, None, NO_LABELS
    weights = s.w
    if len(facts.classes):
        labels, factors = labelled_sample(learner, facts)
        weights = labels.weights
    given = Given(s.X, s.y, weights, names, labels)
    parts = learner._resolve(given)
    learner._check(given, parts)
    table = learner._merge(given, parts, learner._targets(given, parts))
    if given.labels is NO_LABELS:
        parts.free_constant(len(table.points))
    units = _units(learner, given, parts, table, facts, factors)
    return Fit(given, parts, table, units, learner._pose(given, parts, table, units)), factors


def _searched(learner: KernelMachine, fit: Fit, engine: Engine) -> Array:
    """Find kernel and loss by the ordinary search on the sample; return the points (m, d).

    A bound pays for what its points leave unexplained, by columns that it gives up (decision 0062).
    With sites, where nothing else says how much noise there is, the evidence of rows without points
    decides alone; with Gaussian noise the bound of the sample goes on, and raises the noise.
    """

    def make() -> dict[str, Any]:
        given = fit.parts.inducing
        if given is not None and "quadratic" not in fit.parts.inference.needs:
            fit.parts.inducing = Inducing(**given.get_params() | {"max_iter": 0})
        try:
            learner._search(fit)
        finally:
            fit.parts.inducing = given
        draw, Z = fit.draws[0], cast(Reduced, fit.parts.make_gram).points
        parts = {"kernel": draw.kernel.to_dict(), "loss": draw.loss.to_dict()}
        return parts | {"points": Z, "report": fit.report, "scored": draw.scored}

    found = staged(engine, "sample", make)
    if isinstance(engine, Checkpointed):  # as an earlier run of this fit has written it, or this
        kernel, loss = (Component.from_dict(found[part], _class_of) for part in ("kernel", "loss"))
        assert isinstance(kernel, Kernel)
        assert isinstance(loss, Loss)
        fit.draws = [Draw(kernel, loss, scored=found["scored"])]
        fit.parts.loss, fit.report = loss, found["report"]
    return np.asarray(found["points"])


def _class_of(name: str) -> type[Component]:
    """Return the class of a part by its name in files; your own are among them."""
    waiting: list[type[Component]] = [Component]
    while waiting:
        found = waiting.pop()
        if found.part_name() == name:
            return found
        waiting += found.__subclasses__()
    raise ValueError(f"the checkpoint holds a {name}, which is not known here: import it first")


def labelled_sample(learner: Any, facts: TableFacts) -> tuple[Labelled, Array | None]:
    """Return the labels of the sample among all classes, and the class weights of all rows."""
    s, k = facts.sample, len(facts.classes)
    codes = np.searchsorted(facts.classes, s.y).astype(np.intp)
    # those of all rows: one row of each class that counts as much as its rows
    by_class = row_weights(learner.class_weight, facts.classes, np.arange(k), facts.counts)
    factors = np.divide(by_class, facts.counts, out=np.ones(k), where=facts.counts > 0.0)
    labels = Labelled(facts.classes, codes, s.w, s.w * factors[codes], facts.counts)
    return labels, None if learner.class_weight is None else factors


def _units(
    learner: KernelMachine,
    given: Given,
    parts: Parts,
    table: Table,
    facts: TableFacts,
    factors: Array | None,
) -> Units:
    """Return the units of all rows; a median, which no sum gives, is that of the sample."""
    units = learner._units(given, parts, table)
    if not parts.standardize:
        return units
    x_shift, x_scale, _ = facts.x.location_scale(factors)
    units = replace(units, x_shift=x_shift, x_scale=x_scale)
    loss = parts.loss
    if given.labels is not NO_LABELS:
        return units
    if loss.response == "positive":
        return replace(units, y_scale=np.exp(facts.y_log))
    if loss.offers("quadratic") and loss.offers("in_units"):
        y_shift, y_scale, _ = facts.y.location_scale()
        return replace(units, y_shift=y_shift, y_scale=y_scale)
    return units


# ---------------------------------------------------------------------- all rows
def _prepared(
    learner: KernelMachine, fit: Fit, facts: TableFacts, factors: Array | None
) -> Prepared:
    """Return what turns a block into rows in the units of the fit."""
    units, parts = fit.units, fit.parts
    basis = standardised_basis(parts.basis, units)
    own: dict[str, Any] = {"y_shift": units.y_shift, "y_scale": units.y_scale}
    own["read"] = Targets(parts.loss)
    k = len(facts.classes)
    if k:
        own = {"classes": facts.classes, "class_weights": factors, "coding": "codes"}
        if parts.loss.response not in ("multiclass", "ordinal"):
            own |= {"coding": "signed" if k == 2 else "rest"} | _coded(learner, fit, facts)
    return Prepared(units.x_shift, units.x_scale, basis=basis, **own)


def _coded(learner: KernelMachine, fit: Fit, facts: TableFacts) -> dict[str, Array]:
    """Return shift and scale that turn -1 and +1 into the targets of the machine."""
    k, g = len(facts.classes), fit.given
    labels = Labelled(facts.classes, np.arange(k), facts.counts, facts.counts)
    given = replace(g, labels=labels, weights=facts.counts)
    T = learner._targets(given, fit.parts)
    column = np.arange(T.shape[1])
    own = np.array([1]) if k == 2 else column
    plus, minus = T[own, column], T[(own + 1) % k, column]
    return {"y_shift": -(plus + minus) / (plus - minus), "y_scale": 2.0 / (plus - minus)}
