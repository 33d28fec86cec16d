"""Weight space: kernels with few features give the numbers of the dense algebra, without n x n."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import (
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    KernelRegressor,
    OnlineLogisticClassifier,
    inference,
    losses,
)
from mercer.kernels import (
    RBF,
    TFIDF,
    Linear,
    MultinomialFisher,
    Nystroem,
    Polynomial,
    RandomFourier,
    White,
)
from mercer.left_out.cavity import cavities, gaussian_figures
from mercer.left_out.margins import left_out_latent
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.reduced.weights import WeightGram, pays
from mercer.process.process import Prior
from mercer.search.criteria.evidence import simple_problem
from mercer.search.criteria.left_out import LooCriterion
from mercer.search.space import Space
from mercer.testing import check_estimator
from mercer.testing.process import check_gram

RNG = np.random.default_rng(0)
N, D = 36, 3
X = RNG.normal(size=(N, D))
F = X @ [1.0, -2.0, 0.5] + 0.3
Y = (F + 0.3 * RNG.normal(size=N))[:, None]
SIGNS = np.where(F[:, None] + 0.5 * RNG.normal(size=(N, 1)) > 0, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(0.3 * F))[:, None].astype(float)
CODES = np.digitize(F, [-1.0, 1.0]).astype(float)[:, None]
WEIGHTS = RNG.uniform(0.5, 2.0, size=N)
NEW = RNG.normal(size=(4, D))
KERNEL = 1.5 * Linear(np.array([1.0, 0.5, 2.0])) + Polynomial(2, 1.3, 0.7) + 0.7
NOISE = losses.Gaussian(0.09)
STUDENT = losses.StudentT(4.0, 0.1)
TIGHT = {"tol": 1e-10}
SKETCH = inference.Variational(factors=2)


def basis(X):
    return np.column_stack([np.ones(len(X)), X[:, 0]])


def one(X):
    return np.ones((len(X), 1))


# inference, loss, targets, basis
CASES = {
    "exact": (inference.Exact(), NOISE, Y, None),
    "exact, basis": (inference.Exact(), NOISE, Y, basis),
    "exact, two outputs": (inference.Exact(), NOISE, np.hstack([Y, Y**2]), None),
    "laplace": (inference.Laplace(), losses.Logistic(), SIGNS, None),
    "laplace, two": (inference.Laplace(), losses.Logistic(), np.hstack([SIGNS, -SIGNS]), None),
    "laplace, counts": (inference.Laplace(), losses.Poisson(), COUNTS, None),
    "laplace, student": (inference.Laplace(), STUDENT, Y, None),
    "laplace, softmax": (inference.Laplace(), losses.Softmax(), CODES, None),
    "ep": (inference.EP(**TIGHT), losses.Probit(), SIGNS, None),
    "ep, student": (inference.EP(**TIGHT), STUDENT, Y, None),
    "variational": (inference.Variational(**TIGHT), losses.Logistic(), SIGNS, None),
    "bound": (inference.Bound(**TIGHT), losses.Logistic(), SIGNS, None),
    "newton": (inference.Newton(), losses.Logistic(), SIGNS, None),
    "newton, basis": (inference.Newton(), losses.Logistic(), SIGNS, one),
    "newton, softmax": (inference.Newton(), losses.Softmax(), CODES, one),
    "dual": (inference.Dual(), losses.Hinge(), SIGNS, None),
    "dual, basis": (inference.Dual(), losses.Hinge(), SIGNS, one),
    "primal": (inference.Primal(tol=1e-12), losses.Hinge(), SIGNS, None),
}


def close(found, wanted, tol=1e-8):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=tol * (1e-3 + np.abs(wanted).max()))


@pytest.mark.parametrize("white", [False, True], ids=["", "white noise"])
@pytest.mark.parametrize("name", CASES)
def test_every_inference_has_the_numbers_of_the_dense_algebra(name, white):
    method, loss, y, function = CASES[name]
    joint = loss.response == "multiclass"
    if white and (joint or name == "primal"):
        pytest.skip("no noise parts there")
    kernel = KERNEL + White(0.05) if white else KERNEL
    grams = DenseGram(kernel, X, keep=True), WeightGram(kernel, X)
    H, m = None if function is None else function(X), 3 if joint else y.shape[1]
    mean = np.full((N, m), 0.1)
    found = [method.solve(gram, y, loss, weights=WEIGHTS, basis=H, mean=mean) for gram in grams]
    dense, weights = found
    close(weights.alpha, dense.alpha)
    close(weights.z, dense.z)
    close(
        weights.factor.solve(y @ np.ones((y.shape[1], m))),
        dense.factor.solve(y @ np.ones((y.shape[1], m))),
    )
    processes = [
        Prior(kernel, m).condition(X, s, function, gram)
        for s, gram in zip(found, grams, strict=True)
    ]
    assert processes[1].has_spread == processes[0].has_spread == method.has_evidence
    close(processes[1].mean(NEW), processes[0].mean(NEW))
    close(processes[1].blocks(NEW), processes[0].blocks(NEW))
    if m == 1:
        close(processes[1](NEW), processes[0](NEW))
        close(processes[1](NEW, NEW[:2]), processes[0](NEW, NEW[:2]))
    problem = simple_problem(X, y, H)
    if not method.has_evidence:
        if not joint:
            close(*(left_out_latent(problem, g, s) for g, s in zip(grams, found, strict=True)))
        return
    left = [
        gaussian_figures(problem, loss, s).variance
        if loss.offers("quadratic")
        else cavities(problem, g, loss, s)[1]
        for g, s in zip(grams, found, strict=True)
    ]
    close(left[1], left[0])
    scores = [method.evidence(g, y, loss, s) for g, s in zip(grams, found, strict=True)]
    assert scores[1].value == pytest.approx(scores[0].value, rel=1e-9)
    for name_of, slope in scores[0].loss_gradient.items():
        close(scores[1].loss_gradient[name_of], slope, 1e-6)
    slopes = [
        g.pullback(s.alpha, s.factor, e.U, e.V)
        for g, s, e in zip(grams, found, scores, strict=True)
    ]
    top = max(float(np.abs(slope).max()) for slope in slopes[0].values())
    assert slopes[1].keys() == slopes[0].keys()
    for path, slope in slopes[0].items():
        np.testing.assert_allclose(slopes[1][path], slope, rtol=0.0, atol=1e-8 * top)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("function", [None, one], ids=["", "basis"])
def test_the_search_by_leave_one_out_has_the_gradient_of_the_dense_algebra(function, centred):
    space = Space({"kernel": KERNEL + White(0.05), "loss": NOISE})
    problem = simple_problem(X, Y, None if function is None else function(X))
    found = []
    for make in (lambda k, P, scratch: DenseGram(k, P), lambda k, P, scratch: WeightGram(k, P)):
        criterion = LooCriterion(space, problem, inference.Exact(), make)
        criterion.centred = centred
        found.append(criterion(space.start))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-10)
    close(found[1][1], found[0][1])


def test_rows_that_a_kink_holds_are_left_out_as_in_the_dense_algebra():
    """W = inf at some rows: against the dense factor, with a basis that only they determine."""
    W = np.zeros(N)
    W[[3, 8, 20]] = np.inf
    W[5:8] = 0.7
    kernel = 2.0 * Linear() + 1.0
    for H in (None, one(X)):
        both = []
        for gram in (DenseGram(kernel, X, keep=True), WeightGram(kernel, X)):
            factor = gram.factor(W)
            factor = factor if H is None else factor.projected(H)
            both.append((factor.diag(), factor.solve(Y)))
        for a, b in zip(*both, strict=True):
            close(b, a)
    with pytest.raises(ValueError, match="singular"):
        WeightGram(Linear(), X).factor(np.full(N, np.inf))


@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + White(0.05), Nystroem.example()], ids=repr)
def test_the_contract_of_a_gram(kernel):
    check_gram(WeightGram(kernel, X))


def test_the_weights_are_those_of_bayesian_linear_regression():
    """GPML (2.8): A = I + F'F / noise, mean A^-1 F'y / noise, by hand."""
    gram = WeightGram(2.0 * Linear(), X)
    found = inference.Exact().solve(gram, Y, NOISE)
    G = np.sqrt(2.0) * X
    A = np.eye(D) + G.T @ G / 0.09
    posterior = Prior(2.0 * Linear()).condition(X, found, None, gram)
    phi = np.sqrt(2.0) * NEW
    close(posterior.mean(NEW), phi @ np.linalg.solve(A, G.T @ Y / 0.09))
    close(posterior(NEW), phi @ np.linalg.solve(A, phi.T))
    assert len(posterior.points) == 0
    with pytest.raises(ValueError, match="gram='dense'"):
        posterior.project(NEW)


# ---------------------------------------------------------------------- estimators
ROWS = 300
T = np.random.default_rng(1).normal(size=(ROWS, D))
G = T @ [1.0, -2.0, 0.5] + 0.3
NUMBERS = G + 0.3 * np.random.default_rng(2).normal(size=ROWS)
TWO = np.where(G > 0.2 * NUMBERS, "a", "b")
THREE = np.array(["u", "v", "w"])[np.digitize(NUMBERS, [-1.0, 1.0])]
LINE = 1.0 * Linear() + 1.0
MACHINES = {
    "regression": (GPRegressor(LINE, search=None), NUMBERS),
    "named": (GPRegressor("linear", search=None), NUMBERS),
    "basis": (GPRegressor(Polynomial(2), basis=1, search=None), NUMBERS),
    "two outputs": (GPRegressor(LINE, search=None), np.column_stack([NUMBERS, NUMBERS**2])),
    "fourier": (GPRegressor(RandomFourier(2.0, size=10), search=None), NUMBERS),
    "nystroem": (GPRegressor(Nystroem(RBF(2.0), size=12), search=None), NUMBERS),
    "white": (GPRegressor(LINE + White(0.1), loss=NOISE, search=None), NUMBERS),
    "ep": (GPClassifier(LINE, search=None), TWO),
    "three": (GPClassifier(LINE, search=None), THREE),
    "three ep": (GPClassifier(LINE, inference="ep", search=None), THREE),
    "hinge": (KernelClassifier(LINE, loss="hinge"), TWO),
    "softmax": (KernelClassifier(LINE), THREE),
    "quantile": (KernelRegressor(LINE, loss=losses.Pinball(0.3), search=None), NUMBERS),
}


def answers(model, Z):
    if hasattr(model, "classes_"):
        names = ("decision_function", "predict_proba")
        return [getattr(model, name)(Z) for name in names if hasattr(model, name)]
    if not model.posteriors_[0].has_spread:
        return [model.predict(Z)]
    return [
        *model.predict(Z, return_std=True),
        model.sample_y(Z, 2) if hasattr(model, "sample_y") else 0.0,
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_auto_is_the_dense_machine(name, tmp_path):
    model, y = MACHINES[name]
    auto = model.fit(T, y)
    dense = mercer.load(saved(auto, tmp_path))
    for a, b in zip(answers(auto, NEW), answers(dense, NEW), strict=True):
        np.testing.assert_array_equal(a, b)  # a file answers to the last bit
    dense = type(model)(**model.get_params(deep=False) | {"gram": "dense"}).fit(T, y)
    assert (auto.report_["gram"], dense.report_["gram"]) == ("weights", "dense")
    for a, b in zip(answers(auto, NEW), answers(dense, NEW), strict=True):
        close(a, b)
    if dense.log_evidence_ is not None:
        assert auto.log_evidence_ == pytest.approx(dense.log_evidence_, rel=1e-9)
    for figure in ("mean", "variance", "log_density", "proba", "margin", "bound"):
        wanted = getattr(dense.left_out_, figure, None)
        if wanted is not None:
            close(getattr(auto.left_out_, figure), wanted)
    freedom = dense.report_["degrees_of_freedom"]
    assert freedom is None or auto.report_["degrees_of_freedom"] == pytest.approx(freedom, abs=1e-6)
    assert (auto.left_out_ is None) == (dense.left_out_ is None)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (GPRegressor(Polynomial(2), basis=1, search=None), NUMBERS),
        (GPClassifier(Polynomial(2), inference="ep", loss="probit", search=None), THREE),
        (OnlineLogisticClassifier(Polynomial(2), budget=20), TWO),
    ],
    ids=["basis", "three", "stream"],
)
def test_the_contract_of_files_and_of_the_order_of_rows(model, y):
    check_estimator(model, T, y, variants=15)


def saved(model, folder):
    mercer.save(model, folder / "model.mercer")
    return folder / "model.mercer"


def test_a_search_finds_what_the_dense_one_finds():
    found = [GPRegressor(LINE, gram=gram).fit(T, NUMBERS) for gram in ("auto", "dense")]
    assert found[0].log_evidence_ == pytest.approx(found[1].log_evidence_, abs=1e-6)
    assert found[0].loss_.noise == pytest.approx(found[1].loss_.noise, rel=1e-4)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (TFIDF(), np.random.default_rng(3).uniform(0.0, 3.0, size=(ROWS, 5))),
        (MultinomialFisher(), np.random.default_rng(3).uniform(0.0, 3.0, size=(ROWS, 5))),
        (Linear().on([0, 2]) + Polynomial(2).on(1), T),
    ],
    ids=["tfidf", "fisher", "columns"],
)
def test_kernels_that_take_from_data_and_on_columns(kernel, X):
    auto, dense = (
        GPRegressor(kernel, search=None, gram=gram).fit(X, NUMBERS) for gram in ("auto", "dense")
    )
    assert auto.report_["gram"] == "weights"
    close(auto.predict(X[:5]), dense.predict(X[:5]))


def test_the_rule_and_what_is_said_of_it():
    assert pays(256, 64)
    assert not pays(255, 1)
    assert not pays(300, 76)
    few = GPRegressor(LINE, search=None).fit(T[:255], NUMBERS[:255])
    wide = GPRegressor(RandomFourier(size=40), search=None).fit(T, NUMBERS)  # 80 of 300
    rbf = GPRegressor(RBF(), search=None).fit(T, NUMBERS)
    assert [one.report_["gram"] for one in (few, wide, rbf)] == ["dense"] * 3
    forced = GPRegressor(RandomFourier(size=40), search=None, gram="weights").fit(T, NUMBERS)
    assert forced.report_["inference"]["weights"] == 80
    close(forced.predict(NEW), wide.predict(NEW))
    assert "weights" in str(forced.summary())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (GPRegressor(RBF(), gram="weights"), "infinitely many"),
        (GPRegressor(Linear(), loss=losses.Gaussian(0.0), search=None, gram="weights"), "no noise"),
        (GPClassifier(Linear(), inference=SKETCH, gram="weights"), "dense algebra"),
    ],
)
def test_where_weights_do_not_serve_it_is_said(model, why):
    y = TWO if isinstance(model, GPClassifier) else NUMBERS
    with pytest.raises(ValueError, match=why):
        model.fit(T, y)


def test_a_kernel_that_states_its_values_anew_is_not_taken_for_its_map():
    class Doubled(Linear):
        def __call__(self, X, Z=None):
            return 2.0 * super().__call__(X, Z)

        def diag(self, X):
            return 2.0 * super().diag(X)

    found = GPRegressor(1.0 * Doubled(), search=None).fit(T, NUMBERS)
    assert found.report_["gram"] == "dense"


def test_many_rows_need_no_square_array():
    """3e4 rows of a dense fit would take 7 GB and hours."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30_000, 4))
    y = X @ [1.0, 2.0, 0.0, -1.0] + 0.5 * rng.normal(size=len(X))
    model = GPRegressor(LINE, search=None, loss=losses.Gaussian(0.25)).fit(X, y)
    slopes = model.predict(np.vstack([np.zeros(4), np.eye(4)]))
    np.testing.assert_allclose(slopes[1:] - slopes[0], [1.0, 2.0, 0.0, -1.0], atol=0.02)
    assert np.isfinite(model.left_out_.log_density).all()


