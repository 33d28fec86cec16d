"""Parameters that the first batch of a stream fixes cannot be changed in its middle."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest

from mercer import LapMEDClassifier, MEDClassifier, OnlineLogisticClassifier
from mercer.kernels import RBF, Function
from mercer.persist import load, save

MAKERS = {
    "online": lambda: OnlineLogisticClassifier(1.0 * RBF(0.5)),
    "med": lambda: MEDClassifier(kernel=1.0 * RBF(0.5)),
    "lap": lambda: LapMEDClassifier(kernel=1.0 * RBF(0.5), n_neighbors=3),
}
pytestmark = pytest.mark.parametrize("name", MAKERS)


def batch(seed, n=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[0, 0], X[1, 0] = -1.0, 1.0
    return X, (X[:, 0] > 0.0).astype(int)


def changes(name):
    other = {"standardize": False} if name == "online" else {"amplitude": 3.0}
    return [
        {"kernel": "rbf"},
        {"kernel": 1.0 * RBF(0.6)},
        {"kernel__kernel__length_scale": 0.7},
        other,
    ]


def test_a_change_is_refused_and_nothing_else_happens(name):
    X, y = batch(0)
    for change in changes(name):
        machine = MAKERS[name]().partial_fit(X, y)
        want = machine.decision_function(X)
        machine.set_params(**change)
        parameter = next(iter(change)).partition("__")[0]
        with pytest.raises(ValueError, match=rf"{parameter} was changed in the middle .* call fit"):
            machine.partial_fit(*batch(1))
        np.testing.assert_array_equal(machine.decision_function(X), want)


def test_set_back_it_goes_on(name):
    X, y = batch(0)
    machine, want = (MAKERS[name]().partial_fit(X, y) for _ in range(2))
    machine.set_params(kernel=1.0 * RBF(2.0)).set_params(kernel=1.0 * RBF(0.5))
    for each in (machine, want):
        each.partial_fit(*batch(1))
    np.testing.assert_array_equal(machine.decision_function(X), want.decision_function(X))


class Similarity:
    """A function with settings of its own, equal to itself alone."""

    def __call__(self, X, Z):
        return similarity(X, Z, 1.0)


def similarity(X, Z, rate):
    return np.exp(-rate * np.square(X[:, None] - Z).sum(axis=2))


@pytest.mark.parametrize("function", [partial(similarity, rate=1.0), Similarity()])
def test_a_function_that_equals_no_copy_goes_on(name, function):
    X, y = batch(0)
    for kernel in (function, 2.0 * Function(function)):
        machine = MAKERS[name]().set_params(kernel=kernel).partial_fit(X, y)
        for again in (machine, copy.deepcopy(machine), pickle.loads(pickle.dumps(machine))):
            again.partial_fit(*batch(1))
        with pytest.raises(ValueError, match="kernel was changed"):
            machine.set_params(kernel=Similarity()).partial_fit(*batch(2))


def test_a_length_scale_of_another_shape_is_a_change(name):
    X, y = batch(0)
    machine = MAKERS[name]().set_params(kernel=RBF(np.array([0.5, 0.5]))).partial_fit(X, y)
    machine.set_params(kernel=RBF(np.array([0.5, 0.5]))).partial_fit(*batch(1))
    with pytest.raises(ValueError, match="kernel was changed in the middle"):
        machine.set_params(kernel__length_scale=np.full(3, 0.5)).partial_fit(*batch(2))


def test_fit_begins_afresh(name):
    X, y = batch(0)
    machine = MAKERS[name]().partial_fit(X, y).set_params(kernel=1.0 * RBF(2.0)).fit(X, y)
    want = MAKERS[name]().set_params(kernel=1.0 * RBF(2.0)).fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), want.decision_function(X))
    machine.partial_fit(*batch(1))
    with pytest.raises(ValueError, match="kernel was changed"):
        machine.set_params(kernel=1.0 * RBF(0.5)).partial_fit(*batch(2))


def test_what_may_be_changed(name):
    X, y = batch(0)
    machine = MAKERS[name]().partial_fit(X, y)
    machine.set_params(**({"rho": 0.9} if name == "online" else {"C": 5.0}))
    machine.partial_fit(*batch(1))


def test_a_file_has_the_parameters_of_the_stream(name, tmp_path):
    X, y = batch(0)
    machine = MAKERS[name]().partial_fit(X, y)
    save(machine.set_params(kernel=1.0 * RBF(9.0)), tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.kernel == 1.0 * RBF(0.5)
    again.partial_fit(*batch(1))
    with pytest.raises(ValueError, match="kernel was changed"):
        again.set_params(kernel=1.0 * RBF(9.0)).partial_fit(*batch(2))
