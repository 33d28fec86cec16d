"""Norms and inner products of kernel expansions against the definitions of GPML 6.1."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

from mercer import (
    SVC,
    SVR,
    GPRegressor,
    KernelClassifier,
    KernelRegressor,
    LeastSquaresClassifier,
    NuSVC,
    NuSVR,
    OneClassSVM,
    OnlineLogisticClassifier,
    RVClassifier,
    RVRegressor,
    SmoothingSpline,
)
from mercer.kernels import (
    RBF,
    Constant,
    Function,
    Linear,
    Matern,
    Noise,
    OrnsteinUhlenbeck,
    Precomputed,
    White,
)
from mercer.losses import Gaussian, Logistic
from mercer.rkhs import Expansion, representer

KERNEL = 1.7 * RBF(length_scale=0.8)


@pytest.fixture
def f(rng):
    return Expansion(KERNEL, rng.normal(size=(7, 2)), rng.normal(size=7))


@pytest.fixture
def g(rng):
    rng = np.random.default_rng(3)
    return Expansion(KERNEL, rng.normal(size=(4, 2)), rng.normal(size=4))


# ---------------------------------------------------------------------- the definitions
def test_norm_and_inner_product(f, g):
    K = KERNEL(f.points)
    assert f.norm() ** 2 == pytest.approx(f.alpha @ K @ f.alpha, rel=1e-13)
    double = sum(
        f.alpha[i] * g.alpha[j] * KERNEL(f.points[[i]], g.points[[j]])[0, 0]
        for i in range(7)
        for j in range(4)
    )
    assert f.inner(g) == pytest.approx(double, rel=1e-13)  # (6.6)
    assert g.inner(f) == pytest.approx(f.inner(g), rel=1e-13)


def test_reproducing_property_and_its_bound(f, rng):
    for x in rng.normal(size=(5, 1, 2)):
        at = Expansion(KERNEL, x, np.ones(1))
        assert f.inner(at) == pytest.approx(f(x)[0], rel=1e-12)  # (6.7)
        assert abs(f(x)[0]) <= f.norm() * np.sqrt(KERNEL.diag(x)[0])


def test_norm_under_a_scaled_kernel(f):
    # the same function under 3 k: coefficients a third, squared norm a third
    other = Expansion(3.0 * KERNEL, f.points, f.alpha / 3.0)
    X = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_allclose(other(X), f(X), rtol=1e-12)
    assert other.norm() ** 2 == pytest.approx(f.norm() ** 2 / 3.0, rel=1e-12)


def test_algebra(f, g):
    X = np.random.default_rng(1).normal(size=(6, 2))
    np.testing.assert_allclose((f + g)(X), f(X) + g(X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose((f - g)(X), f(X) - g(X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose((-2.5 * f)(X), -2.5 * f(X), rtol=1e-13)
    np.testing.assert_allclose((-f)(X), -(f(X)), rtol=1e-13)
    assert (f - f).norm() == 0.0
    squared = f.norm() ** 2 + g.norm() ** 2 - 2.0 * f.inner(g)
    assert f.distance(g) ** 2 == pytest.approx(squared, rel=1e-12)
    assert f.distance(g) == pytest.approx(g.distance(f), rel=1e-12)
    assert abs(f.inner(g)) <= f.norm() * g.norm()


# ---------------------------------------------------------------------- the geometry
def test_smallest_norm_through_given_values(rng):
    X, v = rng.normal(size=(5, 1)), rng.normal(size=5)
    kernel = Matern(nu=1.5)
    K = kernel(X)
    best = Expansion(kernel, X, np.linalg.solve(K, v))
    np.testing.assert_allclose(best(X), v, rtol=1e-9)
    assert best.norm() ** 2 == pytest.approx(v @ np.linalg.solve(K, v), rel=1e-10)
    for _ in range(5):  # any other function through the values: three more points, larger norm
        Z = np.vstack([X, rng.normal(size=(3, 1))])
        extra = rng.normal(size=3)
        first = np.linalg.solve(K, v - kernel(X, Z[5:]) @ extra)
        other = Expansion(kernel, Z, np.concatenate([first, extra]))
        np.testing.assert_allclose(other(X), v, rtol=1e-8)
        assert other.norm() > best.norm()
        assert other.inner(best) == pytest.approx(best.norm() ** 2, rel=1e-8)  # Pythagoras


def test_singular_gram_needs_values_in_its_range(rng):
    X = rng.normal(size=(6, 2))
    linear = Function(lambda A, B: A @ B.T)  # rank two
    w = rng.normal(size=2)
    v = X @ w
    f = Expansion(linear, X, np.linalg.pinv(linear(X)) @ v)
    np.testing.assert_allclose(f(X), v, atol=1e-10)
    assert f.norm() == pytest.approx(np.linalg.norm(w), rel=1e-10)  # |f| is |w| for f = w'x


def test_ornstein_uhlenbeck_norm_is_an_integral(rng):
    # k = exp(-a |x - z|) / (2 a):  |f|^2 = int a^2 f^2 + f'^2 over the real line (6.18)
    a = 1.3
    kernel = OrnsteinUhlenbeck(rate=a)
    points, alpha = np.sort(rng.normal(size=4)), rng.normal(size=4)
    f = Expansion(kernel, points[:, None], alpha)

    def density(x):
        waves = np.exp(-a * np.abs(x - points)) / (2.0 * a)
        value = alpha @ waves
        slope = alpha @ (-a * np.sign(x - points) * waves)
        return a**2 * value**2 + slope**2

    ends = np.concatenate([[points[0] - 30.0], points, [points[-1] + 30.0]])
    total = sum(
        quad(density, low, high, epsabs=1e-13, epsrel=1e-13, limit=400)[0]
        for low, high in itertools.pairwise(ends)
    )
    assert f.norm() ** 2 == pytest.approx(total, rel=1e-10)


def test_draws_are_not_in_the_space(rng):
    # v'K^-1 v is chi^2 with n degrees of freedom for v ~ N(0, K): it grows with n
    kernel = Matern(nu=0.5)
    sizes = []
    for n in (20, 200):
        X = np.linspace(0.0, 5.0, n)[:, None]
        L = np.linalg.cholesky(kernel(X))
        draws = L @ rng.standard_normal((n, 40))
        alpha = np.linalg.solve(kernel(X), draws)
        sizes.append(np.mean([Expansion(kernel, X, a).norm() ** 2 for a in alpha.T]))
    assert sizes[0] == pytest.approx(20, rel=0.25)
    assert sizes[1] == pytest.approx(200, rel=0.1)


# ---------------------------------------------------------------------- the basis part
def test_basis_has_no_norm_and_joins(f):
    X = np.random.default_rng(2).normal(size=(5, 2))

    def plane(A):
        return np.column_stack([np.ones(len(A)), A])

    h = Expansion(KERNEL, f.points, f.alpha, np.array([1.0, 2.0, -1.0]), plane)
    np.testing.assert_allclose(h(X), f(X) + plane(X) @ [1.0, 2.0, -1.0], rtol=1e-12)
    assert h.norm() == f.norm()
    assert h.distance(f) == 0.0
    np.testing.assert_allclose((h + h)(X), 2.0 * h(X), rtol=1e-12)
    assert len((h + h).beta) == 3
    other = Expansion(KERNEL, f.points, f.alpha, np.array([0.5]), lambda A: A[:, :1] ** 2)
    np.testing.assert_allclose((h + other)(X), h(X) + other(X), rtol=1e-12)


def test_noise_and_marks_are_no_part_of_the_function(f):
    noisy = Expansion(KERNEL + White(0.3), f.points, f.alpha)
    assert noisy.norm() == pytest.approx(f.norm(), rel=1e-14)
    fixed = Expansion(KERNEL.fix(), f.points, f.alpha)
    assert fixed.distance(f) == 0.0


def test_refusals(f, g):
    with pytest.raises(ValueError, match="different kernels"):
        f.inner(Expansion(RBF(), f.points, f.alpha))
    with pytest.raises(ValueError, match="different kernels"):
        f + Expansion(RBF(), f.points, f.alpha)
    with pytest.raises(ValueError, match="columns"):
        f.inner(Expansion(KERNEL, f.points[:, :1], f.alpha))
    with pytest.raises(ValueError, match="as many coefficients"):
        Expansion(KERNEL, f.points, f.alpha[:3])
    with pytest.raises(ValueError, match="come together"):
        Expansion(KERNEL, f.points, f.alpha, beta=np.ones(1))
    with pytest.raises(ValueError, match="noise parts only"):
        Expansion(Noise(RBF()), f.points, f.alpha)
    with pytest.raises(TypeError, match="by a number"):
        f * g
    with pytest.raises(TypeError, match="not fitted"):
        representer(GPRegressor())


# ---------------------------------------------------------------------- models
@pytest.mark.parametrize("basis", [None, "constant", "linear", lambda X: np.cos(X[:, :1])])
@pytest.mark.parametrize("kernel", [None, 0.7 * Matern(nu=2.5) + White(0.1)])
def test_representer_of_regression(rng, basis, kernel):
    X = 10.0 + 3.0 * rng.normal(size=(30, 2))
    y = 50.0 + 4.0 * np.sin(X[:, 0]) + 0.3 * rng.normal(size=30)
    model = GPRegressor(kernel, basis=basis, random_state=0).fit(X, y)
    f = representer(model)
    Z = 10.0 + 3.0 * rng.normal(size=(20, 2))
    np.testing.assert_allclose(f(Z), model.predict(Z), rtol=1e-9)
    if basis is None:
        posterior = model.posteriors_[0]
        inside = posterior.alpha[:, 0] @ posterior.parent(posterior.points) @ posterior.alpha[:, 0]
        # y = shift + scale f~: the kernel's variance goes with scale^2, so |f| is |f~|
        assert f.norm() ** 2 == pytest.approx(inside, rel=1e-9)


def test_representer_of_several_outputs(rng):
    X = rng.normal(size=(25, 2))
    Y = np.column_stack([np.sin(X[:, 0]), 30.0 + 5.0 * np.cos(X[:, 1])])
    model = GPRegressor(random_state=0).fit(X, Y)
    pair = representer(model)
    assert len(pair) == 2
    Z = rng.normal(size=(6, 2))
    np.testing.assert_allclose(np.column_stack([f(Z) for f in pair]), model.predict(Z), rtol=1e-9)


def test_representer_minimises_the_penalised_loss(rng):
    # GPML (6.19): 1/2 |f|^2 + sum (y - f)^2 / (2 s2) over all f; here over more points than data
    X, noise = rng.normal(size=(8, 1)), 0.2
    y = np.sin(2.0 * X[:, 0])
    kernel = Matern(nu=1.5)
    model = KernelRegressor(kernel, loss=Gaussian(noise), search=None).fit(X, y)
    f = representer(model)
    Z = np.vstack([f.points, rng.normal(size=(3, 1))])
    root = np.linalg.cholesky(kernel(Z) + 1e-12 * np.eye(11))

    def objective(f):
        return 0.5 * f.norm() ** 2 + ((y - f(X)) ** 2).sum() / (2.0 * noise)

    def at(c):
        return objective(Expansion(kernel, Z, np.linalg.solve(root.T, c)))

    found = minimize(at, np.zeros(11), method="BFGS")
    assert objective(f) == pytest.approx(found.fun, rel=1e-6)
    assert objective(f) <= found.fun + 1e-9


def test_representer_of_a_precomputed_matrix(rng):
    points = rng.normal(size=(12, 2))
    K, y = KERNEL(points), rng.normal(size=12)
    model = GPRegressor(Precomputed(), loss=Gaussian(0.1), search=None).fit(K, y)
    f = representer(model)
    assert f.norm() ** 2 == pytest.approx(f.alpha @ K @ f.alpha, rel=1e-12)
    np.testing.assert_allclose(f(K[:3]), model.predict(K[:3]), rtol=1e-12)


# ---------------------------------------------------------------------- other machines
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "machine",
    [
        SVC(gamma=0.4),
        SVC(gamma=0.4, tol=1e-6, bias=False),
        NuSVC(nu=0.2, tol=1e-6),
        KernelClassifier(C=3.0),
        KernelClassifier(2.0 * RBF(), loss=Logistic(), basis=None),
        KernelClassifier(RBF(), loss="hinge"),
        LeastSquaresClassifier(),
    ],
    ids=repr,
)
def test_representer_of_classifiers(rng, machine, classes):
    X = 4.0 + rng.normal(size=(60, 2))
    y = np.argmax(np.column_stack([X[:, 0], X[:, 1], np.full(60, 4.4)])[:, :classes], axis=1)
    model = machine.fit(X, y)
    found = representer(model)
    Z = 4.0 + rng.normal(size=(10, 2))
    values = np.squeeze(np.column_stack([f(Z) for f in np.atleast_1d(found)]))
    atol = 1e-5 if getattr(model, "tol", 1.0) == 1e-3 else 1e-9  # rows in single precision
    np.testing.assert_allclose(values, model.decision_function(Z), rtol=1e-6, atol=atol)


@pytest.mark.parametrize("machine", [SVR(), NuSVR(), OneClassSVM(nu=0.3)], ids=repr)
def test_representer_of_other_support_vector_machines(rng, machine):
    X = rng.normal(size=(50, 2))
    model = machine.fit(X, np.sin(X[:, 0]))
    predict = getattr(model, "decision_function", model.predict)
    np.testing.assert_allclose(representer(model)(X), predict(X), atol=1e-5)


def test_norm_is_the_penalty_of_a_support_vector_machine(rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    model = SVC(C=2.0, gamma=0.5, tol=1e-8).fit(X, y)
    f = representer(model)
    dual = np.abs(model.dual_coef_).sum() - 0.5 * f.norm() ** 2
    primal = 0.5 * f.norm() ** 2 + 2.0 * np.maximum(1.0 - y * f(X), 0.0).sum()
    assert primal == pytest.approx(dual, rel=1e-6)  # no gap at the optimum
    # two machines of one kernel: how far apart the functions are
    other = representer(SVC(C=20.0, gamma=0.5, tol=1e-8).fit(X, y))
    assert f.distance(other) > 0.1 * f.norm()


def test_representer_of_given_kernel_values(rng):
    X = rng.normal(size=(20, 2))
    model = SVC(kernel="precomputed").fit(KERNEL(X), X[:, 0] > 0.0)
    with pytest.raises(ValueError, match="no expansion over points"):
        representer(model)


# ---------------------------------------------------------------------- sparse, streamed, straight
def test_representer_of_relevance_vectors(rng):
    X = 4.0 + rng.normal(size=(60, 2))
    y = 20.0 + 3.0 * np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = RVRegressor().fit(X, y)
    f = representer(model)
    assert len(f.points) == len(model.relevance_vectors_) < 60
    np.testing.assert_allclose(f(X + 0.1), model.predict(X + 0.1), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_representer_of_a_relevance_classifier(rng, classes):
    X = 4.0 + rng.normal(size=(90, 2))
    y = np.argmax(np.column_stack([X[:, 0], X[:, 1], np.full(90, 4.4)])[:, :classes], axis=1)
    model = RVClassifier().fit(X, y)
    values = np.column_stack([f(X) for f in np.atleast_1d(representer(model))])
    mean = model.predict_latent(X)[0].reshape(90, -1)
    np.testing.assert_allclose(values, mean, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_representer_of_a_stream(rng, classes):
    X = 4.0 + 2.0 * rng.normal(size=(90, 2))
    y = np.argmax(np.column_stack([X[:, 0], X[:, 1], np.full(90, 4.4)])[:, :classes], axis=1)
    model = OnlineLogisticClassifier(rho=0.95, budget=40, mean=0.3)
    for i in range(0, 90, 30):
        model.partial_fit(X[i : i + 30], y[i : i + 30], classes=np.arange(classes))
    values = np.column_stack([f(X) for f in np.atleast_1d(representer(model))])
    mean = model.predict_latent(X)[0].reshape(90, -1)
    np.testing.assert_allclose(values, mean, rtol=1e-9, atol=1e-9)


def test_representer_of_a_spline(rng):
    x = np.sort(rng.uniform(0.0, 5.0, 40))
    y = 7.0 + 2.0 * np.sin(x) + 0.1 * rng.normal(size=40)
    model = SmoothingSpline().fit(x[:, None], y)
    f = representer(model)
    np.testing.assert_allclose(f(x[:, None]), model.predict(x[:, None]), rtol=1e-7)
    straight = SmoothingSpline(lam=np.inf).fit(x[:, None], y)
    line = representer(straight)
    assert line.norm() == 0.0
    np.testing.assert_allclose(line(x[:, None]), np.polyval(np.polyfit(x, y, 1), x), rtol=1e-9)


def test_what_has_no_expansion_says_why(rng):
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] > 0.0, 1, 0)
    healed = RVRegressor(heal=True).fit(X[:40], X[:40, 0])
    with pytest.raises(ValueError, match="heal=False"):
        representer(healed)
    functions = RVRegressor(functions=lambda X: np.hstack([X, X**2])).fit(X[:40], X[:40, 0])
    with pytest.raises(ValueError, match="no kernel"):
        representer(functions)
    stream = OnlineLogisticClassifier(Linear() + Constant(1.0), budget=50).fit(X, y)
    with pytest.raises(ValueError, match="weights of its features"):
        representer(stream)
