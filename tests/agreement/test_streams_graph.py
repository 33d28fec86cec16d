"""LapMEDClassifier and its relatives against closed forms written down here, dense and slow."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import SVC, LapLSClassifier, LapMEDClassifier, LapSVC, MEDClassifier
from mercer.kernels import RBF
from mercer.linalg.graph import neighbour_graph

NEW = np.array([[0.3, -0.2], [-1.0, 0.5]])
MACHINES = [LapMEDClassifier, LapSVC, LapLSClassifier]


def k(A, B):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def laplacian(X, neighbours, h):
    """I - D^-1/2 W D^-1/2 by the naive formula, an edge if either end selects it."""
    n = len(X)
    d2 = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    W = np.zeros((n, n))
    for i in range(n):
        order = [j for j in np.argsort(d2[i], kind="stable") if j != i]
        for j in order[:neighbours]:
            W[i, j] = W[j, i] = np.exp(-d2[i, j] / (4.0 * h))
    root = np.sqrt(W.sum(axis=1))
    return np.eye(n) - W / np.outer(root, root)


def batch(t):
    i = np.arange(1, 11) + 17 * t
    X = np.column_stack([np.sin(1.3 * i), np.cos(0.9 * i + 0.3)])
    y = np.where(X[:, 0] + 0.6 * X[:, 1] > 0.1, 1.0, -1.0)
    y[2] = -y[2]
    return X, np.where(np.arange(10) < 4, y, np.nan)


def stream(**options):
    given = {"C": 10.0, "beta": 0.5, "kernel": RBF(1.0), "n_neighbors": 4, "heat": 0.5}
    return LapMEDClassifier(**(given | options))


def partly(n, rng, labelled=0.3):
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.7, 1.0, -1.0)
    y[rng.random(n) > labelled] = np.nan
    y[:4] = [1.0, -1.0, 1.0, -1.0]
    return X, y


# ---------------------------------------------------------------------- the graph
def test_reference_graph():
    L = neighbour_graph(batch(0)[0], 4, 0.5).laplacian.toarray()
    first = [1, -0.192869722, 0, 0, -0.2029005601, -0.3239634362, -0.2483220285, 0, 0, 0]
    np.testing.assert_allclose(L[0], first, atol=1e-9)
    values = "0 0.31865188277 0.73845562366 0.96266555283 1.1897112335 1.2880304171 1.3146545813"
    values += " 1.3315525214 1.3770724186 1.4792057688"
    np.testing.assert_allclose(
        np.linalg.eigvalsh(L), np.array(values.split(), dtype=float), atol=1e-9
    )


@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("h", [0.01, 0.5, 1e6])
def test_graph_is_the_naive_formula(n, h, rng):
    X = rng.normal(size=(n, 3))
    found = neighbour_graph(X, 5, h).laplacian
    np.testing.assert_allclose(found.toarray(), laplacian(X, min(5, n - 1), h), atol=1e-13)
    assert np.linalg.eigvalsh(found.toarray()).min() > -1e-14


def test_graph_where_every_weight_underflows(rng):
    """In the log domain: finite, symmetric, eigenvalues in [0, 2], a null vector per component."""
    X = rng.normal(size=(30, 2))
    found = neighbour_graph(X, 4, 1e-9).laplacian.toarray()
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, found.T)
    values = np.linalg.eigvalsh(found)
    assert -1e-12 < values.min() < 1e-12
    assert values.max() < 2.0 + 1e-12


def test_heat_by_default_is_that_of_the_farthest_neighbour(rng):
    X, y = partly(50, rng)
    d2 = np.sort(((X[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, 1:]
    model = LapMEDClassifier(n_neighbors=6).fit(X, y)
    assert model.report_["graph"]["heat"] == pytest.approx(np.median(d2[:, 5]), rel=1e-12)
    assert model.report_["graph"]["n_neighbors"] == 6


def test_a_single_row_is_not_shrunk():
    one = neighbour_graph(np.zeros((1, 2)), 5).laplacian
    assert one.shape == (1, 1)
    assert one.nnz == 0


# ---------------------------------------------------------------------- the kernel
@pytest.mark.parametrize("beta", [1e-3, 0.5, 1e4])
def test_conditioned_kernel_is_the_closed_form(beta, rng):
    X, y = partly(40, rng)
    model = stream(beta=beta, n_neighbors=6).fit(X, y)
    M = 2.0 * beta * laplacian(X, 6, 0.5)
    K, cross = k(X, X), k(X, NEW)
    P = np.linalg.solve(np.eye(40) + M @ K, M)
    expected = k(NEW, NEW) - cross.T @ P @ cross
    np.testing.assert_allclose(model.process_.cov(NEW), expected, atol=1e-9)


def test_stream_kernel_is_the_single_formula(rng):
    """P over all rows = (I + M K)^-1 M with the graphs of the batches side by side."""
    parts = [partly(n, rng) for n in (15, 7, 22)]
    model = stream(n_neighbors=5)
    for X, y in parts:
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    rows = np.vstack([X for X, _ in parts])
    M, at = np.zeros((44, 44)), 0
    for X, _ in parts:
        M[at : at + len(X), at : at + len(X)] = laplacian(X, 5, 0.5)
        at += len(X)
    P = np.linalg.solve(np.eye(44) + M @ k(rows, rows), M)
    cross = k(rows, NEW)
    np.testing.assert_allclose(
        model.process_.cov(NEW), k(NEW, NEW) - cross.T @ P @ cross, atol=1e-10
    )


def test_reference_stream():
    biases = [0.5455617756001, -0.0588273122667, 0.4685547515839]
    values = [0.3707718754678, 0.3858567963831, 0.4103427620540]
    model = stream()
    for t in range(3):
        model.partial_fit(*batch(t), classes=[-1.0, 1.0])
        assert model.intercept_[0] == pytest.approx(biases[t], abs=2e-8)
        assert model.process_.cov(NEW)[0, 1] == pytest.approx(values[t], abs=2e-9)
    np.testing.assert_allclose(
        model.decision_function(NEW), [0.9115911352, 0.7262684931], atol=2e-8
    )


def test_all_rows_as_landmarks_are_the_exact_stream():
    exact, bounded = stream(), stream(budget=0, landmarks=10, max_landmarks=30)
    for t in range(3):
        exact.partial_fit(*batch(t), classes=[-1.0, 1.0])
        bounded.partial_fit(*batch(t), classes=[-1.0, 1.0])
    assert bounded.report_["memory"]["form"] == "landmarks"
    np.testing.assert_allclose(
        bounded.decision_function(NEW), exact.decision_function(NEW), atol=1e-7
    )
    np.testing.assert_allclose(bounded.process_.cov(NEW), exact.process_.cov(NEW), atol=1e-8)


def test_memory_is_bounded_beyond_the_budget(rng):
    options = {"budget": 60, "landmarks": 5, "max_landmarks": 25, "max_support": 30}
    model, sizes = stream(**options), []
    for _ in range(25):
        model.partial_fit(*partly(30, rng), classes=[-1.0, 1.0])
        sizes.append(len(model.support_vectors_))
    assert max(sizes) <= 60
    assert max(sizes[5:]) <= 25 + 30
    assert model.report_["memory"]["landmarks"] <= 25
    plain = stream(**options, residual=False)
    for _ in range(25):
        plain.partial_fit(*partly(30, rng), classes=[-1.0, 1.0])
    assert len(plain.support_vectors_) <= 25


# ---------------------------------------------------------------------- no smoothness, no labels
def test_without_smoothness_it_is_the_supervised_stream(rng):
    graph = stream(beta=0.0)
    plain = MEDClassifier(C=10.0, amplitude=1.0, kernel=RBF(1.0), schedule="constant")
    for _ in range(2):
        X, y = partly(40, rng)
        known = ~np.isnan(y)
        graph.partial_fit(X, y, classes=[-1.0, 1.0])
        plain.partial_fit(X[known], y[known], classes=[-1.0, 1.0])
    Z = rng.normal(size=(50, 2))
    np.testing.assert_allclose(graph.decision_function(Z), plain.decision_function(Z), atol=1e-7)
    assert graph.report_["C"] == 10.0  # never annealed


def test_a_batch_without_labels_changes_the_kernel_only(rng):
    """f goes with the newest kernel, by the coefficients there were; the bias stays."""
    X, y = partly(30, rng)
    U = rng.normal(size=(20, 2))
    model = stream(n_neighbors=5).partial_fit(X, y)
    coef, bias = np.zeros(30), model.intercept_.copy()
    M1 = laplacian(X, 5, 0.5)
    P1 = np.linalg.solve(np.eye(30) + M1 @ k(X, X), M1)
    # coefficients from the expansion: w = c - P K c
    support = {
        tuple(x): w for x, w in zip(model.support_vectors_, model.dual_coef_[0], strict=True)
    }
    w = np.array([support.get(tuple(x), 0.0) for x in X])
    coef = np.linalg.solve(np.eye(30) - P1 @ k(X, X), w)
    model.partial_fit(U)
    np.testing.assert_array_equal(model.intercept_, bias)
    rows = np.vstack([X, U])
    M = np.zeros((50, 50))
    M[:30, :30], M[30:, 30:] = M1, laplacian(U, 5, 0.5)
    P = np.linalg.solve(np.eye(50) + M @ k(rows, rows), M)
    now = k(NEW, X) - k(NEW, rows) @ P @ k(rows, X)
    np.testing.assert_allclose(model.decision_function(NEW), now @ coef + bias, atol=1e-8)
    assert model.report_["labelled"] == 0


def test_few_unlabelled_rows_wait_and_are_merged(rng):
    X, y = partly(30, rng)
    U = rng.normal(size=(12, 2))
    one = stream().partial_fit(X, y).partial_fit(U)
    many = stream(merge=12).partial_fit(X, y)
    for i in range(0, 12, 3):
        before = many.decision_function(NEW)
        many.partial_fit(U[i : i + 3])
        if i < 9:
            assert many.report_["waiting"] == i + 3
            np.testing.assert_array_equal(many.decision_function(NEW), before)
    assert many.report_["waiting"] == 0
    np.testing.assert_array_equal(many.decision_function(NEW), one.decision_function(NEW))


# ---------------------------------------------------------------------- parameters
@pytest.mark.parametrize("machine", MACHINES)
def test_weights_of_belkin_are_converted(machine, rng):
    X, y = partly(40, rng)
    labelled = int(np.sum(~np.isnan(y)))
    gamma_A, gamma_I = 2e-4, 0.3
    C, beta = 1.0 / (2.0 * labelled * gamma_A), gamma_I / (2.0 * gamma_A * 40**2)
    one = machine(gamma_A=gamma_A, gamma_I=gamma_I, kernel=RBF(1.0)).fit(X, y)
    two = machine(C, beta=beta, kernel=RBF(1.0)).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(NEW), two.decision_function(NEW))
    assert one.report_["C"] == pytest.approx(C)
    assert one.report_["beta"] == pytest.approx(beta)
    with pytest.raises(ValueError, match="both or none"):
        machine(gamma_A=0.1).fit(X, y)


def test_the_objective_of_belkin_is_minimised(rng):
    """(1/l) sum of squares + gamma_A |f|^2 + gamma_I/n^2 f'Lf over f = k(., X) w and b."""
    X, y = partly(25, rng)
    known = ~np.isnan(y)
    K, L = k(X, X), laplacian(X, 5, 0.5)
    gamma_A, gamma_I = 0.01, 2.0

    def value(v):
        f = K @ v[:-1]
        loss = np.mean((y[known] - f[known] - v[-1]) ** 2)
        return loss + gamma_A * v[:-1] @ f + gamma_I / 25**2 * f @ L @ f

    best = minimize(value, np.zeros(26), method="BFGS", options={"gtol": 1e-10, "maxiter": 3000})
    model = LapLSClassifier(
        gamma_A=gamma_A, gamma_I=gamma_I, kernel=RBF(1.0), n_neighbors=5, heat=0.5
    ).fit(X, y)
    expected = k(NEW, X) @ best.x[:-1] + best.x[-1]
    np.testing.assert_allclose(model.decision_function(NEW), expected, atol=2e-4)


