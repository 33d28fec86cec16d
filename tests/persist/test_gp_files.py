"""Files of Gaussian processes: predictions survive to the last bit."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mercer
from mercer.persist import ModelFileError, load
from tests.persist.common import forged


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 100, size=(40, 3))
    return X, 50 + np.sin(X[:, 0] / 12) + 0.1 * rng.normal(size=40)


def test_gp_predictions_are_identical(table, tmp_path):
    X, y = table
    model = mercer.GPRegressor(random_state=0).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer")
    new = X[:7] + 1.0
    for mine, theirs in zip(
        model.predict(new, return_std=True), again.predict(new, return_std=True), strict=True
    ):
        assert mine.tobytes() == theirs.tobytes()
    assert again.log_evidence_ == model.log_evidence_
    assert again.kernel_ == model.kernel_
    assert again.get_params().keys() == model.get_params().keys()
    assert str(again.summary()) == str(model.summary())


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_forged_gp_files_get_no_further(gp_file, tmp_path, data):
    path = forged(gp_file, data.draw, tmp_path / "forged.mercer")
    with contextlib.suppress(ModelFileError):
        assert isinstance(load(path), mercer.GPRegressor)


@pytest.fixture(scope="module")
def gp_file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("gp") / "gp.mercer"
    mercer.save(mercer.GPRegressor(search=None, basis="linear").fit(*table), path)
    return path.read_bytes()


@pytest.mark.parametrize("options", [{"basis": "linear"}, {"kernel": "matern32"}, {"search": None}])
def test_other_machines_survive(table, tmp_path, options):
    X, y = table
    model = mercer.GPRegressor(**options).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    for mine, theirs in zip(model.predict_interval(X), again.predict_interval(X), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_several_outputs_survive_to_the_bit(table, tmp_path):
    X, y = table
    for order in "CF":
        several = np.array(np.column_stack([y, -y, y**2]), order=order)
        model = mercer.GPRegressor(search=None, basis="linear").fit(X, several)
        mercer.save(model, tmp_path / "gp.mercer")
        again = mercer.load(tmp_path / "gp.mercer")
        assert again.predict(X).tobytes() == model.predict(X).tobytes()


def test_a_gp_with_an_own_kernel(table, tmp_path):
    from mercer.kernels import RBF

    own = type("OwnKernel", (RBF,), {"__module__": "somewhere.else"})
    X, y = table
    model = mercer.GPRegressor(own(20.0), search=None).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    with pytest.raises(ModelFileError, match=r"parts=\[OwnKernel\]"):
        mercer.load(tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer", parts=[own])
    assert again.predict(X).tobytes() == model.predict(X).tobytes()


def test_a_gp_with_a_bare_function_is_refused(table, tmp_path):
    X, y = table
    model = mercer.GPRegressor(basis=lambda X: X, search=None).fit(X, y)
    with pytest.raises(TypeError, match="bare function"):
        mercer.save(model, tmp_path / "gp.mercer")


def test_a_progress_function_is_not_part_of_a_model(table, tmp_path):
    from mercer.search import Optimize

    X, y = table
    seen = []
    search = Optimize(restarts=0, progress=seen.append)
    model = mercer.GPRegressor(search=search).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer")
    assert seen
    assert again.search == Optimize(restarts=0)
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
