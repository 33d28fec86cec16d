"""Losses: what is observed. A normalised loss is a likelihood."""

from __future__ import annotations

import difflib
import re

from mercer.losses.absolute import LaplaceNoise, Pinball
from mercer.losses.base import Loss
from mercer.losses.binary import Logistic
from mercer.losses.flip import Flip
from mercer.losses.hinge import Hinge, SquaredHinge
from mercer.losses.huber import Huber
from mercer.losses.margins import Exponential, Margin
from mercer.losses.multiclass import Softmax
from mercer.losses.negative_binomial import NegativeBinomial
from mercer.losses.normaliser import hinge_normaliser, reweight
from mercer.losses.normalized import NormalizedHinge
from mercer.losses.ordinal import Ordinal
from mercer.losses.poisson import Poisson
from mercer.losses.positive import Gamma
from mercer.losses.probit import LaplaceProbit, Probit
from mercer.losses.regression import Gaussian
from mercer.losses.squared_probit import SquaredProbit
from mercer.losses.student import StudentT
from mercer.losses.tube import EpsilonInsensitive

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
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"there is no loss {name!r}{hint} Known are: {', '.join(known)}")
    if name == "ordinal":
        raise ValueError(
            "an ordinal loss needs its cutpoints: pass losses.Ordinal(cutpoints=[...]) itself"
        )
    found: type[Loss] = globals()[known[name]]
    return found()