def test_defaults():
    model = LapMEDClassifier()
    assert (model.C, model.beta, model.heat, model.unlabelled) == ("auto", "auto", None, None)
    assert model.residual
    assert model.landmarks == 20


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_no_slack_below_one(call, rng):
    X, y = partly(20, rng)
    with pytest.raises(ValueError, match="nothing is learned"):
        getattr(LapMEDClassifier(C=1.0), call)(X, y)
    model = LapMEDClassifier(gamma_A=1.0, gamma_I=1.0)  # C = 1/(2 l)
    with pytest.raises(ValueError, match="gamma_A smaller"):
        getattr(model, call)(X, y)
    assert not hasattr(model, "classes_")


def test_slack_that_is_used_up_is_said(rng):
    model = stream(C=1.5, beta=50.0, n_neighbors=10)
    for _ in range(3):
        model.partial_fit(*partly(40, rng), classes=[-1.0, 1.0])
    assert "near 1" in model.report_["slack"]


# ---------------------------------------------------------------------- labels that are missing
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "given",
    [
        lambda y: [None if v != v else v for v in y],
        lambda y: np.array([None if v != v else v for v in y], dtype=object),
        lambda y: y,
        lambda y: y.astype(np.float32),
        lambda y: np.array([np.float32(v) for v in y], dtype=object),
        lambda y: tuple(y.tolist()),
    ],
    ids=["list", "objects", "floats", "float32", "float32 objects", "tuple"],
)
def test_every_way_to_have_no_label(machine, given, rng):
    X, y = partly(30, rng)
    expected = machine().fit(X, y).decision_function(NEW)
    model = machine().fit(X, given(y))
    np.testing.assert_allclose(model.decision_function(NEW), expected, atol=1e-12)
    assert len(model.classes_) == 2


