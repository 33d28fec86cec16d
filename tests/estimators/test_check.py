"""check(): what residuals say of a fit that is right, and of fits that are wrong in known ways."""

import numpy as np
import pytest

import mercer
from mercer import AdditiveRegressor, GPRegressor, SmoothingSpline, ThinPlateSpline
from mercer.kernels import RBF
from mercer.left_out.structure import along, among
from mercer.linalg import Inducing
from mercer.losses import Gaussian

rng = np.random.default_rng(8)
X = rng.uniform(0, 6, (120, 2))
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=120)


def flags(model, X=X, y=y) -> str:
    return " ".join(model.fit(X, y).check(X, y).flags)


def test_the_index_of_neighbours_by_hand() -> None:
    r, x = np.array([1.0, -1.0, 2.0, 0.5, 0.1, 0.2, 0.9, -0.3, 1.1, 0.7]), np.arange(10.0)
    steps = 0.5 * np.mean(np.diff(r) ** 2) / np.var(r)
    assert along("x", r, x).index == pytest.approx(steps)
    assert along("x", r[::-1], -x).index == pytest.approx(steps)
    pairs = np.array([[0.0], [0.1], [5.0], [5.1], [9.0], [9.1], [14.0], [14.1], [20.0], [20.1]])
    near = 0.5 * np.mean((r[::2] - r[1::2]) ** 2) / np.var(r)
    assert among("x", r, pairs).index == pytest.approx(near)


def test_noise_raises_a_false_alarm_as_rarely_as_p_says() -> None:
    p = [along("x", rng.normal(size=60), rng.normal(size=60), seed).p for seed in range(100)]
    assert 0.02 < np.mean(np.array(p) < 0.1) < 0.2


def test_a_model_that_fits_has_nothing_to_look_at() -> None:
    assert flags(AdditiveRegressor()) == ""
    assert flags(SmoothingSpline(), X[:, :1], y - 0.3 * X[:, 1]) == ""


def test_each_way_to_be_wrong_is_named() -> None:
    stiff = GPRegressor("linear").fit(X, y).check(X, y)
    assert "neighbours along 'x0'" in stiff.flags[0]
    assert "x1" not in stiff.flags[0]
    assert "! neighbours" in str(stiff)
    narrow = GPRegressor("rbf", loss=Gaussian(0.2**2 / 9), search=None, standardize=False)
    assert "too narrow" in flags(narrow)
    cauchy = y + 0.3 * rng.standard_t(1.2, size=120)
    assert "not normal" in flags(GPRegressor(), X, cauchy)
    assert "8 knots are too few" in flags(ThinPlateSpline(knots=8))
    few = GPRegressor(gram=Inducing(m=3), random_state=0)
    assert "3 inducing points" in flags(few)
    drift = 2.0 * np.sin(np.arange(120) / 9)  # with the rows, of which no input tells
    assert "not independent" in flags(GPRegressor("linear"), X, y + drift)
    far = np.vstack([X, [[40.0, 3.0]]])
    pulled = GPRegressor("linear").fit(far, np.append(y, 30.0)).check(far, np.append(y, 30.0))
    assert int(np.argmax(pulled.influence)) == 120
    with pytest.raises(ValueError, match="one target for each row"):
        few.check(X, np.column_stack([y, y]))


def test_influence_is_the_change_by_a_refit_without_the_row() -> None:
    model = GPRegressor(1.0 * RBF(1.5), loss=Gaussian(0.04), search=None).fit(X, y)
    found, keep = model.check(X, y), np.arange(120) != 7
    without = GPRegressor(1.0 * RBF(1.5), loss=Gaussian(0.04), search=None)
    mean, std = without.fit(X[keep], y[keep]).predict(X[[7]], return_std=True)
    moved = abs(model.predict(X[[7]])[0] - mean[0]) / std[0]
    assert found.influence[7] == pytest.approx(moved)
    assert found.residuals[7] == pytest.approx((y[7] - mean[0]) / std[0])


def test_table_models_of_every_kind_are_checked(tmp_path) -> None:
    table = {"a": X[:, 0], "town": np.where(X[:, 1] > 3, "Ulm", "Bonn"), "y": y}
    line = mercer.fit(table, target="y", candidates=["linear"])
    assert any("along 'a'" in flag for flag in line.check().flags)
    slopes = {c.column: c for c in line.coefficients()}
    ulm, bonn = (slopes[f"town = {name}, against the average"] for name in ("Ulm", "Bonn"))
    assert ulm.value == pytest.approx(-bonn.value)
    assert ulm.value > 5 * ulm.std
    line.save(tmp_path / "m.mercer")
    loaded = mercer.load(tmp_path / "m.mercer")
    assert str(loaded.check(table)) == str(line.check())
    with pytest.raises(ValueError, match="training table"):
        loaded.check()
    labels = np.where(np.sin(X[:, 0]) + 0.3 * rng.normal(size=120) > 0, "u", "v")
    labels = np.where(X[:, 1] > 5, "w", labels)
    for names in (["u", "v", "v"], ["u", "v", "w"]):
        kinds = np.select([labels == "u", labels == "v"], names[:2], names[2])
        model = mercer.fit(table | {"y": kinds}, target="y", candidates=["kernel logistic"])
        assert model.check().normal is None
        assert model.coefficients() == []
