"""What every loss owes its users: export, example, texts, refusals, persistence, calm far away."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from mercer import losses
from mercer.core.component import Component
from mercer.losses import Loss
from mercer.testing import check_loss
from mercer.testing.loss import exponential

from .cases import ALL, CLASSES, SCALAR, name


def resolve(part):
    room, _, cls = part.rpartition(".")
    assert room == "losses"
    return getattr(losses, cls)


def test_exports_are_sorted_and_complete():
    assert losses.__all__ == sorted(losses.__all__)
    classes = {name for name in losses.__all__ if isinstance(getattr(losses, name), type)}
    assert {c.__name__ for c in CLASSES} | {"Loss", "SeveralLatents"} == classes


def kind(loss):
    """What makes a loss another one, and not the same with other numbers."""
    return type(loss), type(getattr(loss, "base", None)), getattr(loss, "link", None)


KINDS = [kind(loss) for loss in ALL]
AGAIN = [
    pytest.param(loss, marks=pytest.mark.slow if KINDS[i] in KINDS[:i] else [])
    for i, loss in enumerate(ALL)
]


@pytest.mark.parametrize("loss", AGAIN, ids=name)
def test_contract(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", ALL, ids=name)
def test_dictionary_names_the_room(loss):
    assert Component.from_dict(loss.to_dict(), resolve) == loss


@pytest.mark.parametrize("loss", SCALAR, ids=name)
def test_few_losses_may_be_infinite(loss, rng):
    """The contract lets a loss that grows exponentially be infinite far out: these alone."""
    steep = type(loss).__name__ in ("Poisson", "Exponential", "Gamma")
    assert exponential(loss, loss.example_targets(rng, 6)) == steep


@pytest.mark.parametrize("loss", [loss for loss in SCALAR if loss.response == "binary"], ids=name)
def test_binary_losses_treat_both_labels_alike(loss):
    """So that the contract compares them: all but the one with an offset."""
    f = np.linspace(-3.0, 3.0, 9)
    np.testing.assert_allclose(loss.value(np.ones(9), f), loss.value(-np.ones(9), -f), atol=1e-12)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_class_has_example_and_texts(cls):
    assert type(cls.example()) is cls
    assert "Reference" in cls.__doc__
    assert ">>>" in cls.__doc__
    for own in vars(cls).values():
        if callable(own) and not own.__name__.startswith("_"):
            assert inspect.getdoc(own)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (losses.Gaussian(), [0.0, np.nan], "row 1 is nan"),
        (losses.Poisson(), [1, 2, -3], "row 2 is -3"),
        (losses.Poisson(), [1, 2.5], "row 1 is 2.5"),
        (losses.Gamma(), [1.0, 0.0], "row 1 is 0"),
        (losses.Logistic(), [0, 1], "encode the two classes"),
        (losses.Hinge(), [1, -1, 2], "row 2 is 2"),
        (losses.Ordinal([0.0]), [0, 1, 2], "more cutpoints"),
        (losses.Softmax(), [0, 1, -1], "row 2"),
        (losses.Gaussian(), ["a", "b"], "numeric"),
        (losses.Logistic(), [[1, 1], [1, -1]], "shape"),
    ],
)
def test_bad_targets_are_refused(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.check_targets(y)


@pytest.mark.parametrize(
    "make",
    [
        lambda: losses.Gaussian(noise=-1.0),
        lambda: losses.Gaussian(noise=[[1.0]]),
        lambda: losses.Gaussian(noise="a"),
        lambda: losses.StudentT(df=0.0),
        lambda: losses.LaplaceNoise(scale=np.inf),
        lambda: losses.Huber(delta=-1),
        lambda: losses.EpsilonInsensitive(epsilon=-0.1),
        lambda: losses.Pinball(level=1.0),
        lambda: losses.NegativeBinomial(size=0),
        lambda: losses.Gamma(shape=None),
        lambda: losses.Ordinal([1.0, 1.0]),
        lambda: losses.Ordinal([1.0], link="cloglog"),
        lambda: losses.Probit(scale=0.0),
        lambda: losses.Margin(C=1.0),
        lambda: losses.Flip(eps=0.5),
        lambda: losses.Flip(losses.Hinge()),
        lambda: losses.Flip(losses.Gaussian()),
    ],
)
def test_senseless_parameters_are_refused(make):
    with pytest.raises(ValueError, match=r"needs|knows"):
        make()


def test_by_name():
    assert losses.by_name("student_t") == losses.StudentT()
    for cls in CLASSES:
        if cls not in (losses.Ordinal, losses.Binomial):
            word = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__)[1:]
            assert type(losses.by_name(word)) is cls
    with pytest.raises(ValueError, match=r"did you mean 'logistic'\?.*Known are: .*student_t"):
        losses.by_name("logistik")
    with pytest.raises(ValueError, match="cutpoints"):
        losses.by_name("ordinal")


def test_what_is_absent_says_so():
    assert not losses.Hinge.offers("predict")
    assert not losses.Logistic.offers("quantile")
    assert not losses.StudentT.offers("conjugate")
    assert not losses.Poisson.offers("quadratic")
    assert not losses.Probit.offers("quadratic_bound")
    assert not losses.Softmax.offers("tilted")
    assert not losses.Gaussian.offers("no_such_thing")
    assert losses.Logistic.offers("quadratic_bound")
    assert losses.Gaussian.offers("quadratic")
    assert losses.Poisson.offers("quantile")
    with pytest.raises(NotImplementedError, match=r"Hinge has no predict: .*normalised loss"):
        losses.Hinge().predict(0.0, 1.0)
    with pytest.raises(NotImplementedError, match=r"Flip has no conjugate: .*not convex"):
        losses.Flip().conjugate(1.0, 0.0)
    with pytest.raises(NotImplementedError, match=r"Poisson has no quadratic: .*exact"):
        losses.Poisson().quadratic(np.ones(2))


def test_variance_must_be_positive():
    with pytest.raises(ValueError, match="variance v must be positive"):
        losses.Logistic().tilted(1.0, 0.0, 0.0)


class Cauchy(Loss):
    """A loss that states its value and no more."""

    convex = False

    def value(self, y, f):
        return np.log1p(np.square(y - f)) + np.log(np.pi)


def test_value_alone_is_a_loss(rng):
    own, ours = Cauchy(), losses.StudentT(scale=1.0, df=1.0)
    y, f, v = rng.normal(size=8), 2 * rng.normal(size=8), rng.gamma(2.0, size=8)
    for a, b, tol in zip(
        own.derivatives(y, f), ours.derivatives(y, f), (1e-12, 1e-10, 1e-7), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=tol)
    for method in ("tilted", "expected"):
        for a, b in zip(getattr(own, method)(y, f, v), getattr(ours, method)(y, f, v), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
    assert not Cauchy.offers("predict")
    assert not Cauchy.offers("conjugate")
