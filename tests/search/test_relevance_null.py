"""When functions are more than noise: the charge, the test that can be switched off, the words."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import RVClassifier, RVRegressor
from mercer.kernels import RBF


def bumps(seed: int, n: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-5, 5, (n, 2))
    f = np.sin(X[:, 0]) * np.cos(X[:, 1])
    return X, f, f + 0.3 * rng.normal(size=n)


def test_many_small_functions_are_no_noise() -> None:
    """Each gains little, all together 20 to 50 nats: they are kept, and the length scale found."""
    good = []
    for seed in range(12):
        X, f, y = bumps(seed)
        model = RVRegressor().fit(X, y)
        test = model.report_["machines"][0]["null_model"]
        assert test["kept"] == (len(model.relevance_rows_) == 0)
        good.append(np.mean((model.predict(X) - f) ** 2) < 0.4 * np.var(f))
    assert sum(good) >= 11


@pytest.mark.filterwarnings("ignore::mercer.core.errors.FoundNothingWarning")  # noise
def test_noise_is_seldom_kept() -> None:
    kept = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        n, d = (40, 80, 120)[seed % 3], (1, 2, 4, 10)[seed % 4]
        kept += len(RVRegressor().fit(rng.normal(size=(n, d)), rng.normal(size=n)).weights_[0]) > 0
    assert kept <= 3  # 5 %, and two deviations of 24 tables


def test_the_charge_is_stated_and_can_be_switched_off(rng) -> None:
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    with pytest.warns(UserWarning, match="found nothing but noise and predicts the mean") as caught:
        model = RVRegressor(RBF(0.5)).fit(X, y)
    assert caught[0].filename == __file__
    free = RVRegressor(RBF(0.5), null_test=False).fit(X, y)
    test, M = free.report_["machines"][0]["null_model"], len(free.relevance_rows_)
    assert M > 0
    assert not test["kept"]
    assert free.report_["found_nothing"] == ""
    assert test["needed"] == pytest.approx(M * (0.7 + np.log(80 / (80 - M / 2))) + 4.5)
    assert test["gain"] == pytest.approx(free.log_evidence_ - model.log_evidence_)
    assert test["gain"] < test["needed"]
    assert "nothing but noise was found" in str(model.summary())
    wide = RVRegressor(functions="columns", null_test=False).fit(rng.normal(size=(20, 50)), y[:20])
    test, M = wide.report_["machines"][0]["null_model"], len(wide.relevance_rows_)
    assert test["needed"] == pytest.approx(M * (0.7 + np.log(50 / (20 - M / 2))) + 4.5)
    with pytest.raises(ValueError, match="null_test must be True or False"):
        RVRegressor(null_test="yes").fit(X, y)


def test_a_model_without_functions_is_said(rng) -> None:
    X, y = rng.normal(size=(60, 2000)), rng.normal(size=60)
    with pytest.warns(UserWarning, match="found nothing but noise and predicts the mean"):
        model = RVRegressor().fit(X, y + X[:, 0])
    assert "noise" in model.report_["found_nothing"]
    with pytest.warns(UserWarning, match="predicts the share of each class"):
        RVClassifier().fit(X[:, :2], y > 0)
    equal = RVRegressor().fit(X[:, :2], np.full(60, 3.0))  # there is nothing to be found
    assert equal.report_["found_nothing"] == ""


def checks(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (100, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=100) > 0


@pytest.mark.parametrize("kernel", [RBF(1.0), pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::mercer.core.errors.FoundNothingWarning")  # one or two
def test_labels_of_many_small_functions_are_no_noise(kernel) -> None:
    models = [RVClassifier(kernel).fit(*checks(seed)) for seed in range(12)]
    assert sum(len(model.relevance_rows_) > 0 for model in models) >= 10


@pytest.mark.parametrize("kernel", [RBF(0.3), pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::mercer.core.errors.FoundNothingWarning")  # noise
def test_labels_of_noise_are_seldom_learned(kernel) -> None:
    kept = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n, d = (40, 80)[seed % 2], (1, 2)[seed // 2 % 2]
        model = RVClassifier(kernel).fit(rng.uniform(size=(n, d)), rng.permutation(n) % 2)
        kept += len(model.relevance_rows_) > 0
    assert kept <= 3  # 6 %


def test_the_charge_of_labels(rng) -> None:
    X, y = rng.uniform(size=(60, 1)), rng.permutation(60) % 2
    free = RVClassifier(RBF(0.05), null_test=False).fit(X, y)
    test, M = free.report_["machines"][0]["null_model"], len(free.relevance_rows_)
    assert M > 0
    assert test["needed"] == pytest.approx(M * (1.0 + np.log(60 / (60 - M / 2))) + 4.5)
    with pytest.warns(UserWarning, match="predicts the share of each class"):
        RVClassifier(RBF(0.05)).fit(X, y)
