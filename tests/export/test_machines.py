"""Every estimator predicts in onnxruntime what it predicts in mercer, or is refused by name."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import losses, search
from mercer.export import ExportError
from mercer.export.machines import WRITERS
from mercer.kernels import RBF, Constant, Linear, Matern, RandomFourier, White
from mercer.linalg import Iterative
from tests.export.common import assert_same

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2)) * [1.0, 20.0] + [0.0, 100.0]
Z = RNG.normal(size=(15, 2)) * [1.5, 30.0] + [0.0, 100.0]
TARGET = np.sin(X[:, 0]) + 0.05 * X[:, 1] + 0.1 * RNG.normal(size=50)
TWO = np.where(X[:, 0] * (X[:, 1] - 100.0) > 0.0, "same", "different")
THREE = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=50), [-0.5, 0.5]) * 10
SOME = np.where(np.arange(50) < 20, TWO, None)
LINE = np.sort(RNG.uniform(0.0, 10.0, 50))[:, None]
WAVE = np.sin(LINE[:, 0]) + 0.1 * RNG.normal(size=50)
BEYOND = np.concatenate([LINE[:5], LINE + 0.03, [[-3.0], [14.0], [-1e-3]]])
COUNTS = RNG.poisson(np.exp(np.sin(X[:, 0])))
OWN = 2.0 * RBF(np.array([1.0, 20.0]))

REGRESSORS = {
    "AdditiveRegressor": mercer.AdditiveRegressor(),
    "GPRegressor": mercer.GPRegressor(),
    "GPRegressor, basis": mercer.GPRegressor(OWN, basis="quadratic", search=None),
    "GPRegressor, noise parts": mercer.GPRegressor(OWN + White(0.1), search=None),
    "GPRegressor, student": mercer.GPRegressor(OWN, loss="student_t", search=None),
    "GPRegressor, huber": mercer.GPRegressor(OWN, loss="huber", search=None),
    "GPRegressor, quantile": mercer.GPRegressor(
        OWN, loss=losses.Pinball(0.9), inference="ep", search=None
    ),
    "KernelRegressor": mercer.KernelRegressor(search=None),
    "RVRegressor": mercer.RVRegressor(),
    "RVRegressor, healed": mercer.RVRegressor(heal=True),
    "RVRegressor, no bias": mercer.RVRegressor(OWN, bias=False),
    "RVRegressor, columns": mercer.RVRegressor(functions="columns"),
    "ThinPlateSpline": mercer.ThinPlateSpline(),
}
MODES = {
    "KernelRegressor, huber": mercer.KernelRegressor(loss="huber", search=None),
    "KernelRegressor, quantile": mercer.KernelRegressor(loss=losses.Pinball(0.9), search=None),
    "SVR": mercer.SVR(tol=1e-6),
    "SVR, poly": mercer.SVR(kernel="poly", degree=2, coef0=1.0, gamma=1e-4, tol=1e-6),
    "NuSVR": mercer.NuSVR(tol=1e-6),
}
PROBABILITIES = {
    "GPClassifier": mercer.GPClassifier(),
    "GPClassifier, mode": mercer.GPClassifier(
        OWN, loss="logistic", search=None, discriminant="mode"
    ),
    "GPClassifier, noise parts": mercer.GPClassifier(OWN + White(0.3), search=None),
    "OnlineLogisticClassifier": mercer.OnlineLogisticClassifier(),
    "OnlineLogisticClassifier, budget": mercer.OnlineLogisticClassifier(budget=15, rho=0.99),
    "ProbabilisticLeastSquaresClassifier": mercer.ProbabilisticLeastSquaresClassifier(),
    "PLSC, latent": mercer.ProbabilisticLeastSquaresClassifier(latent=True, basis="constant"),
    "RVClassifier": mercer.RVClassifier(),
    "RVClassifier, healed": mercer.RVClassifier(heal=True, loss="probit"),
}
MARGINS = {
    "KernelClassifier, hinge": mercer.KernelClassifier(loss="hinge"),
    "LeastSquaresClassifier": mercer.LeastSquaresClassifier(),
    "LeastSquaresClassifier, fisher": mercer.LeastSquaresClassifier(targets="fisher"),
    "MEDClassifier": mercer.MEDClassifier(),
    "MEDClassifier, linear": mercer.MEDClassifier(kernel="linear"),
    "MEDClassifier, map": mercer.MEDClassifier(
        kernel=0.7 * RandomFourier(np.array([1.0, 20.0]), size=20) + Linear() + Constant(0.3)
    ),
    "NuSVC": mercer.NuSVC(nu=0.1, kernel=OWN, tol=1e-6),
    "SVC": mercer.SVC(tol=1e-6),
    "SVC, joint": mercer.SVC(tol=1e-6, multi_class="crammer_singer"),
}
BOTH = {
    "KernelClassifier": mercer.KernelClassifier(),
    "KernelClassifier, probit": mercer.KernelClassifier(loss="probit"),
    "MEDClassifier, calibrated": mercer.MEDClassifier(calibration="sigmoid"),
    "SVC, loo": mercer.SVC(tol=1e-6, probability="loo"),
}
PARTLY = {
    "LapLSClassifier": mercer.LapLSClassifier(),
    "LapMEDClassifier": mercer.LapMEDClassifier(),
    "LapSVC": mercer.LapSVC(),
}
ELSEWHERE = {"OneClassSVM", "QuantileRegressor", "SmoothingSpline"}
REFUSED = {"RiverClassifier"}  # it learns from streams of dictionaries, not from rows


def cases(table):
    return pytest.mark.parametrize("model", table.values(), ids=list(table))


def test_no_estimator_is_forgotten():
    tables = (REGRESSORS, MODES, PROBABILITIES, MARGINS, BOTH, PARTLY)
    named = {type(model).__name__ for table in tables for model in table.values()}
    public = {
        name
        for name in mercer.__all__
        if isinstance(getattr(mercer, name), type)
        and issubclass(getattr(mercer, name), BaseEstimator)
        and any(cls in WRITERS for cls in getattr(mercer, name).__mro__)
    }
    assert public - named - ELSEWHERE == set()
    assert len(public) >= 19


@cases(REGRESSORS)
def test_regressor(model):
    assert_same(model.fit(X, TARGET), Z, 1e-8, ["mean", "std"])
    assert_same(model, Z, 1e-8, ["mean"], std=False)


@cases(MODES)
def test_regressor_without_spread(model):
    assert_same(model.fit(X, TARGET), Z, 1e-8, ["mean"])


@pytest.mark.parametrize("levels", [0.3, (0.2, 0.45, 0.5, 0.55, 0.8)])
def test_quantiles(levels):
    model = mercer.QuantileRegressor(levels, kernel=OWN, C=10.0, search=None)
    model.fit(X, TARGET)
    for posterior, move in zip(model.posteriors_, (0.0, 0.3, 0.0, -0.3, 0.0), strict=False):
        posterior.beta = posterior.beta + move  # they cross
    assert_same(model, Z, 1e-10, ["quantiles"])


@cases(PROBABILITIES)
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_probabilities(model, y):
    assert_same(model.fit(X, y), Z, 1e-8, ["label", "probabilities"])


@cases(MARGINS)
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_margins(model, y):
    assert_same(model.fit(X, y), Z, 1e-8, ["label", "decision"])


@cases(BOTH)
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_margins_with_probabilities(model, y):
    found = assert_same(model.fit(X, y), Z, 1e-8)
    assert set(found) == {"label", "decision", "probabilities"}


@cases(PARTLY)
def test_partly_labelled(model):
    assert_same(model.fit(X, SOME), Z, 1e-8, ["label", "decision"])
    told = clone(model).set_params(calibration="sigmoid").fit(X, SOME)
    assert_same(told, Z, 1e-8, ["label", "decision", "probabilities"])


@pytest.mark.parametrize("loss", ["poisson", "negative_binomial", "gamma"])
def test_other_targets(loss):
    y = COUNTS + 0.5 if loss == "gamma" else COUNTS
    model = mercer.GPRegressor(RBF(np.array([1.0, 20.0])), loss=loss, search=None).fit(X, y)
    assert_same(model, Z, 1e-8, ["mean", "std"])
    mode = mercer.KernelRegressor(RBF(np.array([1.0, 20.0])), loss=loss, search=None).fit(X, y)
    assert_same(mode, Z, 1e-8, ["mean"])


def test_a_loss_without_form_is_refused():
    y = np.clip(COUNTS, 0, 2)
    model = mercer.GPRegressor(OWN, loss=losses.Ordinal([0.0, 1.0]), search=None).fit(X, y)
    with pytest.raises(ExportError, match="the loss Ordinal cannot be exported"):
        mercer.to_onnx(model)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_smoothing_spline(order):
    model = mercer.SmoothingSpline(order).fit(LINE, WAVE)
    assert_same(model, BEYOND, 1e-10, ["mean", "std"])


def test_smoothing_spline_of_counts_and_of_a_period():
    counts = RNG.poisson(np.exp(np.sin(LINE[:, 0])))
    model = mercer.SmoothingSpline(loss="poisson").fit(LINE, counts)
    assert_same(model, LINE + 0.03, 1e-8, ["mean", "std"])
    periodic = mercer.SmoothingSpline(period=12.0).fit(LINE, WAVE)
    assert_same(periodic, BEYOND, 1e-9, ["mean", "std"])


def test_smoothing_spline_with_repeated_and_few_rows():
    model = mercer.SmoothingSpline().fit(np.array([[0.0], [0.0], [1.0], [3.0]]), [0.0, 1.0, 3.0, 2])
    assert_same(model, np.linspace(-1.0, 5.0, 30)[:, None], 1e-10)


@pytest.mark.parametrize("kernel", ["matern12", "matern52"])
def test_markov_machine(kernel):
    model = mercer.GPRegressor(kernel, gram="markov").fit(LINE, WAVE)
    assert model.report_["gram"] == "markov"
    assert_same(model, BEYOND, 1e-7)


def test_additive_machine():
    kernel = Matern().on(0) + Matern(length_scale=20.0).on(1)
    given = {"search": None, "gram": "iterative", "tol": 1e-14}
    model = mercer.AdditiveRegressor(kernel, loss=losses.Gaussian(0.05), **given).fit(X, TARGET)
    model.posteriors_[0].operator.width = 1e-10
    assert_same(model, Z, 1e-6, ["mean", "std"])


def test_iterative_machine():
    """The graph has the exact variance of the same model, with the noise of each row."""
    gram, loss = Iterative(rank=8, tol=1e-14, precision="double"), losses.Gaussian(0.05)
    model = mercer.GPRegressor(OWN, loss=loss, search=None, gram=gram)
    for y in (TARGET, np.column_stack([TARGET, -TARGET])):
        model.fit(X, y, np.where(np.arange(len(X)) % 3, 1.0, 2.0))
        model.posteriors_[0].operator.width = 1e-10
        assert_same(model, Z, 1e-6, ["mean", "std"])


def test_several_outputs():
    model = mercer.GPRegressor().fit(X, np.column_stack([TARGET, TARGET**2]))
    assert_same(model, Z, 1e-8, ["mean", "std"])
    assert_same(model, Z[:1], 1e-8)


def test_committee():
    kernel = RBF(np.array([1.0, 20.0])).bound(length_scale=(0.1, 1e3))
    sampler = search.HMC(samples=8, warmup=20, chains=1)
    regressor = mercer.GPRegressor(kernel, loss=losses.Gaussian(0.1).fix(), search=sampler)
    regressor.fit(X, TARGET)
    classifier = mercer.GPClassifier(kernel, loss="probit", search=sampler).fit(X, TWO)
    assert len(regressor.posteriors_) > 1
    assert_same(regressor, Z, 1e-8, ["mean", "std"])
    assert_same(classifier, Z, 1e-8, ["label", "probabilities"])


@pytest.mark.parametrize("loss", ["logistic", "probit", "laplace_probit"])
def test_one_against_the_rest(loss):
    model = mercer.GPClassifier(OWN, loss=loss, inference="ep", search=None).fit(X, THREE)
    assert_same(model, Z, 1e-8, ["label", "probabilities"])


def test_softmax_of_two_classes():
    assert_same(mercer.GPClassifier(OWN, loss="softmax", search=None).fit(X, TWO), Z, 1e-8)
    assert_same(mercer.KernelClassifier(OWN, loss="softmax").fit(X, TWO), Z, 1e-8)


@pytest.mark.slow  # a rule of 32768 points for each row and class
def test_softmax_of_five_classes():
    five = np.arange(50) % 5
    assert_same(mercer.GPClassifier(4.0 * OWN, search=None).fit(X, five), Z[:1], 1e-6)


def test_bayesian_svc():
    options = {"kernel": OWN, "tol": 1e-6, "inference": "variational", "search": None}
    model = mercer.SVC(**options).fit(X, TWO)
    assert_same(model, Z, 1e-8, ["label", "probabilities"])
    mode = mercer.SVC(**options, discriminant="mode")
    assert_same(mode.fit(X, THREE), Z, 1e-8, ["label", "decision", "probabilities"])


def test_single_precision_of_the_machine_itself():
    assert_same(mercer.SVC().fit(X, TWO), Z, 1e-5)


def test_precomputed_svc():
    K = OWN(X)
    assert_same(mercer.SVC(kernel="precomputed", tol=1e-6).fit(K, TWO), K[:7], 1e-9)


def test_outliers():
    model = mercer.OneClassSVM(nu=0.3, tol=1e-6).fit(X)
    found = assert_same(model, Z, 1e-9, ["label", "decision"])
    assert set(found["label"]) == {-1, 1}


class QuantileRegressor(mercer.GPRegressor):
    """The 90 % quantile instead of the mean."""

    def predict(self, X, return_std=False, return_cov=False):
        mean, std = super().predict(X, return_std=True)
        return mean + 1.2816 * std


class Moved(mercer.KernelRegressor):
    def _shaped(self, values):  # a hook that predict uses
        return super()._shaped(values) + 1.0


class Careful(mercer.SVC):
    def decision_function(self, X):
        return super().decision_function(X) - 0.5


class Certain(mercer.GPClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X).round()


class Scored(mercer.LapSVC):
    def predict_proba(self, X):  # the parent refuses
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize(
    ("model", "y", "what"),
    [
        (QuantileRegressor(), TARGET, "it overrides predict of GPRegressor"),
        (Moved(), TARGET, "it overrides _shaped of KernelRegressor"),
        (Careful(), TWO, "it overrides decision_function of SVC"),
        (Certain(search=None), TWO, "it overrides predict_proba of GPClassifier"),
        (Scored(), SOME, "it overrides predict_proba of LapSVC"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_child_that_predicts_in_its_own_way_is_refused(model, y, what):
    model.fit(X, y)
    with pytest.raises(ExportError, match=f"{type(model).__name__} cannot be exported: {what}"):
        mercer.to_onnx(model)
    with pytest.raises(ExportError, match=what):
        mercer.to_onnx(make_pipeline(StandardScaler(), model).fit(X, y))


def test_a_child_that_predicts_as_its_parent_is_exported():
    class Narrow(mercer.SVR):
        def __init__(self, *, kernel=OWN, C=3.0, tol=1e-6):
            super().__init__(kernel=kernel, C=C, tol=tol)

        def fit(self, X, y):
            return super().fit(X, 2.0 * np.asarray(y))

    class Narrower(Narrow):
        def explain(self):
            return "more methods change nothing"

    for model in (Narrow(), Narrower()):
        assert_same(model.fit(X, TARGET), Z, 1e-8, ["mean"])


def test_own_functions_are_refused():
    model = mercer.RVRegressor(functions=np.sin).fit(LINE, WAVE)
    with pytest.raises(ExportError, match="functions of your own"):
        mercer.to_onnx(model)
    basis = mercer.GPRegressor(basis=np.cos).fit(LINE, WAVE)
    with pytest.raises(ExportError, match="basis FunctionBasis cannot be exported"):
        mercer.to_onnx(basis)


def test_others_are_refused():
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(X, TARGET)
    for other in (pipeline, StandardScaler(), "model", mercer.RiverClassifier):
        with pytest.raises(ExportError, match="cannot be exported"):
            mercer.to_onnx(other)
