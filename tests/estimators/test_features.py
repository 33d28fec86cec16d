"""KernelFeatures: products of its columns are the kernel, or its Nystroem approximation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import SVC, GPRegressor, KernelFeatures
from mercer.kernels import RBF, Constant, Linear, Matern, RandomFourier
from mercer.linalg import Inducing

RULES = ["kmeans", "uniform", "pivots", "random_pivots"]


def rows(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("rule", RULES)
def test_products_are_the_nystroem_approximation(rule):
    X, new, kernel = rows(), rows(20, seed=1), 2.0 * Matern(length_scale=1.7)
    made = KernelFeatures(kernel, m=12, choose=rule, random_state=3).fit(X)
    Z = made.points_
    assert Z.shape == (12, 3)
    assert made.transform(X).shape == (60, 12)
    wanted = kernel(new, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X))
    np.testing.assert_allclose(made.transform(new) @ made.transform(X).T, wanted, atol=1e-10)
    left = 1.0 - (made.transform(X) ** 2).sum() / kernel.diag(X).sum()
    assert made.report_["inducing"]["explained"] == pytest.approx(1.0 - left, rel=1e-10)


def test_equals_scikit_learns_for_the_same_points():
    """Its features are rotated: k(Z, Z)^-1/2 k(Z, x); products are the same."""
    X = rows(50)
    theirs = Nystroem(kernel="rbf", gamma=0.2, n_components=15, random_state=0).fit(X)
    ours = KernelFeatures(RBF(length_scale=np.sqrt(2.5)), m=theirs.components_).fit(X)
    A, B = theirs.transform(X), ours.transform(X)
    np.testing.assert_allclose(A @ A.T, B @ B.T, atol=1e-10)


def test_a_name_is_in_units_of_the_columns():
    X = rows(40) * [1.0, 50.0, 1e-4] + [0.0, 300.0, 2.0]
    S = StandardScaler().fit_transform(X)
    F = KernelFeatures("rbf", m=40).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, rbf_kernel(S, gamma=1.0 / 3.0), atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [
        Linear(),
        RandomFourier(size=20),
        2.0 * Linear() + Constant(),
        Linear().on([0]) + Constant(2.0),
    ],
)
def test_features_of_the_kernel_itself(kernel):
    X = rows(25)
    made = KernelFeatures(kernel, m=None).fit(X)
    F = made.transform(X)
    np.testing.assert_allclose(F @ F.T, kernel.frozen(X)(X), atol=1e-12)
    assert made.points_ is None
    assert F.shape[1] == made.n_features_out_
    assert "own features" in str(made.summary())


def test_a_kernel_of_low_rank():
    X = rows(30)
    made = KernelFeatures(Linear(), m=20).fit(X)
    F, told = made.transform(X), made.report_["inducing"]
    np.testing.assert_allclose(F @ F.T, X @ X.T, atol=1e-7)
    assert 0.0 < told["jitter"] < 1e-8  # what was added is said
    twice = KernelFeatures(RBF(), m=np.vstack([X[:4], X[:2]])).fit(X)
    assert twice.n_features_out_ == 4
    assert twice.report_["inducing"]["dropped"] == 2


def test_weights_are_copies_and_order_does_not_matter():
    X = rows(40)
    w = np.r_[np.full(20, 2), np.full(19, 1), 0]
    one = KernelFeatures(m=6).fit(X, sample_weight=w)
    two = KernelFeatures(m=6).fit(np.repeat(X, w, axis=0)[::-1])
    np.testing.assert_allclose(one.transform(X), two.transform(X), atol=1e-12)
    heavy = KernelFeatures(RBF(), m=6).fit(X, sample_weight=np.where(X[:, 0] > 0, 1.0, 1e-6))
    plain = KernelFeatures(RBF(), m=6).fit(X)
    assert heavy.points_[:, 0].mean() > plain.points_[:, 0].mean()


def test_a_linear_machine_on_them_is_the_process_on_inducing_points():
    """Ridge on phi is the mean of a GP with the reduced prior (no bound, no correction)."""
    X = rows(80, 2)
    y = np.sin(2.0 * X[:, 0]) * X[:, 1]
    kernel, noise = 1.5 * RBF(0.8), 0.05
    made = KernelFeatures(kernel, m=20)
    ridge = make_pipeline(made, Ridge(alpha=noise, fit_intercept=False)).fit(X, y)
    points = Inducing(m=ridge[0].points_, move=False)
    loss = mercer.losses.Gaussian(noise)
    gp = GPRegressor(kernel, loss=loss, search=None, standardize=False, gram=points).fit(X, y)
    new = rows(10, 2, seed=5)
    np.testing.assert_allclose(ridge.predict(new), gp.predict(new), atol=1e-8)


def test_names_and_frames():
    X = pd.DataFrame(rows(30), columns=["a", "b", "c"])
    made = KernelFeatures(RBF().on(["a", "c"]), m=4).set_output(transform="pandas")
    F = made.fit_transform(X)
    assert list(F.columns) == [f"kernelfeatures{j}" for j in range(4)]
    assert list(made.get_feature_names_out()) == list(F.columns)
    polars = clone(made).set_output(transform="polars").fit_transform(X)
    assert polars.columns == list(F.columns)
    with pytest.raises(ValueError, match="aeg"):
        KernelFeatures(RBF().on(["aeg"])).fit(X)


def test_in_a_pipeline():
    X = rows(200, 2)
    y = (X**2).sum(axis=1) > 1.4
    model = make_pipeline(KernelFeatures(m=20), LogisticRegression(C=100.0))
    assert cross_val_score(model, X, y).mean() > 0.95
    found = GridSearchCV(
        make_pipeline(KernelFeatures(RBF(), m=20), LogisticRegression(C=100.0)),
        {"kernelfeatures__kernel__length_scale": [1e-3, 1.0]},
    ).fit(X, y)
    assert found.best_params_ == {"kernelfeatures__kernel__length_scale": 1.0}
    assert "KernelFeatures" in model._repr_html_()


@pytest.mark.parametrize("m", [8, None])
def test_files(m, tmp_path):
    X = rows(40)
    made = KernelFeatures("rbf" if m else Linear(), m=m).fit(X)
    mercer.save(made, tmp_path / "a.mercer")
    again = mercer.load(tmp_path / "a.mercer")
    assert again.transform(X).tobytes() == made.transform(X).tobytes()
    assert str(again.summary()) == str(made.summary())


def test_files_of_pipelines(tmp_path):
    X = rows(40)
    y = X[:, 0] > 0.0
    model = make_pipeline(StandardScaler(), KernelFeatures(m=5), SVC(kernel="linear")).fit(X, y)
    mercer.save(model, tmp_path / "a.mercer")
    again = mercer.load(tmp_path / "a.mercer")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (KernelFeatures(m=0), "m must be an integer of at least 1"),
        (KernelFeatures(m="auto"), "m must be an integer"),
        (KernelFeatures(m=2.0), "m must be an integer"),
        (KernelFeatures(m=rows(3, 2)), "the inducing points have 2 columns"),
        (KernelFeatures(choose="best"), "choose must be one of"),
        (KernelFeatures(m=None), "has no features of its own"),
        (KernelFeatures("precomputed"), "kernel of the inputs alone"),
        (KernelFeatures(Linear().on([0]), m=3), "zero at all inducing points"),
    ],
)
def test_refusals(made, words):
    X = rows(10)
    X[:, 0] = 0.0
    with pytest.raises(ValueError, match=words):
        made.fit(X)
    assert not hasattr(made, "kernel_")


def test_sparse_tables_are_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        KernelFeatures(Linear(), m=None).fit(csr_array(rows()))
