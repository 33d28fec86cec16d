"""KernelPCA: against scikit-learn's, the covariance of explicit features, and copies of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import mercer
from mercer import KernelPCA
from mercer.estimators.features import components
from mercer.kernels import RBF, Constant, Linear, Matern, Polynomial


def rows(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def assert_same_columns(one, two, atol):
    """Equal but for the sign of each column."""
    assert one.shape == two.shape
    np.testing.assert_allclose(one * np.sign((one * two).sum(axis=0)), two, atol=atol)


@pytest.mark.parametrize("p", [3, 10, None])
def test_equals_scikit_learns(p):
    X, new = rows(), rows(20, seed=1)
    theirs = Theirs(p, kernel="rbf", gamma=0.3, eigen_solver="dense", remove_zero_eig=True).fit(X)
    ours = KernelPCA(RBF(np.sqrt(1.0 / 0.6)), p).fit(X)
    some = slice(0, 10)  # the last ones of all are rounding in both
    np.testing.assert_allclose(ours.eigenvalues_[some], theirs.eigenvalues_[some], rtol=1e-10)
    assert_same_columns(ours.transform(new)[:, some], theirs.transform(new)[:, some], 1e-10)
    np.testing.assert_allclose(
        ours.fit_transform(X)[:, some], theirs.fit_transform(X)[:, some], atol=1e-10
    )


@pytest.mark.parametrize("m", ["auto", None, 60])
def test_of_columns_they_are_the_principal_components(m):
    X = rows() * [1.0, 3.0, 0.2] + 4.0
    theirs, ours = PCA().fit(X), KernelPCA("linear", m=m).fit(X)
    assert ours.n_features_out_ == 3
    assert_same_columns(ours.transform(X), theirs.transform(X), 1e-6)
    variance = ours.explained_variance_ * 60 / 59
    np.testing.assert_allclose(variance, theirs.explained_variance_, rtol=1e-7)
    ratio = ours.explained_variance_ratio_
    np.testing.assert_allclose(ratio, theirs.explained_variance_ratio_, rtol=1e-7)


def test_scores_are_uncorrelated_with_the_variances_stated():
    X = rows(80, 2)
    made = KernelPCA(Matern(length_scale=0.8), 12).fit(X)
    T = made.transform(X)
    np.testing.assert_allclose(T.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(T.T @ T / 80, np.diag(made.explained_variance_), atol=1e-12)
    every = KernelPCA(Matern(length_scale=0.8)).fit(X)
    assert every.explained_variance_ratio_.sum() == pytest.approx(1.0, rel=1e-9)
    K = Matern(length_scale=0.8)(X)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    T = every.transform(X)
    np.testing.assert_allclose(T @ T.T, centred, atol=1e-9)


def test_features_rows_and_points_agree():
    """The kernel 1 + x'z in two columns: three features, and two directions that vary."""
    X = rows(40, 2)
    own, exact, points = (
        KernelPCA(Linear() + Constant(), 4).fit(X),
        KernelPCA(Polynomial(degree=1), 4).fit(X),  # as it has no features of its own
        KernelPCA(Linear() + Constant(), 4, m=20).fit(X),
    )
    forms = [made.report_["components"]["form"] for made in (own, exact, points)]
    assert ["features" in f for f in forms] == [True, False, False]
    assert ["all rows" in f for f in forms] == [False, True, False]
    assert own.n_features_out_ == exact.n_features_out_ == 2
    for made in (exact, points):
        np.testing.assert_allclose(made.eigenvalues_[:2], own.eigenvalues_, rtol=1e-6)
        assert_same_columns(made.transform(X)[:, :2], own.transform(X), 1e-5)


def test_few_of_many_rows_by_lanczos(monkeypatch):
    X = rows(120, 2)
    dense = KernelPCA(RBF(0.7), 2).fit(X)
    monkeypatch.setattr(components, "MANY", 50)
    few = KernelPCA(RBF(0.7), 2).fit(X)
    np.testing.assert_allclose(few.transform(X), dense.transform(X), atol=1e-9)


def test_points_stand_for_many_rows(monkeypatch):
    monkeypatch.setattr(components, "EXACT", 50)
    monkeypatch.setattr(components, "POINTS", 40)
    monkeypatch.setattr(components, "BATCH", 32)
    X = rows(90, 2)
    made, exact = KernelPCA(RBF(2.0), 3).fit(X), KernelPCA(RBF(2.0), 3, m=None).fit(X)
    assert made.points_.shape == (40, 2)
    np.testing.assert_allclose(made.eigenvalues_, exact.eigenvalues_, rtol=1e-4)
    assert_same_columns(made.transform(X), exact.transform(X), 1e-3)
    np.testing.assert_allclose(
        made.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-4
    )


@pytest.mark.parametrize("m", ["auto", 25])
def test_weights_are_copies_and_order_does_not_matter(m):
    X = rows(40)
    w = np.r_[np.full(20, 2), np.full(19, 1), 0]
    one = KernelPCA(RBF(), 3, m=m).fit(X, sample_weight=w)
    two = KernelPCA(RBF(), 3, m=m).fit(np.repeat(X, w, axis=0)[::-1])
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, rtol=1e-9)
    assert_same_columns(one.transform(X), two.transform(X), 1e-9)


def test_a_share_of_the_variance():
    X = rows(50, 2)
    every = KernelPCA(RBF()).fit(X)
    some = KernelPCA(RBF(), 0.9).fit(X)
    count = some.n_features_out_
    assert every.explained_variance_ratio_[:count].sum() >= 0.9
    assert every.explained_variance_ratio_[: count - 1].sum() < 0.9


def test_names_frames_pipelines_and_files(tmp_path):
    X = pd.DataFrame(rows(60, 2), columns=["a", "b"])
    y = (X**2).sum(axis=1) > 1.4
    made = KernelPCA(n_components=6).set_output(transform="pandas")
    F = made.fit_transform(X)
    assert list(F.columns) == list(made.get_feature_names_out())
    assert F.columns[0] == "kernelpca0"
    model = make_pipeline(KernelPCA(n_components=8), LogisticRegression(C=100.0)).fit(X, y)
    assert model.score(X, y) > 0.9
    mercer.save(made, tmp_path / "a.mercer")
    again = mercer.load(tmp_path / "a.mercer")
    assert np.asarray(again.transform(X)).tobytes() == np.asarray(F).tobytes()
    assert str(again.summary()) == str(made.summary())
    assert "variance explained" in str(made.summary())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (KernelPCA(n_components=0), "n_components must be an integer of at least 1"),
        (KernelPCA(n_components=1.5), "share of the variance"),
        (KernelPCA(m="all"), "m must be an integer"),
        (KernelPCA("precomputed"), "KernelPCA needs a kernel of the inputs alone"),
        (KernelPCA(Linear().on([0])), "same to the kernel"),
    ],
)
def test_refusals(made, words):
    X = rows(10)
    X[:, 0] = 0.0
    with pytest.raises(ValueError, match=words):
        made.fit(X)
    assert not hasattr(made, "kernel_")


def test_equal_rows_are_refused():
    with pytest.raises(ValueError, match="two different rows"):
        KernelPCA().fit(np.ones((5, 2)))
