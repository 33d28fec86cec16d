"""Every inference, with every sort of loss that it takes, fulfils the shipped contract."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import inference as inferences
from mercer import losses
from mercer.inference import Inference
from mercer.kernels import RBF
from mercer.testing import check_inference

X = np.linspace(0.0, 6.0, 12)[:, None]
REAL = np.sin(X) + 0.3 * np.cos(5.0 * X)
TARGETS = {
    "real": REAL,
    "count": np.round(np.exp(1.0 + np.sin(X))),
    "binary": np.where(np.sin(2.0 * X) > 0.0, 1.0, -1.0),
    "positive": np.exp(REAL),
    "ordinal": np.digitize(REAL, [-0.7, 0.4]).astype(float),
    "multiclass": np.resize([0.0, 1.0, 2.0], (12, 1)),
}
LOSSES = [
    losses.Gaussian(0.3),
    losses.Logistic(),
    losses.Probit(),
    losses.Poisson(),
    losses.NegativeBinomial(2.0),
    losses.Gamma(2.0),
    losses.Ordinal([-0.7, 0.4]),
    losses.StudentT(0.4, 5.0),
    losses.LaplaceNoise(0.4),
    losses.Huber(0.3, 0.8),
    losses.Hinge(2.0),
    losses.Margin(2.0),
    losses.Pinball(0.3),
    losses.EpsilonInsensitive(2.0, 0.1),
    losses.Softmax(),
]


HOUSE = (
    "bound",
    "dual",
    "ep",
    "exact",
    "laplace",
    "mcmc",
    "med",
    "newton",
    "primal",
    "smo",
    "variational",
)


# The slowest two: every day with a loss of each sort, among the slow tests with the others.
DAILY = {
    "Dual": {"Gaussian", "Hinge", "Poisson", "LaplaceNoise"},
    "MCMC": {"Gaussian", "Logistic", "StudentT", "Softmax"},
}


def taken():
    """Yield every inference of the house with the losses that it does not refuse."""
    for name in inferences.__all__:
        cls = getattr(inferences, name)
        if not (isinstance(cls, type) and issubclass(cls, Inference)) or cls is Inference:
            continue
        for loss in LOSSES:
            try:
                cls.example().check(loss)
            except ValueError:
                continue
            said = type(loss).__name__
            marks = () if said in DAILY.get(name, {said}) else pytest.mark.slow
            yield pytest.param(cls.example(), loss, id=f"{name}-{said}", marks=marks)


TAKEN = list(taken())


@pytest.mark.parametrize(("inference", "loss"), TAKEN)
def test_contract(inference, loss):
    check_inference(inference, loss, X, TARGETS[loss.response], 1.5 * RBF(1.2))


def test_every_inference_takes_some_loss():
    found = {str(case.id).partition("-")[0] for case in TAKEN}
    assert found == set(inferences.__all__) & {
        cls.__name__ for cls in Inference.known_names().values() if isinstance(cls, type)
    }
