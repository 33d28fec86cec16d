"""gram="auto" is O(n) on one column, and gives the dense answer."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor
from mercer.estimators.shared.parts import LINE_FROM
from mercer.kernels import RBF, Constant, Cosine, Matern, Operator, OrnsteinUhlenbeck
from mercer.linalg.line import LineGram, Ordering


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 1))
    X[5] = X[9]
    return X, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("kernel", ["matern32", 1.0 * Matern(nu=2.5)])
def test_a_whole_fit_is_the_dense_one(kernel):
    X, y = table(120)
    Z = np.linspace(-1.0, 11.0, 31)[:, None]
    line, dense = (GPRegressor(kernel, gram=g).fit(X, y) for g in ("markov", "dense"))
    assert (line.report_["gram"], dense.report_["gram"]) == ("markov", "dense")
    assert line.log_evidence_ == pytest.approx(dense.log_evidence_, abs=1e-6)
    for a, b in zip(
        line.predict(Z, return_std=True), dense.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(line.loo_.log_density, dense.loo_.log_density, atol=1e-4)


@pytest.mark.parametrize(
    "kernel",
    [
        1.0 * Operator(np.array([1.0, 2.0, 1.0])),
        1.0 * OrnsteinUhlenbeck(),
        1.0 * Matern(nu=1.5) * Cosine(period=2.0),
        1.0 * Matern(nu=2.5) + Constant(1.0),
    ],
    ids=["operator", "ou", "quasi-periodic", "level"],
)
@pytest.mark.parametrize("basis", [None, "linear"])
def test_rational_spectra_and_a_basis(kernel, basis, tmp_path):
    """A whole search, predictions, leave-one-out and files: those of the dense algebra."""
    X, y = table(60)
    y = y + 0.5 * X[:, 0]
    Z = np.linspace(-1.0, 11.0, 31)[:, None]
    line, dense = (GPRegressor(kernel, basis=basis, gram=g).fit(X, y) for g in ("markov", "dense"))
    assert (line.report_["gram"], dense.report_["gram"]) == ("markov", "dense")
    assert line.log_evidence_ == pytest.approx(dense.log_evidence_, abs=1e-5)
    again = GPRegressor(line.kernel_, loss=line.loss_, basis=basis, gram="dense", search=None)
    again.fit(X, y)
    for a, b in zip(
        line.predict(Z, return_std=True), again.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-7)
    np.testing.assert_allclose(line.loo_.log_density, again.loo_.log_density, atol=1e-6)
    mercer.save(line, tmp_path / "line")
    loaded = mercer.load(tmp_path / "line")
    for a, b in zip(
        line.predict(Z, return_std=True), loaded.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("loss", ["poisson", "gaussian"])
def test_fixed_parameters_give_the_same_to_eight_digits(loss):
    X, y = table(80)
    y = np.round(np.exp(y)) if loss == "poisson" else y
    Z = np.linspace(-1.0, 11.0, 31)[:, None]
    kernel = 2.0 * Matern(nu=2.5, length_scale=0.8)
    weights = np.random.default_rng(1).uniform(0.0, 3.0, 80)
    found = [
        GPRegressor(kernel, loss=loss, search=None, gram=g).fit(X, y, sample_weight=weights)
        for g in ("markov", "dense")
    ]
    for figures in zip(*(m.predict(Z, return_std=True) for m in found), strict=True):
        np.testing.assert_allclose(*figures, rtol=1e-8, atol=1e-8)
    assert found[0].log_evidence_ == pytest.approx(found[1].log_evidence_, rel=1e-9)


def test_auto_walks_from_many_points_on_and_only_where_it_can():
    X, y = table(LINE_FROM + 1)
    kernel = 1.0 * Matern(nu=1.5)
    assert GPRegressor(kernel, search=None).fit(X, y).report_["gram"] == "markov"
    assert GPRegressor(kernel, search=None).fit(X[:50], y[:50]).report_["gram"] == "dense"
    assert GPRegressor(RBF(), search=None).fit(X, y).report_["gram"] == "dense"
    basis = GPRegressor(kernel, search=None, basis="linear").fit(X, y)
    assert basis.report_["gram"] == "markov"
    classifier = GPClassifier(kernel, search=None).fit(X, y > 0)
    assert classifier.report_["gram"] == "markov"
    dense = GPClassifier(kernel, search=None, gram="dense").fit(X, y > 0)
    np.testing.assert_allclose(classifier.predict_proba(X), dense.predict_proba(X), atol=1e-7)


def test_many_rows_need_little_memory():
    X, y = table(60_000)  # a dense fit would need 3 x 29 GB
    model = GPRegressor(2.0 * Matern(nu=2.5), search=None).fit(X, y)
    mean, std = model.predict(X[:1000], return_std=True)
    assert np.sqrt(np.mean((mean - np.sin(3.0 * X[:1000, 0])) ** 2)) < 0.05
    assert np.all(std > 0.0)


@pytest.mark.parametrize("loss", [mercer.losses.Gaussian(noise=0.1), mercer.losses.Gaussian(0.0)])
def test_saved_and_loaded(tmp_path, loss):
    X = np.arange(40.0)[:, None]
    kernel = 2.0 * Matern(nu=1.5, length_scale=3.0)
    model = GPRegressor(kernel, loss=loss, search=None, gram="markov").fit(X, np.cos(X[:, 0]))
    path = tmp_path / "line.mercer"
    mercer.save(model, path)
    again = mercer.load(path)
    Z = np.linspace(-2.0, 45.0, 20)[:, None]
    for a, b in zip(
        model.predict(Z, return_std=True), again.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"kernel": RBF()}, "Matern"),
        ({"kernel": Matern(nu=1.5), "basis": "linear", "inference": "laplace"}, "basis"),
        ({"kernel": Matern(nu=1.5), "search": "loo"}, "loo"),
        ({"kernel": Matern(nu=1.5), "inference": "variational"}, "Variational"),
    ],
)
def test_refusals_name_the_reason(settings, reason):
    X, y = table(30)
    with pytest.raises(ValueError, match=reason):
        GPRegressor(gram="markov", **settings).fit(X, y)
    with pytest.raises(ValueError, match="'markov'"):
        GPRegressor(gram="sparse").fit(X, y)


def test_points_are_sorted_once_in_a_fit(monkeypatch):
    X, y = table(300)
    seen = {"sorts": 0, "grams": 0}

    class Counted(Ordering):
        def __init__(self, *given):
            seen["sorts"] += 1
            super().__init__(*given)

    def gram(*given, **options):
        seen["grams"] += 1
        return LineGram(*given, **options)

    monkeypatch.setattr("mercer.linalg.line.Ordering", Counted)
    monkeypatch.setattr("mercer.estimators.shared.parts.LineGram", gram)
    machine = GPRegressor("matern32").fit(X, y)
    assert machine.report_["gram"] == "markov"
    assert seen["sorts"] == 1
    assert seen["grams"] > 5


def test_an_ordering_of_other_points_is_not_used():
    X, _ = table(20)
    first = LineGram(Matern(nu=1.5), X)
    other = X[::-1].copy()
    for Z, kept in ((X, True), (other, False)):
        gram = LineGram(Matern(nu=1.5), Z, ordering=first.line.ordering)
        assert (gram.line.ordering is first.line.ordering) == kept
        np.testing.assert_allclose(gram @ np.eye(20), Matern(nu=1.5)(Z), atol=1e-12)
