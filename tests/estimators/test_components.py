"""Components of additive models against the joint Gaussian of all terms, written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer import GPClassifier, GPRegressor
from mercer.basis import PolynomialBasis
from mercer.kernels import RBF, Constant, Linear, Matern, Noise, PeriodicSpline, White
from mercer.losses import Gaussian, Poisson
from mercer.search import HMC

NAMES = ["age", "bmi", "sex"]
KERNEL = 1.3 * RBF(0.9).on("age") + 0.7 * Matern(nu=2.5).on("bmi") + 0.4 * RBF().on(["age", "sex"])


def table(rng: np.random.Generator, n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    X = rng.uniform(-2, 2, (n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=n) + 3.0
    return pd.DataFrame(X, columns=NAMES), y


def joint(
    terms: list, X: np.ndarray, new: np.ndarray, noise: float, y: np.ndarray, H=None, h=None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of every term (and of the basis, last) at new, by conditioning.

    One Gaussian over all terms at the new points and y; a flat prior has variance 1e7 here.
    """
    blocks = [(k(new), k(new, X)) for k in terms]
    Ky = sum(k(X) for k in terms) + noise * np.eye(len(y))
    if H is not None:
        blocks.append((1e7 * h @ h.T, 1e7 * h @ H.T))
        Ky = Ky + 1e7 * H @ H.T
    q = len(new)
    prior = np.zeros((q * len(blocks),) * 2)
    for i, (own, _) in enumerate(blocks):
        prior[i * q : (i + 1) * q, i * q : (i + 1) * q] = own
    cross = np.vstack([c for _, c in blocks])
    mean = cross @ np.linalg.solve(Ky, y)
    variance = np.diagonal(prior - cross @ np.linalg.solve(Ky, cross.T))
    return [(mean[i * q : (i + 1) * q], variance[i * q : (i + 1) * q]) for i in range(len(blocks))]


