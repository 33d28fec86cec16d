"""Fisher kernels: points are alike if they change a model in the same way; theory (F17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from mercer.core.arrays import Array, as_matrix, is_sparse
from mercer.core.component import Names
from mercer.kernels.base import Kernel, positive
from mercer.kernels.features.fourier import Mapped, not_frozen, rows_of


class ScoreKernel(Mapped, abstract=True):
    """k(x, z) = u(x)' I^-1 u(z), u the score d log p(x | theta) / d theta, I its information.

    A subclass implements ``scores``, u(X) (n, p). ``information`` is None (the identity),
    "empirical" (the mean of u^2 over the first rows seen, for each parameter), or an array: the
    diagonal (p,) or the matrix (p, p). A parameter whose score is zero on all rows is left out.
    """

    information: Any

    def scores(self, X: Any) -> Array:
        """Return the gradients of log p(x | theta) by theta at the rows of X, (n, p)."""
        raise self._unstated("scores(X)", "the gradients of log p(x | theta) by theta, (n, p)")

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        if not isinstance(self.information, str):
            return self
        self._check_word()
        U = self.scores(as_matrix(X))
        return self._restated(information=np.average(U**2, axis=0, weights=weights))

    def features(self, X: Any) -> Any:
        U, given = self.scores(as_matrix(X)), self.information
        if given is None:
            return U
        if isinstance(given, str):
            self._check_word()
            raise not_frozen(self, "information")
        return whitened(U, np.asarray(given, dtype=np.float64), type(self).__name__)

    def width(self, X: Array) -> int | None:
        return int(self.scores(as_matrix(X[:1])).shape[1])

    def _check_word(self) -> None:
        if self.information != "empirical":
            what = "information must be None, 'empirical' or an array"
            raise ValueError(f"{type(self).__name__}: {what}, got {self.information!r}")


class Fisher(ScoreKernel):
    """The Fisher kernel of a model of your own, by its score function: k = u(x)' I^-1 u(z).

    It cannot be written to a model file; write a subclass of :class:`Kernel` for that.

    Parameters
    ----------
    score : callable; takes X (n, d); returns the gradients of log p(x | theta) by theta, (n, p).
    information : None, "empirical", array (p,) or array (p, p), default=None
        The identity; the mean of u^2 over the first rows seen; its diagonal; positive definite.

    References
    ----------
    Jaakkola and Haussler, Exploiting generative models in discriminative classifiers (1999).

    Examples
    --------
    The score of the mean of a Gaussian of variance 4 is (x - mean) / 4, its information 1/4:

    >>> Fisher(lambda X: (X - 1.0) / 4.0, np.array([0.25]))(np.array([[3.0]]), np.array([[5.0]]))
    array([[2.]])
    """

    def __init__(self, score: Callable[[Array], Array], information: Any = None) -> None:
        self.score, self.information = score, information

    @classmethod
    def example(cls) -> Self:
        return cls(_standard_normal, np.array([1.0, 1.0, 1.0, 0.5, 0.5, 0.5]))

    def scores(self, X: Any) -> Array:
        U = np.array(self.score(X), dtype=np.float64, order="C")
        if U.ndim != 2 or len(U) != len(X) or not np.isfinite(U).all():
            raise ValueError(
                "Fisher: the score function must return finite numbers, one row for each of the "
                f"{len(X)} points and one column for each parameter, got shape {U.shape}"
            )
        return U


def whitened(U: Array, information: Array, who: str) -> Array:
    """Return u' I^-1/2 row by row: information is its diagonal (p,), or the matrix (p, p)."""
    p = U.shape[1]
    if information.shape == (p,) and np.isfinite(information).all() and (information >= 0.0).all():
        root = np.sqrt(information)
        return np.asarray(U * np.divide(1.0, root, out=np.zeros(p), where=root > 0.0))
    if information.shape != (p, p) or not np.array_equal(information, information.T):
        raise ValueError(
            f"{who}: information must be {p} finite numbers >= 0, one for each parameter, or a "
            f"symmetric matrix of {p} x {p}, got an array of shape {information.shape}"
        )
    try:
        root = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        raise ValueError(f"{who}: the information matrix must be positive definite") from None
    return np.ascontiguousarray(np.linalg.solve(root, U.T).T, dtype=np.float64)


def _standard_normal(X: Array) -> Array:
    """Score of the means and the log variances of independent standard normal columns."""
    return np.asarray(np.hstack([X, 0.5 * (X**2 - 1.0)]))


