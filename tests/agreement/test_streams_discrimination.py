"""MEDClassifier: conditions of its optimum, reference values, and the sentences it owes."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

from mercer import MEDClassifier
from mercer.kernels import RBF, TFIDF, Linear, Nystroem, RandomFourier
from tests.reference.med import discriminate

NEW = np.array([[0.3, -0.2], [-1.0, 0.5]])
LISTED = [
    (
        "0 7.3632053286 9.2363258193 5.9148207513 0 0 0.2363974971 0 2.8306573107 8.0904505829",
        -0.2309902596268,
        20.5184882351267,
    ),
    (
        "0 0 9.311161917 8.3421599655 0 0 1.1071266748 2.0761286264 0 0",
        -0.5031477252698,
        15.6843792328863,
    ),
    (
        "0 0 9.4115693144 5.7757585856 8.9427011245 0 2.1439966348 0.1335378535 4.0576063623 "
        "7.3540379768",
        0.2410356892745,
        26.1710118710546,
    ),
]


def batch(t):
    i = np.arange(1, 11) + 17 * t
    X = np.column_stack([np.sin(1.3 * i), np.cos(0.9 * i + 0.3)])
    y = np.where(X[:, 0] + 0.6 * X[:, 1] > 0.1, 1, -1)
    y[2] = -y[2]
    return X, y


def k(A, B):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def plain(**options):
    given = {"C": 10.0, "amplitude": 1.0, "kernel": RBF(1.0), "schedule": "constant"}
    return MEDClassifier(**(given | options))


def words(n, rng):
    y = rng.integers(0, 2, n)
    rate = np.full((2, 30), 0.4)
    rate[0, :8], rate[1, 8:16] = 1.2, 1.2
    return rng.poisson(rate[y]).astype(float), y


# ---------------------------------------------------------------------- values
def test_reference_stream():
    model, before = plain(), 0
    for t, (text, bias, value) in enumerate(LISTED):
        X, y = batch(t)
        model.partial_fit(X, y, classes=[-1, 1])
        a = np.zeros(10)
        new = model.support_[before:] - 10 * t
        a[new] = np.abs(model.dual_coef_[0, before:])
        before = len(model.support_)
        np.testing.assert_allclose(a, np.array(text.split(), dtype=float), atol=2e-8)
        assert model.intercept_[0] == pytest.approx(bias, abs=2e-8)
        assert model.report_["inference"]["objective"][0] == pytest.approx(value, abs=2e-8)
    np.testing.assert_allclose(
        model.decision_function(NEW), [0.7720939724, -1.1054099997], atol=2e-8
    )


@pytest.mark.parametrize("C", [1.2, 3.0, 100.0])
def test_every_batch_satisfies_the_conditions_of_its_optimum(C):
    """a = max(0, C - 1/u), y'a = 0, f = f0 + K(y a): nothing else is the solution of a batch."""
    model = plain(C=C)
    for t in range(4):
        X, y = batch(t)
        f0 = model.posteriors_[0].mean(X)[:, 0] - model.intercept_[0] if t else np.zeros(10)
        model.partial_fit(X, y, classes=[-1, 1])
        f = model.decision_function(X)
        u = 1.0 - y * f
        a = np.where(C * u > 1.0, C - 1.0 / np.where(u > 0.0, u, 1.0), 0.0)
        assert y @ a == pytest.approx(0.0, abs=1e-6 * C)
        np.testing.assert_allclose(f - model.intercept_[0], f0 + k(X, X) @ (y * a), atol=1e-6)
        ended = model.report_["inference"]
        assert -1e-12 < ended["gap"] < 1e-8 * max(1.0, ended["objective"][0])


def test_dual_value_is_primal_value_and_both_are_reported():
    X, y = batch(0)
    model = plain().fit(X, y)
    f = model.decision_function(X)
    u = 10.0 * (1.0 - y * f)
    c = model.dual_coef_[0]
    norm = c @ k(model.support_vectors_, model.support_vectors_) @ c
    primal = 0.5 * norm + np.sum(np.where(u > 1.0, u - 1.0 - np.log(np.where(u > 0, u, 1)), 0.0))
    assert primal == pytest.approx(LISTED[0][2], abs=1e-7)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"K": np.array([[1.0, np.nan], [np.nan, 1.0]])}, "not finite"),
        ({"K": np.array([[np.inf, 0.0], [0.0, 1.0]])}, "not finite"),
        ({"offset": np.array([0.0, np.nan])}, "not finite"),
        ({"y": np.array([1.0, 0.0])}, r"-1 or \+1"),
        ({"y": np.array([1.0, np.nan])}, r"-1 or \+1"),
        ({"weights": np.array([1.0, 0.0])}, "positive"),
        ({"weights": np.array([1.0, np.nan])}, "positive"),
        ({"C": 1.0}, "nothing is learned"),
        ({"C": np.nan}, "positive C"),
    ],
)
def test_the_solver_refuses_what_has_no_optimum(given, words):
    whole = {"K": np.eye(2), "y": np.array([1.0, -1.0]), "C": 10.0} | given
    with pytest.raises(ValueError, match=words):
        discriminate(**whole)


