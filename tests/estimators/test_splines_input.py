"""What a smoothing spline refuses and survives, and its model files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer import SmoothingSpline, load, save
from mercer.persist import ModelFileError
from tests.persist.common import with_manifest

x = np.linspace(0.0, 5.0, 30)
y = np.sin(x) + 0.1 * np.cos(40 * x)


def refused(match, X=x[:, None], target=y, error=ValueError, weight=None, **params):
    """Fit with bad input after a good fit: the sentence comes, and the model is as it was."""
    model = SmoothingSpline().fit(x[:, None], y)
    before = dict(vars(model))
    model.set_params(**params)
    with pytest.raises(error, match=match):
        model.fit(X, target, weight)
    after = {k: v for k, v in vars(model).items() if k not in params}
    assert after.keys() == before.keys() - params.keys()
    assert all(after[k] is before[k] for k in after)


def test_values_that_are_not_numbers():
    bad = x.copy()
    bad[4] = np.nan
    refused("contains NaN in column 0, row 4", X=bad[:, None])
    refused("contains NaN in row 4", target=np.where(x == x[4], np.nan, y))
    refused("infinity", X=np.where(x == x[2], np.inf, x)[:, None])
    refused("text in row 0", target=["a"] * 30)


def test_columns():
    refused("one column and X has 2", X=np.column_stack([x, x]))
    with pytest.raises(ValueError, match="Reshape your data"):
        SmoothingSpline().fit(x, y)
    frame = pd.DataFrame({"time": x})
    model = SmoothingSpline().fit(frame, y)
    assert list(model.feature_names_in_) == ["time"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame({"hour": x}))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_too_few_points(m):
    some = np.repeat(np.arange(m - 1.0), 3) if m > 1 else np.zeros(0)
    if m > 1:
        refused(f"a spline of order {m} needs {m}", X=some[:, None], target=some, order=m)
    few = np.arange(float(m))
    refused("nothing is left to learn the noise", X=few[:, None], target=few**2, order=m)
    refused("nothing is left to learn the noise", X=few[:, None], target=few**2, order=m, lam=1.0)


def test_parameters():
    for bad in (0, 7, 2.5, True, "cubic"):
        refused("order must be a whole number from 1 to 6", order=bad)
    for bad in (-1.0, np.nan):
        refused("lam must be positive", lam=bad)
    refused("lam must be a positive number", error=TypeError, lam="much")
    refused("too small to be told from zero", lam=1e-200)
    refused("search must be one of 'evidence', 'gcv', 'loo'", search="aic")
    refused("sample_weight must be finite", weight=-np.ones(30))
    refused("all sample weights are zero", weight=np.zeros(30))
    model = SmoothingSpline().fit(x[:, None], y)
    for bad in (-1, 1.5, True):
        with pytest.raises(ValueError, match="whole number of 0 or more"):
            model.derivative(x[:, None], bad)


def test_numbers_out_of_range():
    refused("more than floating-point numbers hold", X=np.where(x > 4, 1.7e308, -1.7e308)[:, None])
    refused("leaves the range of floating-point numbers; give x", X=1e150 * x[:, None])
    refused("give y in other units", target=1e200 * y)
    gap = np.append(x[:-1], 1e60)
    refused("more than floating-point numbers resolve", X=gap[:, None], order=3)


@pytest.mark.parametrize("search", ["evidence", "gcv", "loo"])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("offset", [0.0, 3.7, 1e6])
def test_a_polynomial_is_found_exactly(m, offset, search):
    target = offset + (x**2 if m == 3 else 2.0 * x if m == 2 else 0.0 * x)
    model = SmoothingSpline(m, search=search).fit(x[:, None], target)
    assert model.lam_ == np.inf
    assert model.edf_ == pytest.approx(m)
    assert model.loss_.noise == 0.0
    assert model.log_evidence_ == np.inf
    assert model.report_["polynomial"]
    at = np.linspace(-2.0, 7.0, 9)
    truth = offset + (at**2 if m == 3 else 2.0 * at if m == 2 else 0.0 * at)
    mean, std = model.predict(at[:, None], return_std=True)
    np.testing.assert_allclose(mean, truth, rtol=1e-9, atol=1e-9 * max(1.0, offset))
    assert np.all(std == 0.0)
    assert "polynomial" in str(model.summary())
    given = SmoothingSpline(m, lam=1.0).fit(x[:, None], target)
    np.testing.assert_allclose(given.predict(at[:, None]), truth, rtol=1e-8, atol=1e-8)


def test_noise_about_a_line_has_infinite_lam(rng):
    found = []
    for _ in range(20):
        target = 1.0 + 2.0 * x + rng.normal(size=len(x))
        model = SmoothingSpline().fit(x[:, None], target)
        found.append(np.isinf(model.lam_))
        if found[-1]:
            line = np.polynomial.Polynomial.fit(x, target, 1)
            np.testing.assert_allclose(model.predict(x[:, None]), line(x), atol=1e-10)
            assert model.report_["search"]["at_bounds"] == ["lam (largest)"]
            assert np.isfinite(model.log_evidence_)
            same = SmoothingSpline(lam=np.inf).fit(x[:, None], target)
            assert same.log_evidence_ == model.log_evidence_
            for lam in (1e-2, 1.0, 1e2, 1e6):
                other = SmoothingSpline(lam=lam).fit(x[:, None], target)
                assert other.log_evidence_ < model.log_evidence_
    assert 3 < sum(found) < 20


def test_observations_without_noise_are_interpolated():
    target = np.sin(x)
    model = SmoothingSpline(3).fit(x[:, None], target)
    assert np.abs(model.predict(x[:, None]) - target).max() < 1e-5
    between = 0.5 * (x[1:] + x[:-1])
    assert np.abs(model.predict(between[:, None]) - np.sin(between)).max() < 2e-4


def test_one_observation_more_than_coefficients():
    """The scale takes all that is known: the evidence does not depend on lam, the line is taken."""
    model = SmoothingSpline().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 5.0])
    assert model.lam_ == np.inf
    assert model.loss_.noise == pytest.approx(2.0 / 3.0)


def test_a_long_gap_does_not_hide_the_scale():
    left, right = np.linspace(0.0, 6.0, 60), 1e6 + np.linspace(0.0, 6.0, 60)
    rng = np.random.default_rng(3)
    z = np.concatenate([left, right])
    target = np.sin(np.concatenate([left, left])) + 0.1 * rng.normal(size=120)
    model = SmoothingSpline().fit(z[:, None], target)
    alone = SmoothingSpline().fit(left[:, None], target[:60])
    assert 8.0 < model.edf_ < 4.0 * alone.edf_
    _, std = model.predict_latent([[5e5]])
    assert std[0] > 1e6  # nothing is known in between
    assert np.abs(model.predict(z[:, None]) - np.sin(np.tile(left, 2))).max() < 0.15


# ---------------------------------------------------------------------- files
def bits(model):
    at = np.linspace(-1.0, 6.0, 40)[:, None]
    return [
        *model.predict(at, return_std=True),
        *model.derivative(at, 0, return_std=True),
        np.array([model.integral(-1.0, 4.0), model.lam_, model.edf_, model.log_evidence_]),
        model.sample_y(at, 2, random_state=1),
        model.loo_.mean,
        model.loo_.log_density,
        model.predict(at, return_cov=True)[1],
    ]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("lam", [None, 0.1, np.inf])
def test_file_keeps_every_bit(tmp_path, m, lam):
    z, target = np.append(x[::-1], x[:4]), np.append(y[::-1], y[:4] + 0.2)
    w = np.where(np.arange(34) % 5 == 0, 0.0, 1.5)
    model = SmoothingSpline(m, lam=lam).fit(pd.DataFrame({"time": z}), target, w)
    save(model, tmp_path / "spline.mercer")
    again = load(tmp_path / "spline.mercer")
    assert again.get_params() == model.get_params()
    assert str(again.summary()) == str(model.summary())
    assert list(again.feature_names_in_) == ["time"]
    assert again.report_ == model.report_
    model.feature_names_in_ = again.feature_names_in_ = None
    for model_ in (model, again):
        del model_.feature_names_in_
    for ours, theirs in zip(bits(model), bits(again), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "change",
    [
        {"order": 3},
        {"order": 0},
        {"lam": -1.0},
        {"noise": -1.0},
        {"variance": None},
        {"n_features": 2},
        {"report": {}},
    ],
)
def test_forged_files_are_refused(tmp_path, change):
    path = tmp_path / "spline.mercer"
    save(SmoothingSpline().fit(x[:, None], y), path)
    with_manifest(path, lambda manifest: manifest["state"].update(change))
    with pytest.raises(ModelFileError):
        load(path)


def test_what_is_kept_does_not_change_with_the_callers_arrays():
    z, target = x[:, None].copy(), y.copy()
    model = SmoothingSpline().fit(z, target)
    before = bits(model)[-2:]
    z += 1.0
    target[:] = 0.0
    model._left = None
    for ours, theirs in zip(before, bits(model)[-2:], strict=True):
        np.testing.assert_array_equal(ours, theirs)
