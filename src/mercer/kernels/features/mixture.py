"""MixtureFisher: the Fisher kernel of a mixture of Gaussians."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.core.arrays import Array, as_matrix
from mercer.kernels.features.fisher import ScoreKernel, whitened


class MixtureFisher(ScoreKernel):
    """Fisher kernel of a Gaussian mixture: which components explain a point, and where it lies.

    With g_k the probability that component k made the point, covariance L_k L_k' and
    v_k = L_k^-1 (x - mean_k), the scores are those of

        the logits of the weights      g_k - pi_k
        the mean, as L_k times m       g_k v_k
        the covariance, as L_k (1 + E) L_k'     g_k (v_ki^2 - 1) / 2,  and g_k v_ki v_kj for i < j
                                       where the covariances are whole matrices

    in that order, component after component. The kernel does not depend on the choice of these
    parameters as long as the information is exact. It is not: the components are taken as
    separated, which makes it pi_k times 1, 1, 1/2, 1 and diag(pi) - pi pi' for the weights; or
    ``information="empirical"`` takes the mean squares over the first rows seen.

    Parameters
    ----------
    weights : array (c,)
        Probabilities of the components, positive, with sum one.
    means : array (c, d)
        In the units of the inputs.
    covariances : array (c, d) or (c, d, d)
        Positive variances, or positive definite matrices.
    information : None, "empirical" or array (p,), default=None
        None is the information of separated components.

    References
    ----------
    Jaakkola and Haussler, Exploiting generative models in discriminative classifiers (1999);
    Perronnin and Dance, Fisher kernels on visual vocabularies for image categorization (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> from mercer.kernels import MixtureFisher
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
        """Return the kernel of a fitted ``GaussianMixture`` of scikit-learn, of any type.

        Spherical covariances count as diagonal ones, tied ones as whole matrices of their own.
        """
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
        blocks = [g.T - pi]
        blocks += [g[k][:, None] * V[k] for k in range(len(pi))]
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
        sizes = (1.0, 0.5, 1.0) if self._whole() else (1.0, 0.5)
        counts = (d, d, d * (d - 1) // 2)
        info = [pi] + [
            np.repeat(size * pi, n) for size, n in zip(sizes, counts, strict=False)
        ]  # for the weights the pseudo-inverse of diag(pi) - pi pi', on scores of sum zero
        return whitened(self.scores(X), np.concatenate(info), "MixtureFisher")

    def _whole(self) -> bool:
        return np.ndim(self.covariances) == 3

    def _checked(self, d: int) -> tuple[Array, Array, Array]:
        """Return weights (c,), means (c, d) and lower roots of the covariances (c, d, d)."""
        pi = np.asarray(self.weights, dtype=np.float64)
        means = np.asarray(self.means, dtype=np.float64)
        given = np.asarray(self.covariances, dtype=np.float64)
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