class MultinomialFisher(ScoreKernel):
    """Fisher kernel of counts under a multinomial model.

        k(x, z) = sum_j (x_j - |x| p_j) (z_j - |z| p_j) / p_j,     |x| = sum_j x_j

    The score of the logits is x - |x| p and the information of one word diag(p) - p p', exactly.
    Long texts weigh more; see :class:`TFIDF` for a kernel of unit length.

    Parameters
    ----------
    probabilities : array (d,) or None, default=None
        p, positive, with sum one. None: (1 + counts) / (d + all counts) of the first rows seen.

    References
    ----------
    Jaakkola and Haussler (1999); Hofmann, Learning the similarity of documents (2000).

    Examples
    --------
    >>> MultinomialFisher(np.array([0.5, 0.25, 0.25]))(np.array([[2.0, 1.0, 1.0], [4.0, 0, 0]]))
    array([[ 0.,  0.],
           [ 0., 16.]])
    """

    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, probabilities: Array | None = None) -> None:
        self.probabilities = probabilities

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([0.4, 0.3, 0.2, 0.1]))

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.poisson(1.5, size=(n, 4)).astype(float)

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        if self.probabilities is not None:
            return self
        X = counts(as_matrix(X), "MultinomialFisher")
        totals = (np.ones(len(X)) if weights is None else weights) @ X
        return self._restated(probabilities=(1.0 + totals) / (X.shape[1] + totals.sum()))

    def width(self, X: Array) -> int | None:
        return int(X.shape[1])

    def scores(self, X: Any) -> Array:
        X = counts(as_matrix(X), "MultinomialFisher")
        return np.asarray(X - X.sum(axis=1, keepdims=True) * self._p(X.shape[1]))

    def features(self, X: Any) -> Any:
        # on scores, which sum to zero, the pseudo-inverse of diag(p) - p p' is diag(1/p)
        X = as_matrix(X)
        return self.scores(X) / np.sqrt(self._p(X.shape[1]))

    def _p(self, d: int) -> Array:
        if self.probabilities is None:
            raise not_frozen(self, "probabilities")
        p = np.asarray(self.probabilities, dtype=np.float64)
        if p.shape != (d,) or not (p > 0.0).all() or abs(p.sum() - 1.0) > 1e-8:
            raise ValueError(
                f"MultinomialFisher: probabilities must be {d} positive numbers of sum one, one "
                f"for each of the columns, got {self.probabilities!r}"
            )
        return p


