"""The classifiers that are compared: one kernel, one start, one optimum to find.

Each is a function (X (n, d), labels -1 or +1 (n,)) -> figures: the log evidence at the start (the
same in every library, or the models differ), the one reached, and the evaluations it took. All
start at variance 1 and length scales 1, without restarts, and stop by rules of their own defaults;
mercer's is set to that of SciPy, which scikit-learn and GPy use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Fit: TypeAlias = Callable[[np.ndarray, np.ndarray], dict[str, Any]]
TOL = 1e7 * float(np.finfo(float).eps)  # SciPy's ftol of L-BFGS-B


def problem(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and labels -1 or +1 from a smooth function of six columns, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2 % d] + np.cos(X[:, 3 % d]) - 0.9
    f += 0.3 * X[:, 4 % d] ** 2 + 0.2 * X[:, 5 % d]
    return X, np.where(f + 0.3 * rng.logistic(size=n) > 0.0, 1.0, -1.0)


def mercer(inference: str, loss: str, max_iter: int = 200) -> Fit:
    """Return the fit of mercer's GPClassifier with an inference and a loss."""

    def fit(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        from mercer import GPClassifier
        from mercer.kernels import RBF
        from mercer.search import Optimize

        class First:
            value: float | None = None

            def __call__(self, event: dict[str, Any]) -> None:
                self.value = event["best"] if self.value is None else self.value

        first = First()
        search = Optimize(restarts=0, tol=TOL, max_iter=max_iter, progress=first)
        kernel = 1.0 * RBF(length_scale=np.ones(X.shape[1]))
        model = GPClassifier(
            kernel, loss=loss, inference=inference, search=search, standardize=False
        ).fit(X, y)
        report = model.report_["search"]
        return {
            "at the start": first.value,
            "log evidence": model.log_evidence_,
            "evaluations": report["evaluations"],
            "factorisations": report["factorisations"]["median"],
            "cold": model.report_["inference"]["factorisations"],
        }

    return fit


def scikit_learn(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """GaussianProcessClassifier: Laplace, logistic."""
    from scipy.optimize import minimize
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    found = []

    def optimizer(objective: Any, start: np.ndarray, bounds: np.ndarray) -> Any:
        """Its own call of SciPy, so that the evaluations can be read."""
        result = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=bounds)
        found.append(result)
        return result.x, result.fun

    kernel = ConstantKernel() * RBF(np.ones(X.shape[1]))
    model = GaussianProcessClassifier(kernel, optimizer=optimizer).fit(X, y)
    return {
        "at the start": float(model.base_estimator_.log_marginal_likelihood(kernel.theta)),
        "log evidence": float(model.log_marginal_likelihood_value_),
        "evaluations": int(found[0].nfev),
    }


def gpboost(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """GPModel: Laplace, logistic, Gaussian kernel exp(-(r / range)^2) with a range per column."""
    from gpboost import GPModel

    labels, start = (y + 1.0) / 2.0, np.array([1.0, *np.full(X.shape[1], np.sqrt(2.0))])
    model = GPModel(
        gp_coords=X,
        cov_function="gaussian_ard",
        likelihood="bernoulli_logit",
        num_parallel_threads=1,
    )
    first = -float(model.neg_log_likelihood(cov_pars=start, y=labels))
    model.fit(labels, params={"init_cov_pars": start, "trace": False})
    return {
        "at the start": first,
        "log evidence": -float(model.get_current_neg_log_likelihood()),
        "iterations": int(model._get_num_optim_iter()),
    }


def gpy(method: str) -> Fit:
    """Return the fit of GPy with "Laplace" or "EP"; Bernoulli with a probit link."""

    def fit(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        import GPy

        model = GPy.core.GP(
            X,
            (y[:, None] + 1.0) / 2.0,
            kernel=GPy.kern.RBF(X.shape[1], ARD=True),
            likelihood=GPy.likelihoods.Bernoulli(),
            inference_method=getattr(GPy.inference.latent_function_inference, method)(),
        )
        first = float(model.log_likelihood())
        run = model.optimize()
        return {
            "at the start": first,
            "log evidence": float(model.log_likelihood()),
            "evaluations": int(run.funct_eval),
        }

    return fit


FITS: dict[str, Fit] = {
    "mercer Laplace logistic": mercer("laplace", "logistic"),
    "mercer Laplace probit": mercer("laplace", "probit"),
    "mercer EP probit": mercer("ep", "probit"),
    "mercer Variational logistic": mercer("variational", "logistic"),
    "scikit-learn": scikit_learn,
    "gpboost": gpboost,
    "GPy Laplace": gpy("Laplace"),
    "GPy EP": gpy("EP"),
}