# ---------------------------------------------------------------------- C, amplitude, bias
@pytest.mark.parametrize("C", [1.0, 0.3])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_no_slack_below_one(C, call):
    with pytest.raises(ValueError, match="nothing is learned"):
        getattr(plain(C=C), call)(*batch(0))


def test_defaults():
    model = MEDClassifier()
    assert (model.C, model.amplitude, model.bias_rule) == (100.0, 0.01, "exact")
    assert (model.schedule, model.calibration) == ("sqrt", None)


def test_large_slack_is_the_support_vector_machine(rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0.0, 1, -1)
    Z = rng.uniform(-2, 2, size=(2000, 2))
    shares = []
    for C in (1.5, 10.0, 1000.0):
        theirs = TheirSVC(C=C, gamma=0.5, tol=1e-8).fit(X, y).predict(Z)
        shares.append(np.mean(plain(C=C).fit(X, y).predict(Z) == theirs))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.995
    soft = MEDClassifier(kernel=RBF(1.0)).fit(X, y)  # A = 0.01, C = 100: C_eff = 1
    assert np.mean(soft.predict(Z) == TheirSVC(C=1.0, gamma=0.5).fit(X, y).predict(Z)) > 0.98


def test_the_papers_bias_is_another_one():
    """Section 1.2: the median of y - f over the support vectors, off the optimum at small C."""
    X, y = batch(0)
    one, other = plain(C=1.5).fit(X, y), plain(C=1.5, bias_rule="median").fit(X, y)
    np.testing.assert_allclose(one.dual_coef_, other.dual_coef_)
    f = one.decision_function(X) - one.intercept_[0]
    held = one.support_
    assert other.intercept_[0] == pytest.approx(np.median((y - f)[held]), abs=1e-12)
    assert abs(other.intercept_[0] - one.intercept_[0]) > 0.01


def test_slack_falls_as_the_root_of_the_batches_and_the_floor_is_said():
    model = MEDClassifier(C=3.0, amplitude=1.0, kernel=RBF(1.0))
    for t in range(1, 10):
        model.partial_fit(*batch(t - 1), classes=[-1, 1])
        assert model.report_["C"] == pytest.approx(max(3.0 / np.sqrt(t), 1.1))
        assert ("schedule" in model.report_) == (3.0 / np.sqrt(t) <= 1.1)
    assert "floor" in model.report_["schedule"]
    assert "floor" in str(model.summary())
    constant = plain(C=3.0)
    for t in range(9):
        constant.partial_fit(*batch(t))
        assert constant.report_["C"] == 3.0


# ---------------------------------------------------------------------- one class, margins kept
def test_rows_of_one_class_move_the_bias_only():
    """y'a = 0 forces a = 0: f stays, b goes to the nearest value that keeps the margins."""
    model = plain().fit(*batch(0))
    f, b = model.posteriors_[0].mean(NEW)[:, 0] - model.intercept_[0], model.intercept_[0]
    X, _ = batch(1)
    scores = model.decision_function(X) - b
    model.partial_fit(X, np.ones(10, dtype=int))
    assert model.intercept_[0] == pytest.approx(max(b, np.max(0.9 - scores)), abs=1e-12)
    again = model.posteriors_[0].mean(NEW)[:, 0] - model.intercept_[0]
    np.testing.assert_allclose(again, f, rtol=1e-13)
    with pytest.raises(ValueError, match="one class"):
        plain().fit(X, np.ones(10))


def test_rows_beyond_the_margin_change_nothing():
    model = plain(C=10.0).fit(*batch(0))
    Z = np.random.default_rng(0).uniform(-2, 2, size=(400, 2))
    f = model.decision_function(Z)
    sure = Z[np.abs(f) > 0.95][:6], np.sign(f[np.abs(f) > 0.95][:6]).astype(int)
    before = model.decision_function(NEW)
    model.partial_fit(*sure)
    np.testing.assert_array_equal(model.decision_function(NEW), before)


