"""Degrees of freedom, sizes and slopes of the terms of a sum, against refits."""

import numpy as np
import pytest

from mercer import AdditiveRegressor, GPRegressor
from mercer.estimators.additive import terms as module
from mercer.kernels import RBF, Linear, Matern
from mercer.losses import Gaussian

rng = np.random.default_rng(3)
X = rng.uniform(0, 4, (30, 3))
X[25:] = X[:5]  # repeated rows
y = np.sin(X[:, 0]) + 0.7 * X[:, 1] + 0.2 * rng.normal(size=30)
SUM = 1.0 * RBF(1.5).on(0) + Linear(weight=2.0).on(1) + 0.5 * Matern(nu=1.5).on(2)

TWO = 1.0 * Matern(nu=2.5).on(0) + 0.5 * Matern(nu=2.5).on(1)


@pytest.mark.parametrize("basis", [None, "constant", "linear"])
def test_edf_of_a_term_is_the_trace_of_its_smoother_by_refits(basis: str | None) -> None:
    w = rng.choice([1.0, 2.5], size=30)

    def fitted(y: np.ndarray) -> GPRegressor:
        model = GPRegressor(SUM, loss=Gaussian(0.05), search=None, basis=basis)
        return model.fit(X, y, sample_weight=w)

    model = fitted(y)
    base = [model.predict_component(X, j) for j in range(3)]
    traces = np.zeros(3)
    for i in range(30):
        moved = y.copy()
        moved[i] += 1.0
        other = fitted(moved)
        for j in range(3):
            traces[j] += other.predict_component(X[[i]], j)[0] - base[j][i]
    found = model.terms()
    np.testing.assert_allclose([t.edf for t in found.terms], traces, rtol=1e-6, atol=1e-8)
    free = {None: 0, "constant": 1, "linear": 4}[basis]
    assert found.total == pytest.approx(traces.sum() + free)
    parts = np.array([model.predict_component(np.unique(X, axis=0), j) for j in range(3)])
    assert [t.size for t in found.terms] == pytest.approx(parts.std(axis=1))
    assert sum(t.share for t in found.terms) == pytest.approx(1.0)
    assert "Linear(x1)" in str(found)


def test_limits_of_the_degrees_of_freedom() -> None:
    kernel = Linear(weight=1e5).on([0, 1]) + 1e-9 * RBF().on(2)
    model = GPRegressor(kernel, loss=Gaussian(0.1), search=None, basis="constant").fit(X, y)
    assert [t.edf for t in model.terms().terms] == pytest.approx([2.0, 0.0], abs=1e-5)
    noisy = GPRegressor(SUM, loss=Gaussian(1e9), search=None).fit(X, y).terms()
    assert [t.edf for t in noisy.terms] == pytest.approx([0.0] * 3, abs=1e-4)


@pytest.mark.parametrize("n", [60, 400])  # dense, and by the weights of the features
def test_slopes_of_straight_lines_are_least_squares(n: int) -> None:
    Z = rng.normal(size=(n, 2)) * [1.0, 5.0] + [0.0, 9.0]
    t = 3.0 + Z @ [2.0, -0.1] + 0.3 * rng.normal(size=n)
    H = np.column_stack([np.ones(n), Z])
    beta, noise = np.linalg.lstsq(H, t, rcond=None)[0], 0.09
    error = np.sqrt(noise * np.diag(np.linalg.inv(H.T @ H)))
    flat = GPRegressor(1e-9 * RBF(), loss=Gaussian(noise), search=None, basis="linear").fit(Z, t)
    level, *slopes = flat.terms().coefficients
    assert [level.value, *(c.value for c in slopes)] == pytest.approx(beta, rel=1e-4)
    assert [level.std, *(c.std for c in slopes)] == pytest.approx(error, rel=1e-4)
    broad = Linear(weight=1e3)
    prior = GPRegressor(broad, loss=Gaussian(noise), search=None, basis="constant").fit(Z, t)
    own = [c for c in prior.terms().coefficients if c.term == "Linear"]
    assert [c.value for c in own] == pytest.approx(beta[1:], rel=1e-4)
    assert [c.std for c in own] == pytest.approx(error[1:], rel=1e-4)
    assert prior.terms().terms[0].edf == pytest.approx(2.0, abs=1e-3)


def test_random_vectors_estimate_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = rng.normal(size=(400, 2))
    t = np.sin(2 * Z[:, 0]) + 0.3 * rng.normal(size=400)
    exact = AdditiveRegressor(rows=500, random_state=0).fit(Z, t).terms()
    many = AdditiveRegressor(TWO, loss=Gaussian(0.09), search=None, gram="iterative", tol=1e-6).fit(
        Z, t
    )
    dense = AdditiveRegressor(TWO, loss=Gaussian(0.09), search=None, gram="dense").fit(Z, t)
    monkeypatch.setattr(module, "WHOLE", 100)
    for few, whole in zip(many.terms().terms, dense.terms().terms, strict=True):
        assert few.edf_error > 0.0
        assert few.edf == pytest.approx(whole.edf, abs=5 * few.edf_error)
        assert few.size == pytest.approx(whole.size, rel=1e-3)
    assert exact.terms[0].edf > exact.terms[1].edf