class MixtureFisher(ScoreKernel):
    """Fisher kernel of a Gaussian mixture: which components explain a point, and where it lies.

    With g_k the probability that component k made the point, covariance L_k L_k' and
    v_k = L_k^-1 (x - mean_k), the scores are those of

        the logits of the weights      g_k - pi_k
        the mean, as L_k times m       g_k v_k
        the covariance, as L_k (1 + E) L_k'     g_k (v_ki^2 - 1) / 2,  and g_k v_ki v_kj for i < j
                                       where the covariances are whole matrices

    in that order, component after component. The information is that of separated components,
    pi_k times 1, 1/2, 1 and diag(pi) - pi pi' for the weights; or ``information="empirical"`` takes
    the mean squares over the first rows seen.

    Parameters
    ----------
    weights : array (c,); probabilities of the components, positive, with sum one.
    means : array (c, d); in the units of the inputs.
    covariances : array (c, d) or (c, d, d); positive variances, or positive definite matrices.
    information : None, "empirical" or array (p,), default=None; None: that of separated components.

    References
    ----------
    Perronnin and Dance, Fisher kernels on visual vocabularies for image categorization (2007).

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [6.0]], 30, axis=0)
    >>> kernel = MixtureFisher.of(GaussianMixture(2, covariance_type="diag", random_state=0).fit(X))
    >>> kernel.features(X).shape  # 2 weights, 4 means, 4 variances
    (60, 10)
    """

    def __init__(
        self, weights: Array, means: Array, covariances: Array, information: Any = None
    ) -> None:
        self.weights = weights
        self.means = means
        self.covariances = covariances
        self.information = information

    @classmethod
    def of(cls, mixture: Any, information: Any = None) -> Self:
        """Return the kernel of a fitted ``GaussianMixture`` of scikit-learn, of any type."""
        if not hasattr(mixture, "covariances_"):
            raise ValueError("the mixture is not fitted: call its fit(X) first")
        means, given = np.array(mixture.means_), np.array(mixture.covariances_)
        if mixture.covariance_type == "spherical":
            given = np.repeat(given[:, None], means.shape[1], axis=1)
        elif mixture.covariance_type == "tied":
            given = np.repeat(given[None], len(means), axis=0)
        return cls(np.array(mixture.weights_), means, given, information)

    @classmethod
    def example(cls) -> Self:
        means = np.array([[-1.0, 0.0, 0.5], [1.0, 0.5, -0.5]])
        return cls(np.array([0.3, 0.7]), means, np.array([[1.0, 0.5, 2.0], [0.7, 1.0, 1.2]]))

    def scores(self, X: Any) -> Array:
        X = as_matrix(X)
        pi, means, roots = self._checked(X.shape[1])
        V = np.stack([np.linalg.solve(L, (X - m).T).T for L, m in zip(roots, means, strict=True)])
        logs = np.log(pi)[:, None] - 0.5 * np.sum(V**2, axis=2)
        logs -= np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)[:, None]
        g = np.exp(logs - np.logaddexp.reduce(logs, axis=0))  # (c, n)
        blocks = [g.T - pi, *(g[k][:, None] * V[k] for k in range(len(pi)))]
        blocks += [0.5 * g[k][:, None] * (V[k] ** 2 - 1.0) for k in range(len(pi))]
        if self._whole():
            i, j = np.triu_indices(X.shape[1], 1)
            blocks += [g[k][:, None] * V[k][:, i] * V[k][:, j] for k in range(len(pi))]
        return np.hstack(blocks)

    def features(self, X: Any) -> Any:
        if self.information is not None:
            return super().features(X)
        X = as_matrix(X)
        pi, d = self._checked(X.shape[1])[0], X.shape[1]
        info = [pi, np.repeat(pi, d), np.repeat(0.5 * pi, d)]
        if self._whole():
            info.append(np.repeat(pi, d * (d - 1) // 2))
        # for the weights the pseudo-inverse of diag(pi) - pi pi', on scores of sum zero
        return whitened(self.scores(X), np.concatenate(info), "MixtureFisher")

    def _whole(self) -> bool:
        return np.ndim(self.covariances) == 3

    def _checked(self, d: int) -> tuple[Array, Array, Array]:
        """Return weights (c,), means (c, d) and lower roots of the covariances (c, d, d)."""
        stated = (self.weights, self.means, self.covariances)
        pi, means, given = (np.asarray(a, dtype=np.float64) for a in stated)
        c = pi.size
        if pi.shape != (c,) or not (pi > 0.0).all() or abs(pi.sum() - 1.0) > 1e-8:
            raise ValueError(
                f"MixtureFisher: weights must be positive numbers of sum one, got {self.weights!r}"
            )
        if means.shape != (c, d) or given.shape not in ((c, d), (c, d, d)):
            raise ValueError(
                f"MixtureFisher: for {c} weights and inputs of {d} columns the means must be "
                f"({c}, {d}) and the covariances ({c}, {d}) or ({c}, {d}, {d}); they are "
                f"{means.shape} and {given.shape}"
            )
        try:
            full = given if given.ndim == 3 else given[:, :, None] * np.eye(d)
            return pi, means, np.asarray(np.linalg.cholesky(full), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise ValueError("MixtureFisher: covariances must be positive definite") from None


class TFIDF(Mapped):
    """Kernel of counts: k(x, z) = phi(x)'phi(z), phi(x) = log(1 + x) idf, at unit length.

    It approximates the Fisher kernel of the Dirichlet compound multinomial, a model in which a word
    that occurred once is likely to occur again. A row of zeros has k = 0, with itself as well. X
    may be sparse where an estimator takes sparse rows.

        idf_j = log((1 + n) / (1 + n_j)) + 1,   n rows, of which n_j hold word j

    Parameters
    ----------
    idf : float, array (d,) or None, default=None; positive; None: from the first rows seen.

    References
    ----------
    Elkan, Deriving TF-IDF as a Fisher kernel (2005). The smoothed idf is scikit-learn's.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    >>> TFIDF().frozen(X)(X[:1], X).round(3)
    array([[1.   , 0.154, 0.   ]])
    """

    names: ClassVar[Names] = {}  # by itself it does not describe a table
    takes_sparse = True

    def __init__(self, idf: float | Array | None = None) -> None:
        self.idf = idf

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([1.2, 2.0, 1.0, 1.7]))

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.poisson(0.8, size=(n, 4)).astype(float)

    def frozen(self, X: Any, weights: Array | None = None) -> Self:
        if self.idf is not None:
            return self
        X = counts(X, "TFIDF")
        w = np.ones(X.shape[0]) if weights is None else weights
        return self._restated(idf=np.log((1.0 + w.sum()) / (1.0 + (X > 0).T @ w)) + 1.0)

    def width(self, X: Array) -> int | None:
        return int(X.shape[1])

    def features(self, X: Any) -> Any:
        if self.idf is None:
            raise not_frozen(self, "idf")
        X = counts(X, "TFIDF")
        idf = positive(self, "idf", X.shape[1])
        F = X.log1p() if is_sparse(X) else np.log1p(X)
        F = F * idf
        square = np.asarray((F * F).sum(axis=1), dtype=np.float64).ravel()
        length = np.sqrt(np.where(square > 0.0, square, 1.0))[:, None]
        return csr_array(F / length) if is_sparse(F) else F / length


def counts(X: Any, who: str) -> Any:
    """Return X (n, d), none of it negative; sparse rows as a CSR array."""
    X = csr_array(X, dtype=np.float64) if is_sparse(X) else rows_of(X)
    low = X.data.min(initial=0.0) if is_sparse(X) else X.min(initial=0.0)
    if low < 0.0:
        remedy = "give the counts themselves, neither standardised nor transformed"
        raise ValueError(f"{who} is for counts, and the inputs reach down to {low:.6g}; {remedy}")
    return X
