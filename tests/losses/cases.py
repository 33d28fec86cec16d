"""The losses under test: the example of every class, found by itself, and more parameters."""

from __future__ import annotations

import importlib
import pkgutil

from mercer import losses
from mercer.losses import Loss

for _module in pkgutil.iter_modules(losses.__path__, "mercer.losses."):
    importlib.import_module(_module.name)


def subclasses(base=Loss):
    found = []
    for child in base.__subclasses__():
        if child.__module__.startswith("mercer.losses"):
            found += [child, *subclasses(child)]
    return sorted(set(found), key=lambda c: c.__name__)


CLASSES = [c for c in subclasses() if not c.abstract]
EXTRA = [
    losses.Gaussian(noise=0.09),
    losses.StudentT(scale=0.3, df=2.5),
    losses.LaplaceNoise(scale=0.25),
    losses.LogisticNoise(scale=0.3),
    losses.StudentThreshold(scale=0.5, df=2.0),
    losses.Huber(noise=0.2, delta=0.4),
    losses.EpsilonInsensitive(C=4.0, epsilon=0.5),
    losses.EpsilonInsensitive(C=2.0, epsilon=0.0),
    losses.Pinball(level=0.9, scale=0.4),
    losses.NegativeBinomial(size=7.0),
    losses.Gamma(shape=6.0),
    losses.Ordinal(cutpoints=[-2.0, -0.5, 0.0, 3.0], link="probit"),
    losses.Probit(scale=0.3),
    losses.Hinge(C=3.0),
    losses.SquaredHinge(C=4.0),
    losses.NormalizedHinge(C=2.0),
    losses.LaplaceProbit(C=3.0),
    losses.Flip(eps=0.1),
    losses.Flip(losses.Logistic(), eps=0.02),
    losses.Flip(losses.NormalizedHinge(), eps=0.2),
    losses.Margin(C=3.0),
    losses.Heteroscedastic(noise=0.3),
    losses.HeteroscedasticT(scale=0.4, df=6.0),
]
ALL = [c.example() for c in CLASSES] + EXTRA
SCALAR = [loss for loss in ALL if not loss.joint]
SMOOTH_STEP = [loss for loss in SCALAR if not (isinstance(loss, losses.Flip) and loss.base is None)]


def name(loss):
    return repr(loss)
