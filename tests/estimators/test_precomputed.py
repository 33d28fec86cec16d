"""A kernel given by its values: means for new points, and no variance that is not known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags

from mercer import GPClassifier, GPRegressor, losses
from mercer.estimators.shared.predictions import sides_of_means
from mercer.kernels import RBF, Precomputed, White
from mercer.process import process

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


def two_classes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X, Z = rng.normal(size=(40, 2)), rng.normal(size=(60, 2))
    return X, X[:, 0] + 0.4 * rng.normal(size=40) > 0.0, Z


@pytest.mark.parametrize("loss", ["probit", "logistic"])
@pytest.mark.parametrize("kernel", ["precomputed", Precomputed()], ids=["name", "object"])
def test_the_more_probable_class_of_new_points(kernel, loss: str) -> None:
    """The values (q, n) give no probabilities, but the class that the whole kernel gives."""
    X, y, Z = two_classes()
    k = 4.0 * RBF()
    whole = GPClassifier(k, loss=loss, search=None, standardize=False).fit(X, y)
    model = GPClassifier(kernel, loss=loss, search=None).fit(k(X), y)
    np.testing.assert_array_equal(model.predict(k(Z, X)), whole.predict(Z))
    np.testing.assert_array_equal(model.predict(k(X)), whole.predict(X))
    for method in (model.predict_proba, model.decision_function, model.predict_latent):
        with pytest.raises(ValueError, match=r"do not say how.*predict\(X\) gives the more"):
            method(k(Z, X))
    with pytest.raises(ValueError, match="39 features"):
        model.predict(k(Z, X)[:, 1:])


def test_several_classes_need_the_variances() -> None:
    X, _, Z = two_classes()
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = GPClassifier("precomputed", search=None).fit(RBF()(X), y)
    with pytest.raises(ValueError, match="do not say how"):
        model.predict(RBF()(Z, X))
    assert model.predict(RBF()(X)).shape == (40,)


def test_labels_that_are_not_alike_need_the_variances() -> None:
    class Lopsided:
        response = "binary"

        @staticmethod
        def value(y: np.ndarray, f: np.ndarray) -> np.ndarray:
            return np.logaddexp(0.0, -y * (f + 1.0))

    class Flat:
        has_spread = True

        @staticmethod
        def variance_known_at(X: np.ndarray) -> bool:
            return False

        @staticmethod
        def mean(X: np.ndarray) -> np.ndarray:
            return X[:, :1]

    class Other(Flat):
        @staticmethod
        def mean(X: np.ndarray) -> np.ndarray:
            return X[:, 1:2]

    X = np.array([[1.0, 2.0], [-1.0, -3.0]])
    logistic = losses.Logistic()
    np.testing.assert_array_equal(sides_of_means([Flat()], [logistic], X), [1, 0])
    assert sides_of_means([Flat()], [Lopsided()], X) is None
    np.testing.assert_array_equal(sides_of_means([Flat(), Other()], [logistic] * 2, X), [1, 0])
    assert sides_of_means([Flat(), Other()], [logistic] * 2, X * [1.0, -1.0]) is None
