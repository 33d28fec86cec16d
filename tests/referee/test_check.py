"""The referee: bounds against grids, agreement with exact posteriors, flags for wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import SVC, GPClassifier, GPRegressor, KernelRegressor, check_inference_on
from mercer.inference import MCMC, Laplace, Variational
from mercer.inference.base import Task
from mercer.inference.mcmc.latents import Latents
from mercer.kernels import RBF
from mercer.linalg import DenseGram, Inducing
from mercer.losses import Gaussian, LaplaceNoise, Logistic, Poisson, Probit, Softmax, StudentT
from mercer.referee import Compared, EvidenceBracket, gaussian_bound
from mercer.referee.evidence import lower_bound, upper_bound
from mercer.referee.gaussian import Whitened, bound
from tests.reference.latents import brute

KERNEL = 3.0 * RBF(1.0)
TWO = np.array([[0.0], [0.7]])
QUICK = MCMC(samples=60, warmup=30)
CASES = [
    (Logistic(), [1.0, -1.0]),
    (Logistic(), [1.0, 1.0]),
    (Probit(), [1.0, -1.0]),
    (Poisson(), [3.0, 0.0]),
    (LaplaceNoise(0.4), [1.0, -0.3]),
]


def task_of(y, loss, w=None, X=TWO):
    gram = DenseGram(KERNEL, X, keep=True)
    w = np.ones(len(X)) if w is None else w
    return Task(gram, np.asarray(y), loss, w, np.zeros(len(X)))


@pytest.mark.parametrize(("loss", "y"), CASES, ids=lambda c: str(c))
@pytest.mark.parametrize("w", [None, np.array([1.0, 2.5])], ids=["one", "weights"])
def test_the_evidence_of_a_grid_lies_in_the_bracket(loss, y, w):
    task = task_of(y, loss, w)
    truth = brute(KERNEL(TWO), np.asarray(y), loss, w)[0]
    low, high = lower_bound(task), upper_bound(task)
    assert low - 1e-4 <= truth <= high + 1e-4
    assert high - low < 5.0


def test_every_alpha_gives_an_upper_bound_and_the_mode_the_least():
    """The bound at the mode is the MAP value, -sum g - f'K^-1 f / 2."""
    y, loss = np.array([1.0, -1.0]), Logistic()
    task, K = task_of(y, loss), KERNEL(TWO)
    found = Laplace().solve(task.gram, y[:, None], loss)
    f = found.z[:, 0]
    value = -loss.value(y, f).sum() - 0.5 * f @ np.linalg.solve(K, f)
    assert upper_bound(task) == pytest.approx(value, abs=1e-8)
    truth = brute(K, y, loss)[0]
    for alpha in np.random.default_rng(0).uniform(0.05, 0.95, size=(20, 2)) * y:
        other = loss.conjugate(y, -alpha).sum() + 0.5 * alpha @ K @ alpha
        assert other >= value - 1e-9
        assert other >= truth


def test_a_loss_that_is_not_convex_has_no_upper_bound():
    assert upper_bound(task_of([1.0, 0.0], StudentT(0.3, 4.0))) is None


def test_the_bound_of_a_given_gaussian_is_its_definition():
    X, loss = np.linspace(0.0, 2.0, 5)[:, None], Logistic()
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    task, K = task_of(y, loss, X=X), KERNEL(X)
    latents = Latents.of(task)
    values = {}
    for method in (Laplace(), Variational()):
        found = method.solve(task.gram, y[:, None], loss)
        value, error = bound(latents, Whitened.of(latents, found.alpha, found.factor.operator()))
        mu, S = K @ found.alpha[:, 0], np.linalg.inv(np.linalg.inv(K) + np.diag(found.W))
        wanted = -loss.expected(y, mu, np.diag(S))[0].sum()
        wanted -= 0.5 * (np.trace(np.linalg.solve(K, S)) + mu @ found.alpha[:, 0] - len(y))
        wanted -= 0.5 * (np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1])
        assert value == pytest.approx(wanted, abs=1e-6)
        assert error == 0.0
        values[type(method).__name__] = value
        own = method.evidence(task.gram, y[:, None], loss, found).value
        if isinstance(method, Variational):
            assert value == pytest.approx(own, abs=1e-6)
    assert values["Laplace"] < values["Variational"]


