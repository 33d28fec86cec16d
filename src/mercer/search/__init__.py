"""Which hyperparameters: the space, the hyperpriors, the criteria and the optimiser."""

from mercer.inference.base import Problem
from mercer.sampling.mixing import ess_bulk, ess_tail, rhat
from mercer.search.criteria.evidence import (
    Criterion,
    EvidenceCriterion,
    GramMaker,
    balanced,
    simple_problem,
    times,
)
from mercer.search.criteria.left_out import (
    LooBound,
    LooBoundCriterion,
    LooCriterion,
    PlscCriterion,
)
from mercer.search.hmc.hmc import HMC
from mercer.search.optimize import Optimize, Result, Search
from mercer.search.priors import (
    FlatBelow,
    GammaPrecision,
    GammaPrior,
    HalfNormal,
    HyperPrior,
    LogNormal,
    OwnPrior,
    Uniform,
)
from mercer.search.space import Space

__all__ = [
    "HMC",
    "Criterion",
    "EvidenceCriterion",
    "FlatBelow",
    "GammaPrecision",
    "GammaPrior",
    "GramMaker",
    "HalfNormal",
    "HyperPrior",
    "LogNormal",
    "LooBound",
    "LooBoundCriterion",
    "LooCriterion",
    "Optimize",
    "OwnPrior",
    "PlscCriterion",
    "Problem",
    "Result",
    "Search",
    "Space",
    "Uniform",
    "balanced",
    "by_name",
    "ess_bulk",
    "ess_tail",
    "rhat",
    "simple_problem",
    "times",
]

by_name = Search.given