@pytest.mark.parametrize("basis", [None, "linear"])
def test_joint_gaussian(basis: str | None, rng: np.random.Generator) -> None:
    X, y = table(rng)
    new, _ = table(rng, 7)
    model = GPRegressor(KERNEL, loss=Gaussian(noise=0.1), search=None, basis=basis).fit(X, y)
    expected = ["RBF(age)", "Matern(bmi)", "RBF(age, sex)"] + (["basis"] if basis else [])
    assert model.components_ == expected
    A, B = X.to_numpy(), new.to_numpy()
    terms = [t.resolve(NAMES, 3) for t in KERNEL.parts]
    H, h = (PolynomialBasis(1)(A), PolynomialBasis(1)(B)) if basis else (None, None)
    tolerance = 1e-4 if basis else 1e-9
    for i, (mean, variance) in enumerate(joint(terms, A, B, 0.1, y, H, h)):
        found, std = model.predict_component(new, i, return_std=True)
        np.testing.assert_allclose(found, mean, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(std**2, variance, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("basis", [None, "constant"])
def test_components_sum_to_the_mean(basis: str | None, rng: np.random.Generator) -> None:
    X, y = table(rng)
    new, _ = table(rng, 9)
    model = GPRegressor(KERNEL, basis=basis).fit(X, y)
    parts = [model.predict_component(new, name) for name in model.components_]
    np.testing.assert_allclose(sum(parts), model.predict(new), rtol=1e-8)
    mean, std = model.predict_component(new, model.components_, return_std=True)
    latent = model.predict_latent(new)
    np.testing.assert_allclose(mean, latent[0], rtol=1e-8)
    np.testing.assert_allclose(std, latent[1], rtol=1e-8)


def test_centred_components(rng: np.random.Generator) -> None:
    """f_j(x) less its average over the data, by the matrix that takes it off."""
    X, y = table(rng)
    new, _ = table(rng, 7)
    model = GPRegressor(KERNEL, loss=Gaussian(noise=0.1), search=None).fit(X, y)
    A, B = X.to_numpy(), new.to_numpy()
    term = KERNEL.parts[0].resolve(NAMES, 3)
    both = np.vstack([B, A])
    Ky = KERNEL.resolve(NAMES, 3)(A) + 0.1 * np.eye(40)
    cross = term(both, A)
    cov = term(both) - cross @ np.linalg.solve(Ky, cross.T)
    T = np.hstack([np.eye(7), np.full((7, 40), -1.0 / 40)])
    mean, std = model.predict_component(new, "age", return_std=True, center=True)
    np.testing.assert_allclose(mean, T @ cross @ np.linalg.solve(Ky, y), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(std**2, np.diagonal(T @ cov @ T.T), rtol=1e-7)
    over = model.predict_component(X, "age", center=True)
    assert over.mean() == pytest.approx(0.0, abs=1e-10)
    assert np.all(std < model.predict_component(new, "age", return_std=True)[1])


def test_centred_basis(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = GPRegressor(1.0 * RBF().on("age"), basis="linear").fit(X, y)
    mean, std = model.predict_component(X, "basis", return_std=True, center=True)
    assert mean.mean() == pytest.approx(0.0, abs=1e-9)
    beta = model.posteriors_[0].beta[:, 0]
    H = PolynomialBasis(1)(X.to_numpy())
    np.testing.assert_allclose(mean, (H - H.mean(axis=0)) @ beta, atol=1e-9)
    assert np.all(std > 0.0)


def test_names_positions_and_columns(rng: np.random.Generator) -> None:
    X, y = table(rng)
    kernel = 1.0 * RBF().on("age") + Linear().on("age") + 2.0 * (Matern() + RBF()).on("bmi")
    kernel = kernel + RBF().on("sex") * RBF().on("bmi") + Constant(2.0) + White(0.1)
    model = GPRegressor(kernel, search=None, loss=Gaussian(noise=0.1)).fit(X, y)
    names = ["RBF(age)", "Linear(age)", "Matern(bmi)", "RBF(bmi)", "RBF(sex) * RBF(bmi)"]
    assert model.components_ == [*names, "Constant"]
    both = model.predict_component(X, "age")
    split = model.predict_component(X, 0) + model.predict_component(X, "Linear(age)")
    np.testing.assert_allclose(both, split, rtol=1e-9)
    np.testing.assert_allclose(
        model.predict_component(X, ["bmi", -1]),
        sum(model.predict_component(X, j) for j in (2, 3, 5)),
        rtol=1e-9,
    )
    total = model.predict_component(X, model.components_)
    np.testing.assert_allclose(total, model.predict_latent(X)[0], rtol=1e-9)
    plain = GPRegressor(RBF().on(0) + RBF().on(0), search=None).fit(X.to_numpy(), y)
    assert plain.components_ == ["RBF(x0) [1]", "RBF(x0) [2]"]
    assert plain.predict_component(X.to_numpy(), "x0").shape == (40,)


def test_a_standardised_target_has_an_offset(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = GPRegressor().fit(X, 100.0 * y)
    assert model.components_ == ["RBF", "offset"]
    parts = [model.predict_component(X, name) for name in model.components_]
    np.testing.assert_allclose(sum(parts), model.predict(X), rtol=1e-10)
    np.testing.assert_allclose(parts[1], 100.0 * y.mean())
    mean, std = model.predict_component(X, "offset", return_std=True)
    np.testing.assert_array_equal(std, 0.0)
    assert model.predict_component(X, "offset", center=True) == pytest.approx(0.0)
    with_basis = GPRegressor(basis="constant").fit(X, y)
    assert with_basis.components_ == ["RBF", "basis"]
    parts = [with_basis.predict_component(X, j) for j in range(2)]
    np.testing.assert_allclose(sum(parts), with_basis.predict(X), rtol=1e-9)
    assert mean.shape == (40,)


def test_several_outputs_and_noise_in_the_kernel(rng: np.random.Generator) -> None:
    X, y = table(rng)
    Y = np.column_stack([y, -2.0 * y])
    kernel = 1.0 * RBF().on("age") + 1.0 * RBF().on("bmi") + Noise(RBF().on("sex"))
    model = GPRegressor(kernel, search=None, loss=Gaussian(noise=0.1)).fit(X, Y)
    assert model.components_ == ["RBF(age)", "RBF(bmi)"]
    mean, std = model.predict_component(X, "age", return_std=True)
    assert mean.shape == std.shape == (40, 2)
    np.testing.assert_allclose(mean[:, 1], -2.0 * mean[:, 0])


def test_counts_have_components_on_the_latent_scale(rng: np.random.Generator) -> None:
    X, _ = table(rng)
    counts = rng.poisson(np.exp(0.5 * np.sin(2 * X["age"]) + 0.3 * X["bmi"]))
    kernel = 1.0 * RBF().on("age") + 1.0 * RBF().on("bmi") + Constant(1.0)
    model = GPRegressor(kernel, loss=Poisson(), search=None).fit(X, counts)
    total = sum(model.predict_component(X, name) for name in model.components_)
    np.testing.assert_allclose(total, model.predict_latent(X)[0], rtol=1e-8)


@pytest.mark.parametrize("inference", ["ep", "laplace", "variational"])
def test_latent_function_of_a_classifier(inference: str, rng: np.random.Generator) -> None:
    X, y = table(rng)
    label = np.where(y > y.mean(), "high", "low")
    kernel = 2.0 * RBF().on("age") + 2.0 * RBF().on("bmi") + Constant(1.0)
    model = GPClassifier(kernel, inference=inference, search=None).fit(X, label)
    total = sum(model.predict_component(X, name) for name in model.components_)
    np.testing.assert_allclose(total, model.predict_latent(X)[0], rtol=1e-8)
    mean, std = model.predict_component(X, model.components_, return_std=True)
    np.testing.assert_allclose(std, model.predict_latent(X)[1], rtol=1e-8)
    # the posterior is that of Gaussian observations with precision W: cov_j = k_j - k_j C k_j
    A = model.posteriors_[0].points
    term = kernel.parts[0].resolve(NAMES, 3)
    C = model.posteriors_[0].operator.reduce(np.eye(len(A)), np.eye(len(A)), None, None)
    own = term(X.to_numpy(), A)
    expected = term.diag(X.to_numpy()) - np.einsum("ij,jk,ik->i", own, C, own)
    found = model.predict_component(X, "age", return_std=True)[1]
    np.testing.assert_allclose(found**2, expected, rtol=1e-8)
    assert mean.shape == (40,)


def test_several_classes(rng: np.random.Generator) -> None:
    X, y = table(rng)
    label = np.digitize(y, [3.0, 5.0])
    kernel = 2.0 * RBF().on("age") + 2.0 * RBF().on("bmi")
    model = GPClassifier(kernel, search=None).fit(X, label)
    mean, std = model.predict_component(X, model.components_, return_std=True)
    np.testing.assert_allclose(mean, model.predict_latent(X)[0], rtol=1e-8)
    np.testing.assert_allclose(std, model.predict_latent(X)[1], rtol=1e-8)
    one = model.predict_component(X, "age", return_std=True)[1]
    assert one.shape == (40, 3)
    assert np.all(one <= np.sqrt(2.0) + 1e-12)


def test_a_committee_mixes_its_members(rng: np.random.Generator) -> None:
    X, y = table(rng, 20)
    kernel = 1.0 * RBF().on("age") + 1.0 * RBF().on("bmi")
    model = GPRegressor(kernel, search=HMC(samples=8, warmup=8, chains=1, keep=4)).fit(X, y)
    mean, std = model.predict_component(X, [0, 1], return_std=True)
    latent = model.predict_latent(X)
    np.testing.assert_allclose(mean, latent[0], rtol=1e-8)
    np.testing.assert_allclose(std, latent[1], rtol=1e-8)


@pytest.mark.parametrize("center", [False, True])
def test_on_a_line_and_in_batches(
    center: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.uniform(0, 10, (300, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=300)
    kernel = 1.0 * Matern(nu=1.5) + 0.5 * Matern(nu=0.5, length_scale=3.0)
    found = []
    for gram in ("auto", "dense"):
        model = GPRegressor(kernel, search=None, loss=Gaussian(noise=0.01), gram=gram).fit(x, y)
        found.append(model.predict_component(x, 0, return_std=True, center=center))
    assert model.components_ == ["Matern [1]", "Matern [2]"]
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)
    monkeypatch.setattr("mercer.process.process.BATCH_BYTES", 8 * 300 * 7)
    batched = model.predict_component(x, 0, return_std=True, center=center)
    np.testing.assert_allclose(batched, found[1], rtol=1e-9, atol=1e-11)


def test_a_trend_and_a_season(rng: np.random.Generator) -> None:
    t = np.sort(rng.uniform(0, 10, 120))
    season, trend = np.sin(2 * np.pi * t), 0.3 * t
    y = trend + season + 0.1 * rng.normal(size=120)
    kernel = 1.0 * RBF(5.0) + 1.0 * PeriodicSpline(1.0).fix("period")
    model = GPRegressor(kernel, basis="linear").fit(t[:, None], y)
    mean, std = model.predict_component(t[:, None], "PeriodicSpline", return_std=True)
    assert np.abs(mean - season).max() < 0.15
    assert np.mean(np.abs(mean - season) < 2 * std) > 0.8


def test_refusals(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = GPRegressor(KERNEL, search=None).fit(X, y)
    with pytest.raises(ValueError, match=r"no component 'agee'.*RBF\(age\)"):
        model.predict_component(X, "agee")
    with pytest.raises(ValueError, match="there are 3 components"):
        model.predict_component(X, 3)
    with pytest.raises(TypeError, match="by name, by position"):
        model.predict_component(X, 1.5)
    with pytest.raises(ValueError, match="each of them once"):
        model.predict_component(X, ["age", 0])
    with pytest.raises(ValueError, match="at least one"):
        model.predict_component(X, [])
    with pytest.raises(Exception, match="not fitted"):
        GPRegressor(KERNEL).predict_component(X, 0)
    mode = GPClassifier(1.0 * RBF(), discriminant="mode", search=None).fit(X, y > 4.0)
    assert mode.predict_component(X, 0).shape == (40,)
    with pytest.raises(ValueError, match="a mode has no spread"):
        mode.predict_component(X, 0, return_std=True)