def test_the_bound_of_classes_is_that_of_all_latent_functions():
    """Against draws of the joint Gaussian: the mean of log(likelihood prior / q)."""
    X, y = np.linspace(0.0, 2.0, 4)[:, None], np.array([[0.0], [1.0], [2.0], [1.0]])
    gram, loss = DenseGram(KERNEL, X, keep=True), Softmax()
    task = Task(gram, y, loss, np.ones(4), np.zeros((4, 3)))
    found, latents = Laplace().solve(gram, y, loss), Latents.of(task)
    gaussian = Whitened.of(latents, found.alpha, found.factor.operator())
    value, error = bound(latents, gaussian)
    size = gaussian.mean.size
    S = gaussian.spread.reshape(size, size)
    half, rng = np.linalg.cholesky(S), np.random.default_rng(0)
    u = rng.standard_normal((20000, size))
    nu = gaussian.mean.ravel() + u @ half.T
    log_ratio = 0.5 * (u**2).sum(axis=1) + np.log(np.diag(half)).sum() - 0.5 * (nu**2).sum(axis=1)
    states = nu.reshape(-1, 3, latents.rank) @ latents.root.T
    series = latents.likelihood(states) + log_ratio
    spread = series.std() / np.sqrt(len(series))
    assert abs(value - series.mean()) < 4.0 * (spread + error)
    assert value < Laplace().evidence(gram, y, loss, found).value + 1.0
    # and the covariance is that of the posterior
    blocks = gaussian.blocks(latents)[1]
    assert np.allclose(blocks, found.factor.point_blocks(gram), atol=1e-6)


def test_an_exact_posterior_is_not_flagged():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, size=(8, 1))
    y = 30.0 + 4.0 * np.sin(2.0 * X[:, 0]) + rng.normal(size=8)
    model = GPRegressor("rbf", random_state=0).fit(X, y)
    check = check_inference_on(model, X, y, inference=QUICK, runs=0)
    assert check.flags == []
    evidence = check.evidence
    for name in ("given", "lower", "bridge"):
        assert getattr(evidence, name) == pytest.approx(model.log_evidence_, abs=1e-5)
    assert evidence.upper > model.log_evidence_
    assert np.allclose(check.mean.truth, model.predict_latent(np.unique(X, axis=0))[0], atol=1e-3)
    assert "agrees" in str(check)


@pytest.mark.slow
def test_annealing_agrees_with_the_bridge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=25) > 0.0, 1, 0)
    model = GPClassifier(KERNEL, search=None).fit(X, y)
    found = check_inference_on(model, X, y).evidence
    error = np.hypot(found.annealed_error, found.bridge_error)
    assert abs(found.annealed - found.bridge) < 4.0 * error < 1.5
    assert found.below - 3.0 * found.below_error < found.bridge
    assert found.bridge < found.above + 3.0 * found.above_error


def test_a_wrong_posterior_is_flagged():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, size=(15, 1))
    y = np.where(np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=15) > 0.0, 1, 0)
    model = GPClassifier(KERNEL, loss="probit", inference="ep", search=None).fit(X, y)
    check = check_inference_on(model, X, y, inference=QUICK, runs=0)
    assert check.flags == []
    model.posteriors_[0].alpha = 0.4 * model.posteriors_[0].alpha
    model.log_evidence_ -= 5.0
    check = check_inference_on(model, X, y, inference=QUICK, runs=0)
    assert check.flags == ["latent mean", "probability", "log evidence"]
    assert check.evidence.given < check.evidence.lower
    assert check.evidence.annealed is None
    assert "differs from the truth in: latent mean" in check.summary()


def test_predictions_elsewhere_and_several_classes():
    X = np.linspace(0.0, 3.0, 9)[:, None]
    y = np.array(["a", "a", "b", "b", "b", "c", "c", "c", "b"])
    model, short = GPClassifier(KERNEL, search=None).fit(X, y), MCMC(samples=30, warmup=30)
    check = check_inference_on(model, X, y, X_new=[[1.0], [9.0]], inference=short, runs=0)
    assert check.predictions.truth.shape == (6,)
    assert np.allclose(check.predictions.truth[3:], 1.0 / 3.0, atol=0.1)  # far away: the prior
    assert check.mean.truth.shape == (27,)
    assert check.evidence.lower is None
    assert check.evidence.given < check.evidence.bridge < check.evidence.upper