@pytest.mark.parametrize("variance", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("centre", [0.0, 1e4])
def test_columns_far_from_zero(variance, centre):
    """The weights are those of least squares by reflections, however large features are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2)) + centre
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=1000)
    model = GPRegressor(variance * Linear(), loss=mercer.losses.Gaussian(0.09), search=None)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert model.report_["gram"] == "weights"
    root = np.sqrt(variance)
    stacked, zeros = np.vstack([root * X / 0.3, np.eye(2)]), np.zeros(2)
    weights = np.linalg.lstsq(stacked, np.r_[y / 0.3, zeros])[0]
    np.testing.assert_allclose(mean, root * X @ weights, atol=1e-6)
    half = np.linalg.solve(np.linalg.qr(stacked, mode="r").T, root * X.T)
    np.testing.assert_allclose(std, np.sqrt(0.09 + (half**2).sum(axis=0)), rtol=1e-9)


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational"])
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_with_columns_far_from_zero(inference, classes):
    """A constant beside columns about zero is nearly the same prior: columns about 1000, too."""
    if inference == "ep" and classes == 3:
        pytest.skip("EP has two classes")
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 2))
    y = np.digitize(Z[:, 0] - Z[:, 1] + 0.5 * rng.normal(size=600), [0.0, 1.0][: classes - 1])
    means = []
    for gram in ("weights", "dense"):
        model = GPClassifier(Linear(), search=None, inference=inference, gram=gram)
        means.append(model.fit(Z + 1000.0, y).predict_proba(Z + 1000.0))
        assert model.report_["inference"]["converged"]
    np.testing.assert_allclose(means[0], means[1], atol=2e-4)
