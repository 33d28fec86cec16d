"""Which hyperparameters: the space, the hyperpriors, the criteria and the optimiser."""

from mercer.search.criteria import (
    Criterion,
    EvidenceCriterion,
    GramMaker,
    Problem,
    balanced,
    simple_problem,
)
from mercer.search.loo import LooCriterion
from mercer.search.optimize import Optimize, Result, Search
from mercer.search.priors import GammaPrior, HalfNormal, HyperPrior, LogNormal, OwnPrior, Uniform
from mercer.search.space import Space

__all__ = [
    "Criterion",
    "EvidenceCriterion",
    "GammaPrior",
    "GramMaker",
    "HalfNormal",
    "HyperPrior",
    "LogNormal",
    "LooCriterion",
    "Optimize",
    "OwnPrior",
    "Problem",
    "Result",
    "Search",
    "Space",
    "Uniform",
    "balanced",
    "by_name",
    "simple_problem",
]


def by_name(given: object) -> Search | None:
    """Return a Search from None, "evidence", "loo" or a Search."""
    if given is None or isinstance(given, Search):
        return given
    if isinstance(given, str) and given in ("evidence", "loo"):
        return Optimize(criterion=given)
    raise ValueError(f"unknown search {given!r}; known are 'evidence', 'loo', None or a Search")
