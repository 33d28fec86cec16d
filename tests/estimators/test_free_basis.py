"""Free basis functions beside any likelihood, as users meet them: limits, units, weights, files."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor, KernelClassifier, compare
from mercer.kernels import RBF, Constant, Linear
from mercer.linalg import Inducing
from mercer.losses import Logistic, Poisson, StudentT

KERNEL = 0.6 * RBF(0.8)
BIG = 1e5


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (30, 1))
    return X, rng.poisson(np.exp(0.5 + 0.8 * X[:, 0] + 0.4 * np.sin(4 * X[:, 0])))


@pytest.fixture
def labels():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (40, 2))
    noisy = X[:, 0] - 0.5 * X[:, 1] + np.sin(3 * X[:, 1]) + 0.8 * rng.normal(size=40)
    return X, np.digitize(noisy, [-0.8, 0.8])


def trend(b):
    return KERNEL + b * (Constant() + Linear()).fix()


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational"])
def test_counts_with_a_trend_are_the_limit_of_a_wide_prior(counts, inference) -> None:
    X, y = counts
    new = np.array([[-1.5], [0.3], [2.5]])
    settings = {"loss": "poisson", "inference": inference, "search": None}
    free = GPRegressor(KERNEL, basis=1, **settings).fit(X, y)
    wide = GPRegressor(trend(BIG), **settings).fit(X, y)
    gained = np.log(2 * np.pi * BIG)  # two coefficients
    assert free.log_evidence_ == pytest.approx(wide.log_evidence_ + gained, abs=1e-3)
    for own, other in zip(
        free.predict(new, return_std=True), wide.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=2e-3)
    np.testing.assert_allclose(free.predict_latent(new)[1], wide.predict_latent(new)[1], rtol=1e-3)
    np.testing.assert_allclose(free.left_out_.log_density, wide.left_out_.log_density, atol=1e-3)
    assert free.report_["inference"]["converged"]


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "bound"])
def test_classes_with_a_trend_are_the_limit_of_a_wide_prior(labels, inference) -> None:
    X, y = labels
    y, new = np.where(y > 0, "b", "a"), np.array([[-1.5, 1.0], [0.3, 0.0], [2.5, 2.0]])
    settings = {"loss": "logistic", "inference": inference, "search": None}
    free = GPClassifier(KERNEL, basis="linear", **settings).fit(X, y)
    wide = GPClassifier(trend(BIG), **settings).fit(X, y)
    gained = 1.5 * np.log(2 * np.pi * BIG)
    assert free.log_evidence_ == pytest.approx(wide.log_evidence_ + gained, abs=1e-3)
    np.testing.assert_allclose(free.predict_proba(new), wide.predict_proba(new), atol=1e-4)
    np.testing.assert_allclose(free.left_out_.proba, wide.left_out_.proba, atol=1e-3)


def test_defaults_search_and_predict(counts, labels) -> None:
    X, y = counts
    model = GPRegressor(loss="poisson", basis=1).fit(X, y)
    assert model.report_["search"]["converged"]
    assert "Constant" not in repr(model.kernel_)
    rate = np.exp(0.5 + 0.8 * X[:, 0] + 0.4 * np.sin(4 * X[:, 0]))
    assert np.corrcoef(np.log(model.predict(X)), np.log(rate))[0, 1] > 0.9
    beyond = model.predict([[4.0], [6.0]])
    assert beyond[1] > 2.0 * beyond[0]  # a trend goes on
    X, y = labels
    model = GPClassifier(1.0 * RBF(1.0), basis=1).fit(X, y)
    assert model.predict_proba(X).shape == (40, 3)
    assert model.score(X, y) > 0.6
    assert model.kernel_.variance < 1e3  # without a prior the evidence grows like its logarithm
    assert "FlatBelow" in model.report_["amplitudes"]
    assert model.kernel_.mark("variance").prior is not None
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert "unpenalised basis" in str(model.summary())


def test_units_of_the_inputs_change_the_evidence_by_what_they_must(counts) -> None:
    X, y = counts
    one = GPRegressor(loss="poisson", basis=1, random_state=0).fit(X, y)
    milli = GPRegressor(loss="poisson", basis=1, random_state=0).fit(1e3 * X, y)
    # the slope's flat density is one per unit of it
    assert milli.log_evidence_ == pytest.approx(one.log_evidence_ - np.log(1e3), abs=1e-6)
    np.testing.assert_allclose(milli.predict(1e3 * X), one.predict(X), rtol=1e-6)


def test_units_of_a_positive_target_leave_its_coefficients_alone() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (25, 1))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=25))
    one, cent = (GPRegressor(loss="gamma", basis=1).fit(X, c * y) for c in (1.0, 100.0))
    change = -25 * np.log(100.0)  # f is a logarithm: its coefficients have no unit
    assert cent.log_evidence_ == pytest.approx(one.log_evidence_ + change, abs=1e-5)
    np.testing.assert_allclose(cent.predict(X), 100.0 * one.predict(X), rtol=1e-5)


def test_a_weight_is_a_number_of_copies(counts) -> None:
    X, y = counts
    w = np.tile([1.0, 2.0, 3.0], 10)
    make = {"loss": "poisson", "basis": 1, "search": None}
    weighted = GPRegressor(KERNEL, **make).fit(X, y, w)
    copied = GPRegressor(KERNEL, **make).fit(
        np.repeat(X, w.astype(int), 0), np.repeat(y, w.astype(int))
    )
    assert weighted.log_evidence_ == pytest.approx(copied.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=1e-9)


def test_left_out_rows_are_as_if_refitted(counts) -> None:
    X, y = counts
    make = {"loss": "poisson", "basis": 1, "search": None, "inference": "ep"}
    model = GPRegressor(KERNEL, **make).fit(X, y)
    for i in (0, 7, 19):
        rest = np.arange(30) != i
        refit = GPRegressor(KERNEL, **make).fit(X[rest], y[rest])
        density = refit.predictive_log_density(X[[i]], y[[i]])[0]
        assert model.left_out_.log_density[i] == pytest.approx(density, abs=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GPRegressor(KERNEL, loss="poisson", basis=1, search=None),
        lambda: GPRegressor(KERNEL, loss=StudentT(0.2, 3.0), basis=1, search=None),
        lambda: GPRegressor(
            KERNEL, loss=StudentT(0.2, 3.0), inference="laplace", basis=1, search=None
        ),
        lambda: GPRegressor(KERNEL, loss="poisson", basis=1, search=None, gram=Inducing(10)),
    ],
    ids=["poisson", "student", "signed", "inducing"],
)
def test_files(counts, make, tmp_path) -> None:
    X, y = counts
    model = make().fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    for own, other in zip(
        again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(own, other)
    assert again.log_evidence_ == model.log_evidence_


def test_several_classes_at_once_are_the_limit_of_a_wide_prior(labels) -> None:
    X, y = labels
    new = np.array([[-1.5, 1.0], [0.3, 0.0], [2.5, 2.0]])
    free = GPClassifier(KERNEL, basis=1, search=None).fit(X, y)
    wide = GPClassifier(trend(BIG), search=None).fit(X, y)
    gained = 3.0 * np.log(2 * np.pi * BIG)  # two contrasts of three coefficients each
    assert free.log_evidence_ == pytest.approx(wide.log_evidence_ + gained, abs=1e-3)
    np.testing.assert_allclose(free.predict_proba(new), wide.predict_proba(new), atol=5e-3)
    np.testing.assert_allclose(free.left_out_.proba, wide.left_out_.proba, atol=5e-3)
    units = [GPClassifier("rbf", basis=1, search=None).fit(c * X, y) for c in (1.0, 1e3)]
    change = 2 * 2 * np.log(1e3)  # two slopes for each of two contrasts
    assert units[1].log_evidence_ == pytest.approx(units[0].log_evidence_ - change, abs=1e-6)


@pytest.mark.parametrize("loss", [None, "probit"])
def test_files_of_classes(labels, tmp_path, loss) -> None:
    X, y = labels
    model = GPClassifier(KERNEL, loss=loss, basis=1, search=None).fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_evidences_of_different_flat_bases_are_not_ranked(counts) -> None:
    X, y = counts
    make = {"loss": "poisson", "search": None}
    line = GPRegressor(KERNEL, basis=1, **make).fit(X, y)
    level = GPRegressor(KERNEL, basis=0, **make).fit(X, y)
    none = GPRegressor(KERNEL + Constant(), **make).fit(X, y)
    for other in (level, none):
        apart = compare({"line": line, "other": other}, by="log_evidence")
        assert len(set(apart.groups)) == 2
        assert any("not ranked" in note for note in apart.notes)
        assert compare({"line": line, "other": other}).by == "loo"
    rougher = GPRegressor(0.6 * RBF(0.2), basis=1, **make).fit(X, y)
    assert compare({"line": line, "rougher": rougher}).by == "log_evidence"


def test_labels_that_the_basis_separates_are_refused_and_the_remedy_works() -> None:
    X = np.linspace(-1.0, 1.0, 12)[:, None]
    y = X[:, 0] > 0.1
    model = GPClassifier(KERNEL, basis=1, search=None)
    with pytest.raises(ValueError, match=r"separates the labels.*Constant\(\) \+ Linear\(\)"):
        model.fit(X, y)
    assert not hasattr(model, "posteriors_")
    GPClassifier(KERNEL + Constant() + Linear(), search=None).fit(X, y)
    with pytest.raises(ValueError, match="tell some of the classes apart"):
        GPClassifier(KERNEL, basis=1, search=None).fit(X, np.digitize(X[:, 0], [-0.3, 0.3]))


def test_the_mode_in_place_of_the_mean(labels) -> None:
    X, y = labels
    make = {"basis": 1, "loss": "logistic", "inference": "laplace", "search": None}
    mode = GPClassifier(KERNEL, discriminant="mode", **make).fit(X, y > 0)
    mean = GPClassifier(KERNEL, **make).fit(X, y > 0)
    np.testing.assert_allclose(mode.predict_latent(X)[0], mean.predict_latent(X)[0], atol=1e-6)
    other = KernelClassifier(KERNEL, basis=1, inference="laplace", loss=Logistic()).fit(X, y > 0)
    np.testing.assert_allclose(other.predict_proba(X), mean.predict_proba(X), atol=1e-8)


def test_draws_and_terms(counts) -> None:
    X, y = counts
    model = GPRegressor(KERNEL, loss=Poisson(), basis=1, search=None).fit(X, y)
    mean, std = model.predict_latent(X)
    draws = model.sample_y(X, 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.06)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.08)
    parts = [model.predict_component(X, name) for name in model.components_]
    np.testing.assert_allclose(sum(parts), mean, atol=1e-8)
