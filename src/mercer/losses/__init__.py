"""Losses: what is observed. A normalised loss is a likelihood."""

from __future__ import annotations

import difflib
import re

from mercer.losses.base import Loss
from mercer.losses.binary.flip import Flip
from mercer.losses.binary.hinge import (
    Hinge,
    NormalizedHinge,
    SquaredHinge,
    hinge_normaliser,
    reweight,
)
from mercer.losses.binary.logistic import Logistic
from mercer.losses.binary.margins import Exponential, Margin
from mercer.losses.binary.probit import LaplaceProbit, Probit
from mercer.losses.binary.squared_probit import SquaredProbit
from mercer.losses.counts import NegativeBinomial, Poisson
from mercer.losses.ordinal import Ordinal
from mercer.losses.positive import Gamma
from mercer.losses.real.absolute import EpsilonInsensitive, LaplaceNoise, Pinball
from mercer.losses.real.gaussian import Gaussian
from mercer.losses.real.huber import Huber
from mercer.losses.real.student import StudentT
from mercer.losses.softmax import Softmax

__all__ = [
    "EpsilonInsensitive",
    "Exponential",
    "Flip",
    "Gamma",
    "Gaussian",
    "Hinge",
    "Huber",
    "LaplaceNoise",
    "LaplaceProbit",
    "Logistic",
    "Loss",
    "Margin",
    "NegativeBinomial",
    "NormalizedHinge",
    "Ordinal",
    "Pinball",
    "Poisson",
    "Probit",
    "Softmax",
    "SquaredHinge",
    "SquaredProbit",
    "StudentT",
    "by_name",
    "hinge_normaliser",
    "reweight",
]


def by_name(name: str) -> Loss:
    """Return the loss of that name with its default parameters: "gaussian", "student_t", ...

    The name is the class's, in lower case with underscores.

    Examples
    --------
    >>> by_name("negative_binomial")
    NegativeBinomial()
    """
    known = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", c).lower(): c
        for c in __all__
        if c != "Loss" and isinstance(globals()[c], type)
    }
    if name not in known:
        close = difflib.get_close_matches(str(name).lower(), known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"there is no loss {name!r}{hint}; known: {', '.join(known)}")
    if name == "ordinal":
        raise ValueError(
            "an ordinal loss needs its cutpoints: pass losses.Ordinal(cutpoints=[...]) itself"
        )
    cls: type[Loss] = globals()[known[name]]
    return cls()
