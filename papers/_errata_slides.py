"""Evidence for the errata of Smola's slides: S1 to S11 of docs/papers/errata.md."""

from __future__ import annotations

import numpy as np
from _errata_check import Check, evidence
from scipy import integrate, special

from mercer import GPClassifier, GPRegressor, KernelClassifier
from mercer.kernels import RBF
from mercer.losses import Gaussian


@evidence
def s1() -> Check:
    def mass(power: int) -> float:
        constant = 1 / np.sqrt(2 * np.pi)
        return integrate.quad(lambda x: constant * np.exp(-(x**power) / 2), -10, 10)[0]

    return Check(
        "mass of the density on [-10, 10], mean 0, variance 1", 1.0, mass(1), mass(2), 1e-8
    )


@evidence
def s2() -> Check:
    def mass(power: float) -> float:  # Sigma = diag(4, 9), a product of two integrals
        both = np.prod(
            [integrate.quad(lambda x, v=v: np.exp(-x * x / v / 2), -60, 60)[0] for v in (4, 9)]
        )
        return float(both / (2 * np.pi) * 36.0**power)

    return Check("mass of the density for Sigma = diag(4, 9)", 1.0, mass(-1.0), mass(-0.5), 1e-8)


@evidence
def s3() -> Check:
    both = [integrate.quad(lambda x, v=v: np.exp(-x * x / v / 2), -60, 60)[0] for v in (4, 9)]
    mass = float(np.prod(both) / (2 * np.pi))
    return Check("mass of the product form, Lambda = diag(4, 9)", 1.0, mass, mass / 6.0, 1e-8)


@evidence
def s4() -> Check:
    a, b = np.random.default_rng(0).uniform(size=(2, 200_000))
    r = np.sqrt(-2 * np.log(a))
    printed, found = (np.var(r * np.sin(angle)) for angle in (b / (2 * np.pi), 2 * np.pi * b))
    return Check("variance of what the code draws", 1.0, printed, found, 0.02)


@evidence
def s5() -> Check:
    X = np.linspace(0, 3, 6)[:, None]
    new = np.array([[1.3]])
    kernel, noise = 5.5 * RBF(1.0), 0.1
    K = np.linalg.solve(kernel(X) + noise * np.eye(6), kernel(X, new))
    gain = float((kernel(new, X) @ K)[0, 0])
    # an independent way: the conditional variance is 1 / the last entry of the inverse
    joint = kernel(np.vstack([X, new])) + noise * np.eye(7)
    truth = 1 / np.linalg.inv(joint)[-1, -1]
    model = GPRegressor(kernel, loss=Gaussian(noise), search=None).fit(X, X[:, 0])
    found = float(model.predict(new, return_std=True)[1][0] ** 2)
    return Check("predictive variance (prior 5.6)", truth, 5.5 + noise + gain, found, 1e-8)


@evidence
def s7() -> Check:
    X = np.linspace(-2, 2, 8)[:, None]
    y = np.sign(X[:, 0])

    def share(labels: np.ndarray) -> float:
        machine = KernelClassifier(4.0 * RBF(1.0), loss="logistic", basis=None, search=None)
        return float(np.mean(machine.fit(X, labels).decision_function(X) * y > 0))

    # log(1 + exp(y f)) is the logistic loss of the label -y
    return Check("share of separable rows on their side", 1.0, share(-y), share(y))


@evidence
def s8() -> Check:
    theta, x = 0.7, 0.9
    truth = np.exp(x * theta) / (np.exp(x * theta) + np.exp(-x * theta))  # features +-x
    what = "P(+1) of the exponential family with features y x, as a logistic function of 2 x theta"
    return Check(what, truth, special.expit(x * theta), special.expit(2 * x * theta))


@evidence
def s9() -> Check:
    new = np.array([[0.0]])

    def std(at: float, target: float) -> float:
        X = np.array([[at], [2.0]])
        model = GPRegressor(RBF(1.0), loss=Gaussian(0.1), search=None).fit(
            X, np.array([target, 1.0])
        )
        return float(model.predict_latent(new)[1][0])

    what = "change of the deviation as an input moves by 1 (as a target does: 0)"
    assert std(0.5, 1.0) == std(0.5, -3.0)
    return Check(what, std(1.5, 1.0) - std(0.5, 1.0), 0.0, None)


@evidence
def s11() -> Check:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 1))
    y = np.where(X[:, 0] > 0, 1, -1)
    model = GPClassifier(9.0 * RBF(1.0), loss="logistic", inference="laplace", search=None).fit(
        X, y
    )
    new = np.array([[2.5]])
    mean, std = (float(part[0]) for part in model.predict_latent(new))
    draws = special.expit(mean + std * rng.normal(size=400_000))
    found = float(model.predict_proba(new)[0, 1])
    what = "P(+1) at x = 2.5 (truth: mean over draws of the latent value)"
    return Check(what, draws.mean(), special.expit(mean), found, 2e-3)
