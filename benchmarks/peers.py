"""One evidence and gradient, by mercer and by each peer, at the same hyperparameters.

Each class is built from X (n, d) and y (n,), and called with theta = log of (variance, the d length
scales, noise variance), shape (d + 2,); it returns the log evidence and its gradient in theta.
The model is y ~ N(0, variance * RBF + noise * I).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Answer: TypeAlias = tuple[float, np.ndarray]


class Mercer:
    """mercer's EvidenceCriterion with exact inference."""

    package = "mercer"

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        from mercer.inference import Exact
        from mercer.kernels import RBF
        from mercer.losses import Gaussian
        from mercer.search import EvidenceCriterion, Space, simple_problem

        kernel = 1.0 * RBF(length_scale=np.ones(X.shape[1]))
        space = Space({"kernel": kernel, "loss": Gaussian(noise=1.0)})
        self.criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact())

    def __call__(self, theta: np.ndarray) -> Answer:
        return self.criterion(theta)


class ScikitLearn:
    """log_marginal_likelihood(theta, eval_gradient=True) of GaussianProcessRegressor."""

    package = "scikit-learn"

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
        self.model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
        self.model.fit(X[:2], y[:2])
        self.model.X_train_, self.model.y_train_ = X, y

    def __call__(self, theta: np.ndarray) -> Answer:
        value, gradient = self.model.log_marginal_likelihood(
            theta, eval_gradient=True, clone_kernel=False
        )
        return float(value), gradient


class GPy:
    """GPRegression with an ARD RBF, by the objective its optimiser calls."""

    package = "GPy"

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        import GPy

        kernel = GPy.kern.RBF(X.shape[1], ARD=True)
        self.model = GPy.models.GPRegression(X, y[:, None], kernel)

    def __call__(self, theta: np.ndarray) -> Answer:
        model, values = self.model, np.exp(theta)
        raw = np.where(values > 36, values, np.log(np.expm1(values)))  # its softplus, inverted
        loss, slope = model._objective_grads(raw)
        return -float(loss), -slope * values / -np.expm1(-values)


class GPyTorch:
    """ExactGP by Cholesky in float64, no iterative approximation; backward() for the slope."""

    package = "gpytorch"

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        import gpytorch
        import torch

        torch.set_num_threads(1)
        points, targets = torch.from_numpy(X), torch.from_numpy(y)
        covariance = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
        )

        class Model(gpytorch.models.ExactGP):
            def __init__(self, likelihood: Any) -> None:
                super().__init__(points, targets, likelihood)
                self.mean_module = gpytorch.means.ZeroMean()
                self.covar_module = covariance

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.Positive()
        )
        self.model = Model(self.likelihood).double().train()
        self.likelihood.double().train()
        self.mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        self.points, self.targets = points, targets

    def __call__(self, theta: np.ndarray) -> Answer:
        import gpytorch
        import torch

        values = torch.from_numpy(np.exp(theta))
        model, exact = self.model, gpytorch.settings
        model.covar_module.outputscale = values[0]
        model.covar_module.base_kernel.lengthscale = values[None, 1:-1]
        self.likelihood.noise = values[-1:]
        model.zero_grad()
        with (
            exact.max_cholesky_size(10**9),
            exact.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),
        ):
            value = self.mll(model(self.points), self.targets) * len(self.targets)
            value.backward()
        raw = (
            model.covar_module.raw_outputscale,
            model.covar_module.base_kernel.raw_lengthscale,
            self.likelihood.noise_covar.raw_noise,
        )
        slope = torch.cat([(r.grad / torch.sigmoid(r)).detach().ravel() for r in raw])
        return value.item(), (slope * values).numpy()


class Floor:
    """What cannot be avoided: one Gram matrix (mercer's), LAPACK potrf and potri in its place."""

    package = "scipy"

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X = X

    def __call__(self, theta: np.ndarray) -> None:
        from scipy.linalg import lapack

        from mercer.kernels import RBF

        values = np.exp(theta)
        K = RBF(length_scale=values[1:-1])(self.X)
        K.ravel()[:: len(K) + 1] += values[-1]
        factor, _ = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
        lapack.dpotri(factor, lower=1, overwrite_c=1)


PEERS: dict[str, Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], Any]]] = {
    "mercer": Mercer,
    "scikit-learn": ScikitLearn,
    "GPy": GPy,
    "GPyTorch": GPyTorch,
    "floor": Floor,
}


def version(name: str) -> str | None:
    """Return the installed version of a peer, or None."""
    if name not in PEERS:
        raise ValueError(f"unknown peer {name!r}; known are {', '.join(PEERS)}")
    try:
        return importlib.metadata.version(PEERS[name].package)  # type: ignore[attr-defined]
    except importlib.metadata.PackageNotFoundError:
        return None


def problem(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X (n, d), y (n,) and typical hyperparameters theta (d + 2,) for the benchmarks.

    y is a smooth function of six of the columns plus noise, standardised; the rest are irrelevant.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2 % d] + np.cos(X[:, 3 % d])
    f += 0.3 * X[:, 4 % d] ** 2 + 0.2 * X[:, 5 % d]
    y = f + 0.3 * rng.standard_normal(n)
    y = (y - y.mean()) / y.std()
    theta = np.log([1.2, *np.linspace(1.5, 4.0, d), 0.08])
    return X, y, theta
