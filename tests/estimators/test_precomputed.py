"""A kernel given by its values: means for new points, and no variance that is not known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags

from mercer import GPRegressor, process
from mercer.kernels import RBF, Precomputed, White

RNG = np.random.default_rng(4)
A, B = RNG.normal(size=(15, 2)), RNG.normal(size=(6, 2))
Y = np.sin(A[:, 0]) + 0.1 * RNG.normal(size=15)
K, NEW = RBF()(A), RBF()(B, A)
GIVEN = ["precomputed", Precomputed(), 1.0 * Precomputed(), Precomputed() + White(0.01)]


def asked(model: GPRegressor, X: np.ndarray) -> dict:
    return {
        "std": lambda: model.predict(X, return_std=True),
        "cov": lambda: model.predict(X, return_cov=True),
        "latent": lambda: model.predict_latent(X),
        "interval": lambda: model.predict_interval(X),
        "density": lambda: model.predictive_log_density(X, np.zeros(len(X))),
        "sample": lambda: model.sample_y(X, 2),
    }


@pytest.mark.parametrize("kernel", GIVEN)
def test_means_of_new_points_and_nothing_more(kernel) -> None:
    model = GPRegressor(kernel, search=None).fit(K, Y)
    np.testing.assert_allclose(
        model.predict(NEW), NEW @ model.posteriors_[0].alpha[:, 0], atol=1e-12
    )
    order = RNG.permutation(15)  # square, but not the training matrix
    np.testing.assert_allclose(model.predict(K[order]), model.predict(K)[order], atol=1e-12)
    for X in (NEW, K[order], K[:4]):
        for ask in asked(model, X).values():
            with pytest.raises(ValueError, match=r"Precomputed\(matrix\)"):
                ask()


def test_the_training_points_have_their_variances() -> None:
    model = GPRegressor("precomputed", search=None).fit(K, Y)
    same = GPRegressor(RBF(), search=None).fit(A, Y)
    expected = asked(same, A)
    for name, ask in asked(model, K).items():
        if name == "sample":  # a draw depends on the rounding of eigenvectors
            assert ask().shape == (15, 2)
        else:
            np.testing.assert_allclose(np.vstack(ask()), np.vstack(expected[name]()), atol=1e-8)


def test_the_matrix_of_all_points_has_all_variances() -> None:
    every = np.vstack([A, B])
    rows = np.arange(21.0)[:, None]
    model = GPRegressor(Precomputed(RBF()(every)), search=None).fit(rows[:15], Y)
    same = GPRegressor(RBF(), search=None).fit(A, Y)
    for a, b in zip(
        model.predict(rows[15:], return_std=True), same.predict(B, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_variances_in_batches(monkeypatch) -> None:
    model = GPRegressor("precomputed", search=None).fit(K, Y)
    whole = model.predict(K, return_std=True)[1]
    monkeypatch.setattr(process, "BATCH_BYTES", 8 * 15 * 4)
    np.testing.assert_allclose(model.predict(K, return_std=True)[1], whole, rtol=1e-12)


@pytest.mark.parametrize("kernel", GIVEN)
def test_cross_validation_cuts_rows_and_columns(kernel) -> None:
    model = GPRegressor(kernel, search=None)
    assert get_tags(model).input_tags.pairwise
    assert cross_val_predict(model, K, Y, cv=3).shape == (15,)
    points = GPRegressor(Precomputed(K), search=None)
    assert not get_tags(points).input_tags.pairwise
    assert not get_tags(GPRegressor(RBF())).input_tags.pairwise


def test_a_saved_model_still_knows(tmp_path) -> None:
    import mercer

    model = GPRegressor(1.0 * Precomputed(), search=None).fit(K, Y)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.predict(NEW).tobytes() == model.predict(NEW).tobytes()
    with pytest.raises(ValueError, match=r"Precomputed\(matrix\)"):
        again.predict(NEW, return_std=True)
