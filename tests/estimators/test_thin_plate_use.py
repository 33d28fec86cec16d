"""ThinPlateSpline as users meet it: files, summaries, draws, limits and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mercer import GPRegressor, ThinPlateSpline, load, save
from mercer.basis import PolynomialBasis
from mercer.kernels import ThinPlate
from mercer.losses import Gaussian
from mercer.persist import part_class


def surface(
    rng: np.random.Generator, n: int = 60, d: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, new = rng.uniform(-3, 5, (n, d)), rng.uniform(-4, 6, (9, d))
    return X, 4.0 + np.sin(X[:, 0]) * X[:, -1] + 0.3 * rng.normal(size=n), new


# ---------------------------------------------------------------------- what users do with it
@pytest.mark.parametrize("knots", [None, 20])
def test_model_files(knots: int | None, rng: np.random.Generator, tmp_path: Path) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline(knots=knots).fit(X, y)
    save(model, tmp_path / "spline.mercer")
    again = load(tmp_path / "spline.mercer")
    for one, other in zip(
        model.predict(new, return_cov=True), again.predict(new, return_cov=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.predict_latent(new)[1], again.predict_latent(new)[1])
    assert (again.lam_, again.edf_, again.order_) == (model.lam_, model.edf_, 2)
    assert again.kernel_ == model.kernel_
    np.testing.assert_array_equal(again.loo_.mean, model.loo_.mean)
    assert str(again.summary()) == str(model.summary())


@pytest.mark.parametrize("knots", [None, 20])
def test_damaged_files_are_refused(knots: int | None, rng: np.random.Generator) -> None:
    X, y, _ = surface(rng)
    model = ThinPlateSpline(knots=knots).fit(X, y)
    state = model._state()

    def read(state: dict) -> None:
        ThinPlateSpline._from_state(state, lambda name: part_class(name, {}))

    read(state)
    (form,) = state["posteriors_"][0]["operator"].values()
    for name in ("half", "anchor", "cross", "block"):
        kept = form[name]
        for wrong, message in ((kept[:-1], "shape"), (np.full_like(kept, np.nan), "not finite")):
            form[name] = wrong
            with pytest.raises(ValueError, match=message):
                read(state)
        del form[name]
        with pytest.raises(ValueError, match=f"{name} is missing"):
            read(state)
        form[name] = kept
    state["posteriors_"][0]["beta"] = None
    with pytest.raises(ValueError, match="operator of a basis, but no basis"):
        read(state | {"basis_": None})


def test_summary(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng)
    text = str(ThinPlateSpline(knots=20).fit(X, y).summary())
    for words in ("smoothing parameter lam", "knots (an approximation)", "degrees of freedom"):
        assert words in text


def test_draws_have_the_moments_of_the_posterior(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline().fit(X, y)
    draws = model.sample_y(new, 4000, random_state=0)
    mean, std = model.predict_latent(new)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / 63)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.06)
    with pytest.raises(ValueError, match="flat prior"):
        model.sample_prior(new)


def test_interval_and_density(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline().fit(X, y)
    mean, std = model.predict(new, return_std=True)
    low, high = model.predict_interval(new, 0.95)
    np.testing.assert_allclose((high - low) / std, 2 * 1.959964, rtol=1e-6)
    density = model.predictive_log_density(new, mean)
    np.testing.assert_allclose(density, -0.5 * np.log(2 * np.pi * std**2), rtol=1e-9)


def test_one_contrast_says_nothing_of_smoothness(rng: np.random.Generator) -> None:
    """Four points in the plane: every lam is as good as any other, and the smoothest is taken."""
    X, y, new = surface(rng, 4)
    for search in ("evidence", "gcv"):
        model = ThinPlateSpline(search=search).fit(X, y)
        assert model.report_["search"]["at_bounds"] == ["lam (smallest)", "lam (largest)"]
        H = PolynomialBasis(1)
        plane = H(new) @ np.linalg.lstsq(H(X), y, rcond=None)[0]
        np.testing.assert_allclose(model.predict(new), plane, rtol=1e-6)


@pytest.mark.parametrize("knots", [None, 20])
def test_infinite_lam_is_the_polynomial(
    knots: int | None, rng: np.random.Generator, tmp_path: Path
) -> None:
    X, y, new = surface(rng)
    w = rng.uniform(0.5, 2.0, 60)
    model = ThinPlateSpline(lam=np.inf, knots=knots).fit(X, y, w)
    H, h = PolynomialBasis(1)(X), PolynomialBasis(1)(new)
    A = H.T @ (w[:, None] * H)
    beta = np.linalg.solve(A, H.T @ (w * y))
    np.testing.assert_allclose(model.predict(new), h @ beta, rtol=1e-10)
    noise = model.loss_.noise
    spread = np.sqrt(noise * np.einsum("ij,ij->i", h, np.linalg.solve(A, h.T).T))
    np.testing.assert_allclose(model.predict_latent(new)[1], spread, rtol=1e-9)
    assert model.edf_ == pytest.approx(3.0)
    assert model.lam_ == np.inf
    save(model, tmp_path / "plane.mercer")
    again = load(tmp_path / "plane.mercer")
    assert again.lam_ == np.inf
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_a_plane_with_noise_is_found_to_be_one(rng: np.random.Generator) -> None:
    found = []
    for _ in range(10):
        X, _, _ = surface(rng, 40)
        model = ThinPlateSpline().fit(X, X @ [1.0, 2.0] + rng.normal(size=40))
        found.append(model.lam_ == np.inf)
        if found[-1]:
            assert model.report_["search"]["at_bounds"] == ["lam (largest)"]
            assert model.edf_ == pytest.approx(3.0)
    assert sum(found) >= 3


def test_near_duplicates(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    close = np.vstack([X, X[:20] + 1e-10])
    doubled = ThinPlateSpline(lam=0.5).fit(close, np.append(y, y[:20]))
    merged = ThinPlateSpline(lam=0.5).fit(np.vstack([X, X[:20]]), np.append(y, y[:20]))
    np.testing.assert_allclose(doubled.predict(new), merged.predict(new), rtol=1e-6)
    np.testing.assert_allclose(doubled.edf_, merged.edf_, rtol=1e-6)


def test_far_away_the_bands_widen(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng)
    model = ThinPlateSpline().fit(X, y)
    away = 10.0 ** np.arange(1, 7)
    _, std = model.predict_latent(np.column_stack([away, -away]))
    assert np.all(np.diff(np.log10(std)) > 0.9)


# ---------------------------------------------------------------------- bad input
def test_bad_input(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng)
    with pytest.raises(ValueError, match="n_samples=3, a minimum of 4 is required"):
        ThinPlateSpline().fit(X[:3], y[:3])
    with pytest.raises(ValueError, match="n_samples=2, a minimum of 4"):  # distinct ones count
        ThinPlateSpline().fit(X[[0, 0, 0, 1, 1]], y[:5])
    with pytest.raises(ValueError, match="column 1 is constant"):
        ThinPlateSpline().fit(np.column_stack([X[:, 0], np.ones(60)]), y)
    line = np.column_stack([X[:, 0], 2.0 * X[:, 0] - 1.0])
    with pytest.raises(ValueError, match="not all on one line"):
        ThinPlateSpline().fit(line, y)
    with pytest.raises(ValueError, match="the smallest that will do is 3"):
        ThinPlateSpline(2).fit(rng.normal(size=(60, 4)), y)
    broken = X.copy()
    broken[7, 0] = np.nan
    with pytest.raises(ValueError, match="NaN in column 0, row 7"):
        ThinPlateSpline().fit(broken, y)
    for lam in (-1.0, np.nan, "much", True):
        with pytest.raises(ValueError, match="lam must be a number >= 0"):
            ThinPlateSpline(lam=lam).fit(X, y)
    with pytest.raises(ValueError, match="search must be 'evidence' or 'gcv'"):
        ThinPlateSpline(search="loo").fit(X, y)
    with pytest.raises(ValueError, match="order must be an integer"):
        ThinPlateSpline(order=1.5).fit(X, y)
    with pytest.raises(ValueError, match="repeated inputs need noise"):
        ThinPlateSpline(lam=0.0).fit(np.vstack([X, X[:1]]), np.append(y, 0.0))
    for knots, words in (
        (3, "more than the 3 unpenalised"),
        (61, "at most the 60"),
        ("many", "knots must be None"),
        (X[:3], "more than 3 different"),
        (X[[0, 0, 1, 2, 3]], "more than 3 different"),
        (np.full((8, 2), np.nan), "knots contains NaN"),
        (X[:, :1], "array \\(p, 2\\)"),
    ):
        with pytest.raises(ValueError, match=words):
            ThinPlateSpline(knots=knots).fit(X, y)
    with pytest.raises(ValueError, match="lam=0 interpolates"):
        ThinPlateSpline(knots=20, lam=0.0).fit(X, y)


def test_after_an_error_the_model_is_as_it_was(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline().fit(X, y)
    before = model.predict(new)
    with pytest.raises(ValueError, match="minimum"):
        model.fit(X[:2], y[:2])
    np.testing.assert_array_equal(model.predict(new), before)


def test_memory_is_checked_before_it_is_taken(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercer.core.memory.available_bytes", lambda: 1 << 20)
    X = rng.normal(size=(2000, 2))
    with pytest.raises(MemoryError, match="2000 rows"):
        ThinPlateSpline().fit(X, X[:, 0])
    ThinPlateSpline(knots=30).fit(X, np.sin(X[:, 0]))


def test_gaussian_process_with_the_anchored_kernel_is_the_same(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline(lam=0.4).fit(X, y)
    kernel = model.kernel_.variance * ThinPlate.anchored(X)
    loss = Gaussian(noise=model.loss_.noise)
    twin = GPRegressor(kernel, basis="linear", loss=loss, search=None).fit(X, y)
    for one, other in zip(
        model.predict(new, return_std=True), twin.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