@pytest.mark.slow
def test_several_machines_are_checked_one_by_one():
    X = np.linspace(0.0, 3.0, 8)[:, None]
    y = np.array([0, 0, 1, 1, 1, 2, 2, 2])
    model = GPClassifier(KERNEL, loss="probit", inference="ep", search=None).fit(X, y)
    longer = MCMC(samples=150, warmup=50)
    check = check_inference_on(model, X, y, inference=longer, runs=0)
    assert len(check.draws) == 3
    assert check.flags == []
    assert check.evidence.lower < check.evidence.bridge < check.evidence.upper


def test_what_cannot_be_checked_is_refused():
    X = np.linspace(0.0, 3.0, 8)[:, None]
    y = np.array([0, 0, 1, 1, 1, 0, 1, 1])
    model = GPClassifier(KERNEL, search=None).fit(X, y)
    with pytest.raises(ValueError, match="not the rows"):
        check_inference_on(model, X + 1.0, y)
    with pytest.raises(TypeError, match="GPRegressor"):
        check_inference_on(SVC().fit(X, y), X, y)
    mode = KernelRegressor(KERNEL, loss="laplace_noise", search=None).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="a mode has no spread"):
        check_inference_on(mode, X, X[:, 0])
    trend = GPRegressor(KERNEL, basis=1, search=None).fit(X, np.sin(X[:, 0]))
    with pytest.raises(ValueError, match="basis=None"):
        check_inference_on(trend, X, np.sin(X[:, 0]))
    with pytest.raises(TypeError, match="MCMC"):
        check_inference_on(model, X, y, inference="ep")
    with pytest.raises(ValueError, match="give both"):
        check_inference_on(model, X, y, y_new=y)
    drawn = GPClassifier(KERNEL, inference=MCMC(samples=100), search=None).fit(X, y)
    with pytest.raises(ValueError, match="draws already"):
        check_inference_on(drawn, X, y)


def test_the_bound_of_a_model_is_in_the_users_units():
    X = np.linspace(0.0, 3.0, 12)[:, None]
    y = 100.0 + 20.0 * np.sin(3.0 * X[:, 0]) + 5.0 * np.cos(9.0 * X[:, 0])
    model = GPRegressor(random_state=0).fit(X, y)
    assert gaussian_bound(model, X, y) == pytest.approx(model.log_evidence_, abs=1e-4)
    assert isinstance(model.loss_, Gaussian)


def test_figures_tell_chance_from_difference():
    rng = np.random.default_rng(0)
    truth, error = np.zeros(50), np.full(50, 0.1)
    alike = Compared("x", 0.1 * rng.standard_normal(50), truth, error, 1.0, "units", 0.05)
    assert not alike.beyond.any()
    assert "within the error" in alike.line()
    small = Compared("x", truth + 1.0, truth, error, 1.0, "units", 2.0)
    assert small.beyond.all()
    assert not small.flagged.any()
    assert "too small to matter" in small.line()


def test_an_interrupt_during_annealing_leaves_the_rest():
    def stop(event):
        if event["stage"] == "annealing":
            raise KeyboardInterrupt

    X, y = np.linspace(0.0, 3.0, 6)[:, None], np.array([0, 0, 1, 1, 0, 1])
    model = GPClassifier(KERNEL, search=None).fit(X, y)
    check = check_inference_on(model, X, y, inference=QUICK, progress=stop)
    assert any("interrupted" in message for message in check.messages)
    assert check.evidence.bridge is not None
    assert isinstance(check.evidence, EvidenceBracket)


def test_few_points_are_judged_against_all_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, size=(20, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=20)
    few = Inducing(m=3, rows=20)
    model = GPRegressor(KERNEL, loss=Gaussian(0.05), gram=few, search=None).fit(X, y)
    check = check_inference_on(model, X, y, inference=QUICK, runs=0)
    assert "latent mean" in check.flags  # three points cannot follow three waves
    assert check.evidence.given is None
    assert check.evidence.bridge > model.log_evidence_
    with pytest.raises(ValueError, match="few points"):
        gaussian_bound(model, X, y)
