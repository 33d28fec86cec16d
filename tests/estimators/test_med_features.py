"""MEDClassifier with explicit features: one vector of weights whatever the stream, sparse rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, csr_matrix
from sklearn.utils.estimator_checks import check_estimator

import mercer
from mercer import MEDClassifier
from mercer.kernels import RBF, TFIDF, Function, Linear, Nystroem, RandomFourier
from tests.reference import med


def texts(rng: np.random.Generator, n: int, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Counts of 30 words, of which some are commoner in each class."""
    y = rng.integers(0, classes, n)
    rate = np.full((classes, 30), 0.3)
    for c in range(classes):
        rate[c, 5 * c : 5 * c + 5] = 1.2
    return rng.poisson(rate[y]).astype(float), y


KERNELS = {
    "linear": Linear(),
    "sum": 0.5 * Linear() + 2.0,
    "tfidf": TFIDF(),
    "random": RandomFourier(length_scale=5.0, size=40),
    "nystroem": Nystroem(RBF(5.0), size=25),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_explicit_state_is_the_expansion(name: str, classes: int, rng: np.random.Generator) -> None:
    """The same kernel as a plain function has no features, and keeps its support vectors."""
    batches = [texts(rng, 40, classes) for _ in range(4)]
    frozen = KERNELS[name].frozen(batches[0][0])
    Z, _ = texts(rng, 20, classes)
    explicit = MEDClassifier(kernel=KERNELS[name], amplitude=0.1)
    hidden = MEDClassifier(kernel=Function(frozen), amplitude=0.1)
    sizes = []
    for X, y in batches:
        for model in (explicit, hidden):
            model.partial_fit(X, y, classes=range(classes))
        np.testing.assert_allclose(
            explicit.decision_function(Z), hidden.decision_function(Z), atol=1e-6
        )
        sizes.append(explicit.feature_weights_.shape)
        assert explicit.support_vectors_.shape == (0, 30)
    assert len(set(sizes)) == 1
    assert len(hidden.support_vectors_) > 40
    w = explicit.feature_weights_ @ explicit.kernel_.features(Z).T + explicit.intercept_[:, None]
    f = explicit.decision_function(Z)
    np.testing.assert_allclose(f, w[0] if classes == 2 else w.T, atol=1e-12)


def test_frequencies_are_those_of_the_first_batch(rng: np.random.Generator) -> None:
    (X, y), (X2, y2) = texts(rng, 40), texts(rng, 40)
    model = MEDClassifier(kernel=TFIDF()).partial_fit(X, y).partial_fit(X2 + 1.0, y2)
    np.testing.assert_array_equal(model.kernel_.kernel.idf, TFIDF().frozen(X).idf)
    assert model.kernel.idf is None  # the user's kernel stays as it was


def test_weights_count_in_the_frequencies(rng: np.random.Generator) -> None:
    X, y = texts(rng, 40)
    times = rng.integers(1, 4, 40)
    one = MEDClassifier(kernel=TFIDF()).fit(X, y, sample_weight=times)
    two = MEDClassifier(kernel=TFIDF()).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    Z, _ = texts(rng, 10)
    np.testing.assert_allclose(one.decision_function(Z), two.decision_function(Z), atol=1e-8)


# ---------------------------------------------------------------------- sparse rows
@pytest.mark.parametrize("kernel", ["linear", TFIDF(), 2.0 * Linear(weight=0.5)])
@pytest.mark.parametrize("form", [csr_array, csr_matrix, csc_array])
def test_sparse_rows_are_dense_rows(kernel: object, form: type, rng: np.random.Generator) -> None:
    batches = [texts(rng, 50) for _ in range(3)]
    batches[1][0][:5] = batches[1][0][5:10]  # rows that repeat, some with one label, some not
    Z, _ = texts(rng, 10)
    dense, sparse = MEDClassifier(kernel=kernel), MEDClassifier(kernel=kernel)
    for X, y in batches:
        dense.partial_fit(X, y)
        sparse.partial_fit(form(X), y)
    f = dense.decision_function(Z)
    np.testing.assert_allclose(sparse.decision_function(form(Z)), f, atol=1e-7)
    np.testing.assert_allclose(sparse.decision_function(Z), f, atol=1e-7)
    assert sparse.report_["support"] == dense.report_["support"]
    fitted = MEDClassifier(kernel=kernel).fit(form(batches[0][0]), batches[0][1])
    again = MEDClassifier(kernel=kernel).fit(*batches[0])
    np.testing.assert_allclose(
        fitted.decision_function(form(Z)), again.decision_function(Z), atol=1e-7
    )


def test_untidy_sparse_rows_stay_as_they_are(rng: np.random.Generator) -> None:
    """Columns twice and stored zeros: the same rows, and the caller's matrix is not touched."""
    X, y = texts(rng, 30)
    tidy = csr_array(X)
    data = np.concatenate([0.25 * tidy.data, 0.75 * tidy.data, np.zeros(3)])
    rows = np.concatenate([tidy.tocoo().row, tidy.tocoo().row, [0, 1, 2]])
    columns = np.concatenate([tidy.tocoo().col, tidy.tocoo().col, [0, 0, 0]])
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=30))
    untidy = csr_array((data[order], columns[order], np.append(0, ends)), shape=X.shape)
    before = untidy.data.copy()
    one = MEDClassifier(kernel=TFIDF()).fit(untidy, y)
    two = MEDClassifier(kernel=TFIDF()).fit(tidy, y)
    np.testing.assert_allclose(
        one.decision_function(untidy), two.decision_function(tidy), atol=1e-7
    )
    np.testing.assert_array_equal(untidy.data, before)