@pytest.mark.parametrize("machine", MACHINES)
def test_minus_one_on_request_only(machine, rng):
    X, y = partly(30, rng)
    three = np.where(np.isnan(y), -1, np.where(y > 0, 1, 0)).astype(int)
    plain = machine().fit(X, three)
    assert plain.classes_.tolist() == [-1, 0, 1]
    asked = machine(unlabelled=-1).fit(X, three)
    assert asked.classes_.tolist() == [0, 1]
    gaps = [None if v == -1 else int(v) for v in three]
    np.testing.assert_allclose(
        asked.decision_function(NEW), machine().fit(X, gaps).decision_function(NEW), atol=1e-12
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_labels_of_pandas(machine, rng):
    pandas = pytest.importorskip("pandas")
    X, y = partly(30, rng)
    frame = pandas.DataFrame(X, columns=["a", "b"])
    text = pandas.Series([None if v != v else ("up" if v > 0 else "down") for v in y])
    whole = pandas.Series(pandas.array([pandas.NA if v != v else int(v) for v in y], dtype="Int64"))
    expected = machine().fit(X, y).decision_function(NEW)
    for labels in (text, text.astype("category"), whole):
        model = machine().fit(frame, labels)
        found = model.decision_function(pandas.DataFrame(NEW, columns=["a", "b"]))
        np.testing.assert_allclose(found, expected, atol=1e-12)


# ---------------------------------------------------------------------- the other machines
def test_hinge_without_a_graph_is_the_support_vector_machine(rng):
    X, y = partly(60, rng, labelled=1.1)
    one = LapSVC(10.0, beta=0.0, kernel=RBF(1.0), tol=1e-10).fit(X, y)
    two = SVC(10.0, kernel=RBF(1.0), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(one.decision_function(NEW), two.decision_function(NEW), atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
def test_no_probabilities_and_out_of_sample(machine, rng):
    X, y = partly(40, rng)
    model = machine().fit(X, y)
    assert not hasattr(model, "predict_proba")
    Z = rng.normal(size=(30, 2))
    whole = model.decision_function(Z)
    each = np.concatenate([model.decision_function(z[None]) for z in Z])
    np.testing.assert_allclose(whole, each, atol=1e-10)  # new rows do not change each other
    np.testing.assert_allclose(
        model.kernel_(Z, model.support_vectors_) @ model.dual_coef_[0] + model.intercept_[0],
        whole,
        atol=1e-10,
    )