# ---------------------------------------------------------------------- explicit features
@pytest.mark.parametrize(
    "kernel", [Linear(), RandomFourier(1.0, size=40), Nystroem(RBF(1.0), size=8)], ids=str
)
def test_a_finite_map_keeps_one_vector_and_is_the_expansion(kernel):
    model = MEDClassifier(kernel=kernel, amplitude=1.0, C=5.0)
    sizes = set()
    parts = [batch(t) for t in range(6)]
    for X, y in parts:
        model.partial_fit(X, y, classes=[-1, 1])
        sizes.add((model.feature_weights_.shape, model.support_vectors_.shape[0]))
    assert len(sizes) == 1
    assert next(iter(sizes))[1] == 0

    frozen = model.kernel_
    K = frozen(np.vstack([X for X, _ in parts]), NEW)
    slow, rows, coef = None, np.zeros((0, 2)), np.zeros(0)
    for t, (X, y) in enumerate(parts, 1):
        f0 = frozen(X, rows) @ coef if len(rows) else np.zeros(10)
        slow = discriminate(frozen(X), y.astype(float), max(5.0 / np.sqrt(t), 1.1), offset=f0)
        rows, coef = np.vstack([rows, X]), np.append(coef, y * slow.alpha)
    np.testing.assert_allclose(model.decision_function(NEW), K.T @ coef + slow.bias, atol=1e-6)


def test_text_kernel_by_its_formula_and_frozen(rng):
    X, y = words(80, rng)
    model = MEDClassifier(kernel=TFIDF()).partial_fit(X, y)
    idf = np.log(81.0 / (1.0 + (X > 0).sum(axis=0))) + 1.0
    Z, _ = words(20, rng)

    def phi(A):
        F = np.log1p(A) * idf
        return F / np.linalg.norm(F, axis=1, keepdims=True)

    np.testing.assert_allclose(model.kernel_(Z), 0.01 * phi(Z) @ phi(Z).T, atol=1e-14)
    first = model.kernel_(Z)
    model.partial_fit(*words(80, rng))
    np.testing.assert_array_equal(model.kernel_(Z), first)
    assert model.score(*words(500, rng)) > 0.85


@pytest.mark.parametrize("form", [csr_array, csr_matrix])
def test_sparse_counts_in_a_stream(form, rng):
    dense, sparse = MEDClassifier(kernel=TFIDF()), MEDClassifier(kernel=TFIDF())
    for _ in range(4):
        X, y = words(60, rng)
        dense.partial_fit(X, y)
        sparse.partial_fit(form(X), y)
    Z, _ = words(50, rng)
    np.testing.assert_allclose(
        sparse.decision_function(form(Z)), dense.decision_function(Z), atol=1e-7
    )
    with pytest.raises((TypeError, ValueError), match=r"[Ss]parse"):
        MEDClassifier(kernel=RBF()).fit(form(X), y)


# ---------------------------------------------------------------------- probabilities
def test_probabilities_only_where_they_were_asked_for(rng):
    X, y = words(100, rng)
    model = MEDClassifier(kernel=TFIDF()).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(MEDClassifier(), "predict_proba")
    asked = MEDClassifier(kernel=TFIDF(), calibration="sigmoid").fit(X, y)
    p = asked.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(asked.predict(X), asked.classes_[p.argmax(axis=1)])


# ---------------------------------------------------------------------- classes, tools
def test_one_against_the_rest():
    X = np.vstack([batch(t)[0] for t in range(6)])
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    model = plain(C=50.0).fit(X, y)
    f = np.column_stack([plain(C=50.0).fit(X, y == c).decision_function(NEW) for c in range(3)])
    np.testing.assert_allclose(model.decision_function(NEW), f, atol=1e-7)
    np.testing.assert_array_equal(model.predict(NEW), f.argmax(axis=1))


def test_in_a_pipeline_and_a_search(rng):
    X = rng.normal(size=(80, 3)) * [1.0, 100.0, 0.01]
    y = np.where(X[:, 0] > 0.0, "up", "down")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MEDClassifier()),
        {"medclassifier__amplitude": [0.001, 0.1], "medclassifier__kernel": ["rbf", Linear()]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.9


def test_with_names_of_columns(rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    y = pandas.Series(np.where(X["a"] > 0, "up", "down"))
    model = MEDClassifier().partial_fit(X, y)
    model.partial_fit(X[:10], y[:10])
    np.testing.assert_array_equal(model.feature_names_in_, ["a", "b"])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(X[["b", "a"]], y)