def test_sparse_rows_are_refused_where_the_kernel_cannot(rng: np.random.Generator) -> None:
    X, y = texts(rng, 30)
    for kernel in ("rbf", RandomFourier(), Linear(centre=np.ones(30)), TFIDF().on([1, 2])):
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            MEDClassifier(kernel=kernel).fit(csr_array(X), y)
    for kernel in ("linear", TFIDF()):
        assert MEDClassifier(kernel=kernel).__sklearn_tags__().input_tags.sparse
    assert not MEDClassifier().__sklearn_tags__().input_tags.sparse
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        mercer.SVC(kernel=TFIDF()).fit(csr_array(X), y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_sparse_batch_changes_nothing(value: float, rng: np.random.Generator) -> None:
    X, y = texts(rng, 30)
    model = MEDClassifier(kernel="linear").partial_fit(csr_array(X), y)
    before = pickle.dumps(sorted(vars(model).items(), key=lambda pair: pair[0]))
    X[7, 3] = value
    with pytest.raises(ValueError, match="column 3, row 7"):
        model.partial_fit(csr_array(X), y)
    with pytest.raises(ValueError, match="column 3, row 7"):
        model.predict(csr_array(X))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(csr_array(X[:, :4]), y)
    assert pickle.dumps(sorted(vars(model).items(), key=lambda pair: pair[0])) == before


def test_many_words_stay_sparse(rng: np.random.Generator) -> None:
    """A vocabulary of 10 million: neither the rows nor the features are ever dense."""
    d, n = 10_000_000, 60
    y = rng.integers(0, 2, n)
    columns = rng.integers(2, d, size=(n, 30))
    columns[:, 0] = y
    X = csr_array((np.ones(30 * n), columns.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    model = MEDClassifier(kernel=TFIDF(), amplitude=1.0).fit(X, y)
    assert model.score(X, y) == 1.0


# ---------------------------------------------------------------------- model files and words
@pytest.mark.parametrize("name", KERNELS)
def test_a_saved_stream_continues(name: str, tmp_path: object, rng: np.random.Generator) -> None:
    batches = [texts(rng, 30) for _ in range(4)]
    model = MEDClassifier(kernel=KERNELS[name])
    for X, y in batches[:2]:
        model.partial_fit(X, y)
    mercer.save(model, f"{tmp_path}/m.mercer")
    again = mercer.load(f"{tmp_path}/m.mercer")
    for X, y in batches[2:]:
        model.partial_fit(X, y)
        again.partial_fit(X, y)
    Z, _ = texts(rng, 10)
    np.testing.assert_array_equal(again.decision_function(Z), model.decision_function(Z))
    assert again.report_ == model.report_


def test_weights_of_another_kernel_are_refused(rng: np.random.Generator) -> None:
    X, y = texts(rng, 30)
    model = MEDClassifier(kernel="linear").fit(X, y)
    state = model._state()
    with pytest.raises(ValueError, match="feature weights"):
        MEDClassifier._from_state(state | {"feature_weights_": np.zeros((1, 29))}, _resolve)
    with pytest.raises(ValueError, match="feature_weights_"):
        MEDClassifier._from_state(state | {"feature_weights_": np.zeros((2, 30))}, _resolve)


def _resolve(name: str) -> type:
    return getattr(mercer.kernels, name.split(".")[1])


def test_summary_in_words(rng: np.random.Generator) -> None:
    text = str(MEDClassifier(kernel="linear").fit(*texts(rng, 30)).summary())
    assert "30 weights of its features" in text
    assert "converged" in text
    model = MEDClassifier(2.0, amplitude=1.0)
    for t in range(4):
        model.partial_fit(*med.batch(t))
    text = str(model.summary())
    assert f"{len(model.support_)} support vectors" in text
    assert "batches: 4" in text
    assert "floor" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks warn of what they skip
@pytest.mark.parametrize("kernel", ["linear", RandomFourier(size=20)])
def test_the_checks_of_scikit_learn_with_explicit_features(kernel: object) -> None:
    """The checks of tests/estimators/test_sklearn.py see the default, which has no features."""
    results = check_estimator(MEDClassifier(kernel=kernel), on_fail=None)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
