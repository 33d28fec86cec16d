"""Classes that come later, and how sure several classes are."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import OnlineLogisticClassifier, RiverClassifier
from mercer.kernels import RBF, Linear
from mercer.losses.numbers.averages import log_averaged

KERNEL = 4.0 * RBF(1.5) + 1.0


def table(n=240, k=4, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.integers(k, size=n)
    X = 2.5 * np.column_stack([np.cos(code), np.sin(code)]) + rng.normal(size=(n, 2))
    return X, np.array(["b", "a", "d", "c"])[code]


def later(n=240):
    """The table with the class "a" from row 100 on, and "d" from row 160 on."""
    X, y = table(n)
    keep = ~(((y == "a") & (np.arange(n) < 100)) | ((y == "d") & (np.arange(n) < 160)))
    return X[keep], y[keep]


def streamed(model, X, y, **first):
    for i in range(0, len(X), 20):
        model.partial_fit(X[i : i + 20], y[i : i + 20], **(first if i == 0 else {}))
    return model


@pytest.mark.parametrize(
    "given",
    [{"kernel": KERNEL}, {"kernel": KERNEL, "budget": 30}, {"kernel": Linear() + 1.0}],
    ids=["whole", "budget", "weights"],
)
def test_a_class_that_comes_later_is_as_if_it_had_been_known(given, tmp_path):
    """Its function is that of a learner that knew the class, and never saw it, from the start."""
    X, y = later()
    grown = streamed(OnlineLogisticClassifier(**given), X, y, classes="grow")
    assert grown.classes_.tolist() == ["a", "b", "c", "d"]
    assert grown.report_["classes"]["grown"] == ["a", "d"]
    known = streamed(OnlineLogisticClassifier(**given), X, y, classes=["a", "b", "c", "d"])
    new = table(50, seed=1)[0]
    tolerance = 1e-8 if "budget" not in given else 0.3  # which points are kept depends on both
    gap = np.array(grown.predict_latent(new)) - np.array(known.predict_latent(new))
    assert np.abs(gap).max() < tolerance
    assert grown.predict_proba(new).shape == (50, 4)
    np.testing.assert_allclose(grown.predict_proba(new).sum(axis=1), 1.0)
    mercer.save(grown, tmp_path / "grown.mercer")
    again = mercer.load(tmp_path / "grown.mercer")
    X2, y2 = table(20, seed=3)
    y2[:2] = "e"
    for one in (grown, again):
        one.partial_fit(X2, y2)
    np.testing.assert_array_equal(again.predict_proba(new), grown.predict_proba(new))
    assert again.classes_.tolist() == ["a", "b", "c", "d", "e"]
    assert np.isfinite(grown.prequential_.log_loss)


def test_classes_that_do_not_grow_stay():
    X, y = later()
    model = OnlineLogisticClassifier(KERNEL).partial_fit(X[:40], y[:40])
    assert not model.grows_
    with pytest.raises(ValueError, match="is not one of the classes"):
        model.partial_fit(X[100:], y[100:])
    with pytest.raises(ValueError, match="keeps them"):
        model.partial_fit(X[:20], y[:20], classes="grow")
    growing = OnlineLogisticClassifier(KERNEL).partial_fit(X[:40], y[:40], classes="grow")
    with pytest.raises(ValueError, match="label"):
        growing.partial_fit(X[:20], np.arange(20.0))
    assert growing.classes_.tolist() == ["b", "c"]


def test_river_learns_new_classes():
    X, y = later()
    model = RiverClassifier(OnlineLogisticClassifier(KERNEL), classes="grow", first=30, batch=10)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("xy", row, strict=True)), label)
    assert sorted(model.predict_proba_one({"x": 0.0, "y": 0.0})) == ["a", "b", "c", "d"]


def test_several_classes_are_as_sure_as_they_have_earned_to_be():
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(11, 4))
    code = rng.integers(11, size=1500)
    X = centres[code] + rng.normal(size=(1500, 4))
    raw = OnlineLogisticClassifier(budget=80, calibration=None)
    sharp = OnlineLogisticClassifier(budget=80)
    for i in range(0, 1200, 100):
        for model in (raw, sharp):
            model.partial_fit(X[i : i + 100], code[i : i + 100], classes=np.arange(11))
    assert sharp.report_["calibration"]["power"] > 1.0
    assert sharp.prequential_.log_loss < 0.85 * raw.prequential_.log_loss
    assert sharp.prequential_.accuracy == raw.prequential_.accuracy
    new = X[1200:]
    np.testing.assert_array_equal(sharp.predict(new), raw.predict(new))
    mean, std = sharp.predict_latent(new)
    p = np.exp(log_averaged(mean, std**2)) ** sharp.sharpening_.power
    np.testing.assert_allclose(sharp.predict_proba(new), p / p.sum(1, keepdims=True), rtol=1e-8)

    def lost(model):
        return -np.mean(model.predict_log_proba(new)[np.arange(300), code[1200:]])

    assert lost(sharp) < 0.9 * lost(raw)
