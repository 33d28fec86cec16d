"""Fisher kernels: scores by differences of the log likelihood, information by its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multinomial, multivariate_normal
from sklearn.mixture import GaussianMixture

from mercer import MEDClassifier, load, save
from mercer.kernels import Fisher, MixtureFisher, MultinomialFisher


def differences(log_p, theta, step=1e-5):
    """Central differences of log_p(theta) (n,) by each entry of theta: (n, p)."""
    moves = step * np.eye(len(theta))
    return np.column_stack([(log_p(theta + h) - log_p(theta - h)) / (2 * step) for h in moves])


def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


# ---------------------------------------------------------------------- multinomial
def test_multinomial_score(rng):
    p = np.array([0.4, 0.3, 0.2, 0.1])
    X = rng.poisson(2.0, size=(8, 4)).astype(float)

    def log_p(logits):
        q = softmax(logits)
        return np.array([multinomial.logpmf(x, int(x.sum()), q) for x in X])

    scores = MultinomialFisher(p).scores(X)
    np.testing.assert_allclose(scores, differences(log_p, np.log(p)), atol=1e-7)


def test_multinomial_information_is_that_of_one_word(rng):
    """k = u' I^+ u with I the covariance of the score of a single draw, exactly."""
    p = np.array([0.4, 0.3, 0.2, 0.1])
    kernel = MultinomialFisher(p)
    words = kernel.scores(np.eye(4))
    information = np.einsum("w,wi,wj->ij", p, words, words)
    np.testing.assert_allclose(information, np.diag(p) - np.outer(p, p), atol=1e-15)
    X = rng.poisson(2.0, size=(8, 4)).astype(float)
    U = kernel.scores(X)
    np.testing.assert_allclose(kernel(X), U @ np.linalg.pinv(information) @ U.T, atol=1e-10)


def test_multinomial_probabilities_of_the_first_rows(rng):
    X = rng.poisson(2.0, size=(8, 4)).astype(float)
    p = MultinomialFisher().frozen(X).probabilities
    np.testing.assert_allclose(p, (1.0 + X.sum(axis=0)) / (4.0 + X.sum()))
    twice = MultinomialFisher().frozen(X, np.full(8, 2.0)).probabilities
    np.testing.assert_allclose(twice, MultinomialFisher().frozen(np.vstack([X, X])).probabilities)
    with pytest.raises(ValueError, match=r"call kernel\.frozen"):
        MultinomialFisher()(X)
    with pytest.raises(ValueError, match="for counts"):
        MultinomialFisher().frozen(-X)
    for bad in ([0.5, 0.5], [0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match="4 positive numbers of sum one"):
            MultinomialFisher(np.array(bad))(X)


# ---------------------------------------------------------------------- mixtures
def mixtures(whole):
    pi, means = np.array([0.3, 0.7]), np.array([[-1.0, 0.2], [1.0, 0.5]])
    full = np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.6, -0.1], [-0.1, 1.2]]])
    return MixtureFisher(pi, means, full if whole else np.array([[1.0, 0.5], [0.6, 1.2]]))


def log_density(theta, kernel, X):
    """Log density of the mixture, its parameters moved by theta in the kernel's coordinates."""
    pi, means, given = kernel.weights, kernel.means, kernel.covariances
    c, d = means.shape
    full = given if given.ndim == 3 else given[:, :, None] * np.eye(d)
    parts = np.split(theta, [c, c + c * d, c + 2 * c * d])
    weights = softmax(np.log(pi) + parts[0])
    total = np.zeros(len(X))
    for k in range(c):
        L = np.linalg.cholesky(full[k])
        E = np.diag(parts[2].reshape(c, d)[k])
        if len(parts[3]):
            i, j = np.triu_indices(d, 1)
            E[i, j] = E[j, i] = parts[3].reshape(c, -1)[k]
        mean = means[k] + L @ parts[1].reshape(c, d)[k]
        law = multivariate_normal(mean, L @ (np.eye(d) + E) @ L.T)
        total += weights[k] * law.pdf(X)
    return np.log(total)


@pytest.mark.parametrize("whole", [False, True])
def test_mixture_score(whole, rng):
    kernel = mixtures(whole)
    X = 1.5 * rng.normal(size=(7, 2))
    scores = kernel.scores(X)
    assert scores.shape == (7, 12 if whole else 10)
    theta = np.zeros(scores.shape[1])
    numeric = differences(lambda v: log_density(v, kernel, X), theta)
    np.testing.assert_allclose(scores, numeric, atol=1e-8)


