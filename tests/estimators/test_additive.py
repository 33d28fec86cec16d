"""AdditiveRegressor: the exact additive model on many rows, against the dense machine."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import AdditiveRegressor, GPRegressor
from mercer.core.arrays import Array
from mercer.kernels import RBF, Kernel, Matern
from mercer.losses import Gaussian

KERNEL: Kernel = (
    0.8 * Matern(nu=2.5, length_scale=0.9).on(0)
    + 1.5 * Matern(nu=1.5, length_scale=2.0).on(1)
    + 0.1 * Matern(nu=0.5, length_scale=1.0).on(2)
)
GIVEN = {"kernel": KERNEL, "loss": Gaussian(0.04), "search": None}


def table(n: int = 250, seed: int = 0) -> tuple[Array, Array]:
    """Correlated columns; the third has few values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] = 0.7 * X[:, 0] + 0.7 * X[:, 1]
    X[:, 2] = np.round(X[:, 2])
    y = 3.0 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    return X, y


def iterative(**given: object) -> AdditiveRegressor:
    return AdditiveRegressor(**(GIVEN | {"gram": "iterative", "tol": 1e-18, "rank": 20} | given))


@pytest.mark.parametrize("basis", [None, "constant", "linear"])
def test_the_answer_is_that_of_the_dense_machine(basis: str | None) -> None:
    X, y = table()
    X = np.vstack([X, X[:20]])  # repeated rows, of other targets
    y = np.append(y, y[:20] + 0.3)
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    new = table(40, seed=4)[0]
    one = iterative(basis=basis).fit(X, y, sample_weight=w)
    two = GPRegressor(**GIVEN, basis=basis).fit(X, y, sample_weight=w)
    assert one.report_["gram"] == "iterative"
    one.posteriors_[0].operator.width = 1e-12
    for a, b in zip(
        one.predict(new, return_std=True), two.predict(new, return_std=True), strict=True
    ):
        assert a == pytest.approx(b, abs=1e-6)
    assert one.components_ == two.components_
    for name in one.components_:
        for center in (False, True):
            left, right = (
                m.predict_component(new, name, return_std=True, center=center) for m in (one, two)
            )
            assert left[0] == pytest.approx(right[0], abs=1e-6)
            assert left[1] == pytest.approx(right[1], abs=1e-6)
    low, high = one.evidence_bounds_
    assert low - 1e-6 <= two.log_evidence_ <= high + 1e-6
    assert one.left_out_ is None
    assert "gram='dense'" in one.report_["left_out"]


def test_a_rough_solution_is_within_its_certificate() -> None:
    X, y = table()
    exact = GPRegressor(**GIVEN).fit(X, y).predict(X)
    for tol in (1.0, 0.01):
        rough = iterative(tol=tol, basis=None).fit(X, y)
        told = rough.report_["inference"]
        assert told["rho2"] <= tol
        error = np.abs(rough.predict(X) - exact).max()
        assert error <= min(told["mean_error"], told["row_error"])
        assert "from that of the exact model" in str(rough.summary())


def test_partial_effects_find_the_functions() -> None:
    X, y = table(600)
    model = AdditiveRegressor(rows=200).fit(X, y)
    assert model.report_["gram"] == "iterative"
    assert model.report_["search"]["rows"] == 200
    found = model.partial_effects(X[:60])
    assert list(found) == ["x0", "x1", "x2"]
    truth = {"x0": np.sin(2.0 * X[:, 0]), "x1": 0.5 * X[:, 1] ** 2, "x2": np.zeros(len(X))}
    for name, effect in found.items():
        f = truth[name] - truth[name].mean()
        assert np.abs(effect.mean - f[:60]).max() < 0.4
        assert np.mean(np.abs(effect.mean - f[:60]) <= 3.0 * effect.std + 0.02) > 0.9
    grid = model.partial_effects(size=7)["x1"]
    assert grid.values == pytest.approx(np.linspace(X[:, 1].min(), X[:, 1].max(), 7))
    shares = [term["share"] for term in model.report_["terms"].values()]
    assert sum(shares) == pytest.approx(1.0)
    assert shares[2] < 0.02
    text = str(model.summary())
    assert "of the fitted variance" in text
    assert "conjugate gradients" in text


def test_few_rows_are_exact() -> None:
    X, y = table(80)
    model = AdditiveRegressor().fit(X, y)
    assert model.report_["gram"] == "dense"
    assert model.left_out_ is not None
    assert list(model.partial_effects(X[:5])) == ["x0", "x1", "x2"]


def test_several_outputs_and_names() -> None:
    pd = pytest.importorskip("pandas")
    X, y = table(120)
    frame = pd.DataFrame(X, columns=["age", "bmi", "sex"])
    Y = np.column_stack([y, -2.0 * y])
    model = AdditiveRegressor(gram="iterative", rows=60).fit(frame, Y)
    effect = model.partial_effects(frame.iloc[:4])["bmi"]
    assert effect.mean.shape == effect.std.shape == (4, 2)
    assert effect.mean[:, 1] == pytest.approx(-2.0 * effect.mean[:, 0], abs=0.2)
    assert clone(model).get_params()["rows"] == 60


@pytest.mark.parametrize("basis", [None, "constant"])
def test_stored(tmp_path: object, basis: str | None) -> None:
    X, y = table()
    model = iterative(basis=basis, tol=0.01).fit(X, y)
    mercer.save(model, f"{tmp_path}/additive.mercer")
    again = mercer.load(f"{tmp_path}/additive.mercer")
    for a, b in zip(
        model.predict(X[:9], return_std=True), again.predict(X[:9], return_std=True), strict=True
    ):
        assert np.array_equal(a, b)
    one, two = model.partial_effects(X[:5])["x1"], again.partial_effects(X[:5])["x1"]
    assert one.mean == pytest.approx(two.mean, abs=1e-12)


def test_refusals() -> None:
    X, y = table(50)
    for given, words in (
        ({"kernel": RBF()}, "sum of Matern kernels"),
        ({"kernel": "rbf"}, "sum of Matern kernels"),
        ({"gram": "markov"}, "unknown gram"),
        ({"rows": 2}, "rows must be"),
        ({"rank": 0}, "rank must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"loss": "poisson"}, "Poisson"),
    ):
        with pytest.raises(ValueError, match=words):
            AdditiveRegressor(**given).fit(X, y)


def test_prior_draws() -> None:
    assert AdditiveRegressor().sample_prior(np.zeros((3, 2)), 4).shape == (3, 4)


@pytest.mark.slow
def test_many_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 5))
    f = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + np.tanh(X[:, 2])
    y = f + 0.3 * rng.normal(size=len(X))
    model = AdditiveRegressor(rows=500).fit(X, y)
    assert model.report_["inference"]["rho2"] <= 0.01
    assert np.sqrt(np.mean((model.predict(X[:5000]) - f[:5000]) ** 2)) < 0.02
