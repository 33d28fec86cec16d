"""Kernels with an explicit map: it is the kernel's, and approximations approach their kernel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array
from sklearn.feature_extraction.text import TfidfTransformer

import mercer
from mercer import GPRegressor, MEDClassifier, kernels, load, save
from mercer.kernels import (
    RBF,
    TFIDF,
    Constant,
    Fisher,
    Linear,
    Matern,
    Nystroem,
    RandomFourier,
    White,
)
from mercer.testing import check_kernel

CLASSES = [
    getattr(kernels, name)
    for name in kernels.__all__
    if isinstance(getattr(kernels, name), type) and not getattr(kernels, name).abstract
]


def _offers(kernel):
    return kernel.features(kernel.example_inputs(np.random.default_rng(0), 3)) is not None


OFFERING = [cls for cls in CLASSES if _offers(cls.example())]


def test_some_offer_features_and_most_do_not():
    found = {cls.__name__ for cls in OFFERING}
    assert {"Linear", "Constant", "TFIDF", "RandomFourier", "Nystroem"} <= found
    assert {"RBF", "Matern", "Precomputed", "Periodic"}.isdisjoint(found)


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * Linear(weight=[1.0, 0.5, 2.0]) + 3.0,
        Linear(centre=[1.0, 2.0, 3.0]),
        Linear().on([2, 0]) + 0.5 * Constant(2.0),
        (0.7 * Linear() + 1.0).in_units(np.array([1.0, 0.0, 2.0]), np.array([2.0, 3.0, 0.5])),
        RandomFourier(size=7).on([1]) + Linear(),
        Nystroem(RBF(), size=4, points=np.eye(3)).in_units(np.ones(3), np.full(3, 2.0)),
    ],
)
def test_features_of_composed_kernels(kernel, rng):
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(kernel.features(X) @ kernel.features(Z).T, kernel(X, Z), atol=1e-12)


def test_a_sum_with_an_implicit_part_has_no_features(rng):
    X = rng.normal(size=(4, 2))
    assert (Linear() + RBF()).features(X) is None
    assert (2.0 * RBF()).features(X) is None


def test_freezing_returns_the_same_kernel_where_nothing_is_taken(rng):
    X = rng.poisson(1.0, size=(5, 3)).astype(float)
    for kernel in (RBF(), 2.0 * RBF() + Linear().on([0]), TFIDF(1.0), Nystroem(RBF(), 2, X[:2])):
        assert kernel.frozen(X) is kernel


def test_freezing_reaches_into_composed_kernels(rng):
    X = rng.poisson(1.0, size=(9, 4)).astype(float)
    kernel = (2.0 * TFIDF().on([1, 3]) + RBF()).frozen(X)
    np.testing.assert_array_equal(
        kernel.parts[0].kernel.kernel.idf, TFIDF().frozen(X[:, [1, 3]]).idf
    )
    shift, scale = np.ones(4), np.full(4, 2.0)
    moved = TFIDF().in_units(shift, scale).frozen(2.0 * X + 1.0)
    np.testing.assert_array_equal(moved.kernel.idf, TFIDF().frozen(X).idf)


def test_marks_survive_freezing(rng):
    kernel = (RandomFourier().bound(length_scale=(0.1, 1.0)) + RBF().fix()).frozen(np.zeros((2, 2)))
    assert kernel.parts[0].mark("length_scale").bounds == (0.1, 1.0)
    assert kernel.parts[1].mark("length_scale").fixed


# ---------------------------------------------------------------------- counts
def test_tfidf_is_the_formula(rng):
    X, Z = (rng.poisson(0.7, size=(n, 6)).astype(float) for n in (20, 5))
    kernel = TFIDF().frozen(X)
    idf = [np.log(21 / (1 + sum(x > 0 for x in X[:, j]))) + 1 for j in range(6)]
    np.testing.assert_allclose(kernel.idf, idf)
    K = np.zeros((20, 5))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            p, q = np.log(1 + x) * idf, np.log(1 + z) * idf
            K[i, j] = p @ q / (np.linalg.norm(p) * np.linalg.norm(q)) if p.any() and q.any() else 0
    np.testing.assert_allclose(kernel(X, Z), K, atol=1e-14)


def test_tfidf_idf_is_that_of_scikit_learn(rng):
    X = rng.poisson(0.7, size=(30, 8)).astype(float)
    np.testing.assert_allclose(TFIDF().frozen(X).idf, TfidfTransformer().fit(X).idf_)


def test_tfidf_of_weighted_rows_is_that_of_repeated_rows(rng):
    X, w = rng.poisson(0.7, size=(30, 8)).astype(float), rng.integers(0, 4, 30)
    weighted = TFIDF().frozen(X, w.astype(float)).idf
    np.testing.assert_allclose(weighted, TFIDF().frozen(np.repeat(X, w, axis=0)).idf)


def test_tfidf_rows_of_zeros_are_zero():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(TFIDF(1.0)(X)[0], [0.0, 0.0])
    np.testing.assert_array_equal(TFIDF(1.0).diag(X)[0], 0.0)


@pytest.mark.parametrize("form", [csr_array, csc_matrix])
@pytest.mark.parametrize("idf", [None, 2.0])
def test_sparse_counts_are_dense_counts(form, idf, rng):
    X, Z = (rng.poisson(0.4, size=(n, 9)).astype(float) for n in (12, 4))
    dense, sparse = TFIDF(idf).frozen(X), TFIDF(idf).frozen(form(X))
    np.testing.assert_allclose(sparse.idf, dense.idf)
    np.testing.assert_allclose(sparse(form(X), form(Z)), dense(X, Z), atol=1e-14)
    np.testing.assert_allclose(sparse(form(X)), dense(X), atol=1e-14)
    np.testing.assert_allclose(sparse.diag(form(X)), dense.diag(X), atol=1e-14)
    np.testing.assert_allclose(
        (3.0 * sparse).features(form(X)).toarray(), (3.0 * dense).features(X)
    )


def test_sparse_linear_features(rng):
    X = rng.poisson(0.4, size=(7, 3)).astype(float)
    kernel = 2.0 * Linear(weight=[1.0, 2.0, 3.0])
    assert kernel.takes_sparse
    np.testing.assert_allclose(kernel.features(csr_array(X)).toarray(), kernel.features(X))
    assert not Linear(centre=[1.0, 1.0, 1.0]).takes_sparse


def test_tfidf_refusals():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match=r"call kernel\.frozen"):
        TFIDF()(X)
    for bad in (-X, csr_array(-X)):
        with pytest.raises(ValueError, match="for counts, and the inputs reach down to -1"):
            TFIDF(1.0)(bad)
        with pytest.raises(ValueError, match="for counts"):
            TFIDF().frozen(bad)
    with pytest.raises(ValueError, match="3 entries but the inputs have 2 columns"):
        TFIDF(np.ones(3))(X)
    with pytest.raises(ValueError, match="must be positive"):
        TFIDF(0.0)(X)


# ---------------------------------------------------------------------- random and Nystroem
@pytest.mark.parametrize(
    ("nu", "target"), [(None, RBF(1.7)), (0.5, Matern(0.5, 1.7)), (2.5, Matern(2.5, 1.7))]
)
def test_random_features_approach_their_kernel(nu, target, rng):
    X = 2.0 * rng.normal(size=(25, 3))
    errors = [np.abs(RandomFourier(1.7, size=m, nu=nu)(X) - target(X)).max() for m in (100, 40000)]
    assert errors[1] < 0.02  # 3.5 deviations of 1/sqrt(2 m), and the largest of 300
    assert errors[1] < errors[0] / 5.0


def test_random_features_average_to_their_kernel(rng):
    """Over seeds the mean is the kernel itself: no bias."""
    X = rng.normal(size=(6, 2))
    draws = np.array([RandomFourier(size=50, nu=1.5, seed=s)(X) for s in range(400)])
    error = draws.std(axis=0) / 20.0 + 1e-12
    assert np.all(np.abs(draws.mean(axis=0) - Matern(1.5)(X)) < 5.0 * error)


def test_random_features_are_frozen(rng):
    X = rng.normal(size=(6, 2))
    kernel = RandomFourier(size=5, seed=3)
    np.testing.assert_array_equal(kernel.frozen(X)(X), kernel(X))
    assert kernel.frozen(X).frequencies.shape == (5, 2)
    assert not np.allclose(kernel(X), RandomFourier(size=5, seed=4)(X))
    with pytest.raises(ValueError, match=r"of shape \(5, 3\)"):
        kernel.frozen(X)(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="size must be an integer"):
        RandomFourier(size=0)(X)


def test_nystroem_is_the_kernel_on_its_points_and_below_it_elsewhere(rng):
    X, P = rng.normal(size=(40, 2)), rng.normal(size=(8, 2))
    kernel = Nystroem(RBF(), points=P)
    np.testing.assert_allclose(kernel(P), RBF()(P), atol=1e-10)
    np.testing.assert_allclose(kernel(X, P), RBF()(X, P), atol=1e-10)
    M = np.linalg.inv(RBF()(P))
    np.testing.assert_allclose(kernel(X), RBF()(X, P) @ M @ RBF()(P, X), atol=1e-9)
    assert np.linalg.eigvalsh(RBF()(X) - kernel(X))[0] > -1e-10


def test_nystroem_chooses_the_row_of_largest_variance_left(rng):
    X = rng.normal(size=(30, 2))
    kernel = Nystroem(RBF(0.7), size=6).frozen(X)
    chosen = [int(np.flatnonzero((p == X).all(axis=1))[0]) for p in kernel.points]
    K = RBF(0.7)(X)
    for j in range(1, 6):  # by the dense formula of the conditional variance
        S = chosen[:j]
        left = np.diagonal(K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S]))
        assert left[chosen[j]] == pytest.approx(left.max(), rel=1e-6)


def test_nystroem_stops_where_nothing_is_left():
    X = np.repeat([[0.0], [1.0], [2.0]], 4, axis=0)
    assert len(Nystroem(RBF(), size=10).frozen(X).points) == 3


def test_nystroem_with_noise_inside_sees_the_signal(rng):
    X, P = rng.normal(size=(9, 2)), rng.normal(size=(4, 2))
    noisy = Nystroem(2.0 * RBF() + White(0.5), points=P)
    np.testing.assert_allclose(noisy(X), Nystroem(2.0 * RBF(), points=P)(X), atol=1e-12)
    check_kernel(noisy, X)
    np.testing.assert_array_equal(
        Nystroem(2.0 * RBF() + White(0.5), 3).frozen(X).points.shape, (3, 2)
    )


def test_nystroem_refusals():
    X = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"call kernel\.frozen"):
        Nystroem(RBF())(X)
    with pytest.raises(ValueError, match="fewer or other points"):
        Nystroem(RBF(), points=np.zeros((2, 2)))(X)
    with pytest.raises(ValueError, match="more than noise"):
        Nystroem(White(), points=np.eye(2))(X)
    with pytest.raises(ValueError, match="in 2 columns"):
        Nystroem(RBF(), points=np.eye(3))(X)


# ---------------------------------------------------------------------- in estimators
@pytest.mark.parametrize("kernel", [RandomFourier(size=20), Nystroem(RBF(), 5)])
def test_a_gaussian_process_freezes_saves_and_loads(kernel, tmp_path, rng):
    X = rng.uniform(-2.0, 2.0, size=(30, 1))
    model = GPRegressor(1.0 * kernel).fit(X, np.sin(2.0 * X[:, 0]))
    assert model.score(X, np.sin(2.0 * X[:, 0])) > 0.9
    save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(load(tmp_path / "m.mercer").predict(X), model.predict(X))


def test_a_score_function_is_refused_in_files(tmp_path, rng):
    X = rng.normal(size=(20, 2))
    model = MEDClassifier(kernel=Fisher(lambda X: X)).fit(X, X[:, 0] > 0)
    with pytest.raises(TypeError, match="cannot be written to a model file"):
        save(model, tmp_path / "m.mercer")


@pytest.mark.parametrize(
    "make",
    [
        lambda k: mercer.GPClassifier(1.0 * k, search=None),
        lambda k: mercer.KernelClassifier(k, search=None),
        lambda k: mercer.LeastSquaresClassifier(k),
        lambda k: mercer.OnlineLogisticClassifier(4.0 * k),
        lambda k: mercer.SVC(kernel=k),
        lambda k: mercer.SVC(kernel=1.0 * k, inference="ep"),
        lambda k: mercer.NuSVC(nu=0.3, kernel=k),
        lambda k: mercer.MEDClassifier(kernel=k),
        lambda k: mercer.LapMEDClassifier(kernel=k),
        lambda k: mercer.RVClassifier(kernel=k),
    ],
)
def test_counts_in_every_classifier(make, rng):
    y = rng.integers(0, 2, 60)
    X = rng.poisson(np.where(y[:, None] == np.arange(6) % 2, 2.0, 0.5)).astype(float)
    model = make(TFIDF()).fit(X[:40], y[:40])
    idf = TFIDF().frozen(X[:40]).idf
    assert any(
        np.allclose(part.idf, idf) for part in _leaves(model.kernel_) if isinstance(part, TFIDF)
    )
    assert model.score(X[40:], y[40:]) > 0.8


def _leaves(kernel):
    parts = list(kernel._parts().values())
    return [kernel] if not parts else [leaf for part in parts for leaf in _leaves(part)]


def test_a_prior_draw_freezes_the_kernel(rng):
    X = rng.poisson(2.0, size=(7, 3)).astype(float)
    draw = GPRegressor(1.0 * TFIDF()).sample_prior(X, random_state=0)
    assert np.isfinite(draw).all()


@pytest.mark.parametrize("cls", OFFERING, ids=lambda c: c.__name__)
def test_features_are_a_root_of_the_kernel(cls, rng):
    """Whoever offers features: k(x, z) = phi(x)'phi(z), on training and on other points."""
    kernel = cls.example()
    X, Z = kernel.example_inputs(rng, 12), kernel.example_inputs(rng, 5)
    F, G = kernel.features(X), kernel.features(Z)
    scale = np.abs(kernel(X)).max()
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-12 * scale)
    np.testing.assert_allclose(F @ G.T, kernel(X, Z), atol=1e-12 * scale)