@pytest.mark.parametrize("whole", [False, True])
def test_information_of_separated_components(whole, rng):
    """For components far apart the mean square of the features is one, but for the weights."""
    kernel = mixtures(whole)
    kernel.means = np.array([[-40.0, 0.0], [40.0, 0.0]])
    full = kernel.covariances if whole else kernel.covariances[:, :, None] * np.eye(2)
    parts = [
        rng.multivariate_normal(m, S, size=int(200_000 * w))
        for m, S, w in zip(kernel.means, full, kernel.weights, strict=True)
    ]
    F = kernel.features(np.vstack(parts))
    second = F.T @ F / len(F)
    np.testing.assert_allclose(second[2:, 2:], np.eye(F.shape[1] - 2), atol=0.06)
    # two weights have one degree of freedom: diag(pi) - pi pi', whitened, is a projection
    root = np.sqrt(kernel.weights)
    np.testing.assert_allclose(second[:2, :2], np.eye(2) - np.outer(root, root), atol=0.01)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_of_a_fitted_mixture(kind, rng):
    X = rng.normal(size=(80, 3)) + np.repeat([[0.0], [4.0]], 40, axis=0)
    mixture = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    kernel = MixtureFisher.of(mixture)
    g = kernel.scores(X)[:, :2] + kernel.weights
    np.testing.assert_allclose(g, mixture.predict_proba(X), atol=1e-12)
    U = kernel.scores(X)  # at the maximum of the likelihood the mean score is zero
    if kind in ("full", "diag"):
        assert np.abs(U.mean(axis=0)).max() < 0.02
    with pytest.raises(ValueError, match="not fitted"):
        MixtureFisher.of(GaussianMixture(2))


def test_mixture_refusals(rng):
    X = rng.normal(size=(3, 2))
    good = mixtures(False)
    for name, bad, words in [
        ("weights", np.array([0.5, 0.6]), "sum one"),
        ("means", np.zeros((2, 3)), r"must be \(2, 2\)"),
        ("covariances", np.zeros((2, 2)), "positive definite"),
        ("covariances", np.zeros(2), r"\(2, 2\) or \(2, 2, 2\)"),
        ("information", "diagonal", "'empirical' or an array"),
        ("information", np.ones(3), "10 finite numbers"),
    ]:
        kernel = good.__sklearn_clone__().set_params(**{name: bad})
        with pytest.raises(ValueError, match=words):
            kernel(X)


# ---------------------------------------------------------------------- own scores
def test_information_forms(rng):
    X = rng.normal(size=(50, 3))
    U = X**2 - 1.0
    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])

    def kernel(information):
        return Fisher(lambda X: X**2 - 1.0, information)

    np.testing.assert_allclose(kernel(None)(X), U @ U.T, atol=1e-12)
    np.testing.assert_allclose(kernel(np.array([1.0, 2.0, 4.0]))(X), (U / [1, 2, 4]) @ U.T)
    np.testing.assert_allclose(kernel(A)(X), U @ np.linalg.solve(A, U.T), atol=1e-12)
    frozen = kernel("empirical").frozen(X)
    np.testing.assert_allclose(frozen.information, np.mean(U**2, axis=0))
    w = rng.integers(1, 4, 50)
    np.testing.assert_allclose(
        kernel("empirical").frozen(X, w.astype(float)).information,
        kernel("empirical").frozen(np.repeat(X, w, axis=0)).information,
    )
    with pytest.raises(ValueError, match=r"call kernel\.frozen"):
        kernel("empirical")(X)
    with pytest.raises(ValueError, match="positive definite"):
        kernel(-A)(X)
    with pytest.raises(ValueError, match="one row for each of the 50 points"):
        Fisher(lambda X: X[:3])(X)


def test_a_parameter_without_information_is_left_out(rng):
    X = rng.normal(size=(20, 2))
    kernel = Fisher(lambda X: np.column_stack([X[:, 0], np.zeros(len(X))]), "empirical").frozen(X)
    np.testing.assert_array_equal(kernel.features(X)[:, 1], 0.0)


@pytest.mark.parametrize("name", ["multinomial", "mixture", "empirical"])
def test_in_a_classifier_and_in_files(name, tmp_path, rng):
    X = rng.poisson(2.0, size=(80, 3)).astype(float)
    y = X[:, 0] > X[:, 1]
    mixture = GaussianMixture(2, random_state=0).fit(X)
    kernel = {
        "multinomial": MultinomialFisher(),
        "mixture": MixtureFisher.of(mixture),
        "empirical": MixtureFisher.of(mixture, "empirical"),
    }[name]
    model = MEDClassifier(kernel=kernel, amplitude=1.0).fit(X, y)
    assert model.score(X, y) > 0.85
    save(model, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
