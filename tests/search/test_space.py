"""The space of free parameters: coordinates, bounds, priors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from mercer.core.component import REAL
from mercer.kernels import RBF, Categorical, Scale
from mercer.losses import Gaussian
from mercer.search import (
    FlatBelow,
    GammaPrecision,
    GammaPrior,
    HalfNormal,
    LogNormal,
    OwnPrior,
    Space,
    Uniform,
)


def test_fixed_parameters_are_left_out() -> None:
    kernel = (2.0 * RBF(length_scale=np.array([1.0, 2.0]))).fix("variance")
    space = Space({"kernel": kernel, "loss": Gaussian(noise=0.5)})
    assert space.names == ["kernel__kernel__length_scale", "loss__noise"]
    assert len(space) == 3
    moved = space.parts_at(space.start + 1.0)
    assert moved["kernel"].get_params()["variance"] == 2.0
    np.testing.assert_allclose(
        moved["kernel"].get_params()["kernel__length_scale"], np.e * np.array([1.0, 2.0])
    )


def test_parts_are_not_changed() -> None:
    kernel = 2.0 * RBF()
    space = Space({"kernel": kernel})
    space.parts_at(space.start + 3.0)
    assert kernel == 2.0 * RBF()


def test_bounds_are_kept() -> None:
    space = Space({"kernel": RBF(length_scale=1.0).bound(length_scale=(0.5, 2.0))})
    np.testing.assert_allclose(space.bounds, np.log([[0.5, 2.0]]))


def test_start_on_the_edge_is_refused() -> None:
    with pytest.raises(ValueError, match="edge of its domain"):
        Space({"kernel": Scale(RBF(), 0.0)})


@pytest.mark.parametrize(
    ("prior", "density"),
    [
        (LogNormal(0.3, 0.7), stats.lognorm(0.7, scale=np.exp(0.3))),
        (GammaPrior(2.5, 1.5), stats.gamma(2.5, scale=1 / 1.5)),
        (GammaPrecision(2.0, 3.0), stats.invgamma(1.5, scale=0.75)),
        (HalfNormal(1.3), stats.halfnorm(scale=1.3)),
        (Uniform(0.1, 4.0), stats.uniform(0.1, 3.9)),
    ],
)
def test_priors_are_densities(prior: object, density: object) -> None:
    theta = np.array([0.2, 1.0, 3.3])
    np.testing.assert_allclose(prior.log_density(theta), density.logpdf(theta), rtol=1e-12)  # type: ignore[attr-defined]
    h = 1e-6
    slope = (prior.log_density(theta + h) - prior.log_density(theta - h)) / (2 * h)  # type: ignore[attr-defined]
    np.testing.assert_allclose(prior.slope(theta), slope, atol=1e-8)  # type: ignore[attr-defined]


def test_gamma_on_the_precision_of_a_deviation() -> None:
    """(3.33): tau = rho^-2 is Gamma of mean mu and variance 2 mu^2 / alpha, whatever rho is."""
    prior = GammaPrecision(mean=0.7, alpha=5.0, power=2.0)
    tau = stats.gamma(2.5, scale=0.7 / 2.5)
    assert tau.mean() == pytest.approx(0.7)
    assert tau.var() == pytest.approx(2 * 0.7**2 / 5.0)
    rho = np.array([0.4, 1.1, 2.0])
    expected = tau.logpdf(rho**-2.0) + np.log(2.0 * rho**-3.0)
    np.testing.assert_allclose(prior.log_density(rho), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "prior",
    [
        LogNormal(),
        GammaPrior(),
        GammaPrecision(1.5, 3.0, 2.0),
        FlatBelow(0.8, 1.5),
        HalfNormal(),
        Uniform(0.1, 5.0),
        OwnPrior.example(),
    ],
)
def test_prior_gradient_in_the_search_coordinate(prior: object) -> None:
    space = Space({"kernel": RBF(length_scale=np.array([0.7, 2.0])).prior(length_scale=prior)})  # type: ignore[arg-type]
    _, gradient = space.log_prior(space.start)
    h = 1e-6
    for i, move in enumerate(h * np.eye(2)):
        up, down = space.log_prior(space.start + move)[0], space.log_prior(space.start - move)[0]
        assert gradient[i] == pytest.approx((up - down) / (2 * h), abs=1e-7)


def test_log_normal_is_normal_in_the_log() -> None:
    space = Space({"kernel": RBF(length_scale=2.0).prior(length_scale=LogNormal(0.3, 0.7))})
    assert space.log_prior(space.start)[0] == pytest.approx(stats.norm(0.3, 0.7).logpdf(np.log(2)))


def test_unit_interval_goes_through_the_logit() -> None:
    space = Space({"kernel": Categorical(0.25)})
    assert space.start[0] == pytest.approx(np.log(1 / 3))
    back = space.parts_at(space.start)["kernel"]
    assert back.get_params() == pytest.approx(Categorical(0.25).get_params())


def test_real_parameters_have_no_default_bounds() -> None:
    class Shift(RBF):
        domains: ClassVar = {"length_scale": REAL}

    space = Space({"kernel": Shift(length_scale=900.0)})
    np.testing.assert_array_equal(space.bounds, [[-np.inf, np.inf]])
    assert space.start[0] == 900.0
