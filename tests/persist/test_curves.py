"""Files of smoothing splines: the states are those of the rows, or the file is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.persist import ModelFileError
from tests.attacks.mutate import opened

RNG = np.random.default_rng(0)
CROWDED = np.concatenate([RNG.uniform(0, 1, 20), 0.5 + 1e-9 * RNG.uniform(size=20)])
FAR = np.cumsum(10.0 ** RNG.uniform(-6, 2, 40))
Y = RNG.poisson(3.0, 40).astype(float)
STATES = "posteriors_/0/SplinePosterior/states"


@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("x", [CROWDED, FAR, np.round(10 * CROWDED)], ids=["near", "far", "equal"])
@pytest.mark.parametrize("lam", [1e-9, 1.0, np.inf])
def test_every_curve_is_its_own(order, x, lam, tmp_path):
    fitted = mercer.SmoothingSpline(order, lam=lam).fit(x[:, None], Y)
    mercer.save(fitted, tmp_path / "a.mercer")
    again = mercer.load(tmp_path / "a.mercer")
    pairs = zip(again.predict_latent(x[:, None]), fitted.predict_latent(x[:, None]), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("loss", ["gaussian", "poisson", "student_t"])
@pytest.mark.parametrize(
    ("name", "place", "number"),
    [
        (f"{STATES}/cov", (3, 0), 1e16),
        (f"{STATES}/cov", (3, 0), 0.0),
        (f"{STATES}/mean", (3, 0), 1e3),
        (f"{STATES}/root", (0, 0), 10.0),
        (f"{STATES}/back", (3, 0), 7.0),
        (f"{STATES}/back", (3, 5), 7.0),
        ("units_/x_scale", 0, 1e-5),
        ("units_/x_shift", 0, 1e16),
        ("units_/y_scale", 0, 1e9),
    ],
)
def test_other_states_are_refused(loss, name, place, number, tmp_path):
    path = tmp_path / "a.mercer"
    mercer.save(mercer.SmoothingSpline(loss=loss, lam=0.1).fit(CROWDED[:, None], Y), path)
    model = opened(path)
    model.arrays[name][place] = number
    model.write(path)
    with pytest.raises(ModelFileError, match="the curve"):
        mercer.load(path)


@pytest.mark.parametrize("loss", ["gaussian", "poisson", "student_t"])
@pytest.mark.parametrize("name", ["noise_variance", "variance"])
def test_other_variances_are_refused(loss, name, tmp_path):
    path = tmp_path / "a.mercer"
    mercer.save(mercer.SmoothingSpline(loss=loss, lam=0.1).fit(CROWDED[:, None], Y), path)
    model = opened(path)
    curve = model.manifest["state"]["posteriors_"][0]["SplinePosterior"]
    (curve if name in curve else curve["states"])[name] *= 30.0
    model.write(path)
    with pytest.raises(ModelFileError, match="the curve"):
        mercer.load(path)
