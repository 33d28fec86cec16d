"""Losses with one mistake each, beside the parent without it and the clause that must name it."""

from __future__ import annotations

import numpy as np

from mercer.losses import Gaussian, Logistic, Loss, Poisson, Softmax, StudentT


class Parent(Loss):
    """Noise with density sech(r) / pi: its value, and what is true of it."""

    normalised = True

    def value(self, y, f):
        r = np.asarray(y) - f
        return np.logaddexp(r, -r) + np.log(np.pi / 2)


class WrongFirst(Logistic):
    def derivatives(self, y, f):
        d1, d2, d3 = super().derivatives(y, f)
        return 1.01 * d1, d2, d3


class WrongThird(Logistic):
    def derivatives(self, y, f):
        d1, d2, d3 = super().derivatives(y, f)
        return d1, d2, -d3


class NotNormalised(Parent):
    def value(self, y, f):
        return super().value(y, f) - np.log(np.pi / 2)


class WrongMoments(Poisson):
    def moments(self, f):
        mean, variance = super().moments(f)
        return mean, 1.1 * variance


class WrongCdf(Gaussian):
    def cdf(self, y, m, v):
        return super().cdf(y, m, 1.1 * np.asarray(v))


class WrongQuantile(Gaussian):
    def quantile(self, q, m, v):
        return super().quantile(q, m, v) + 0.01


class WrongConvex(StudentT):
    convex = True


class WrongMean(Poisson):
    latent_is_mean = True


class WrongBound(Logistic):
    def quadratic_bound(self, y, xi):
        lam, z, c = super().quadratic_bound(y, xi)
        return 0.9 * lam, z, c


class WrongConjugate(Logistic):
    def conjugate(self, y, u):
        return super().conjugate(y, u) + 1e-3


class WrongTilted(Logistic):
    def tilted(self, y, m, v):
        log_z, first, second = super().tilted(y, m, v)
        return log_z + 1e-4, first, second


class WrongExpected(Logistic):
    def expected(self, y, m, v):
        mean, dm, dv = super().expected(y, m, v)
        return mean, dm, 1.001 * dv


class WrongLogPredictive(Poisson):
    def log_predictive(self, y, m, v):
        return super().log_predictive(y, m, v) + 1e-4


class Overflows(Parent):
    def value(self, y, f):
        with np.errstate(over="ignore"):
            return np.log(np.pi * np.cosh(np.asarray(y) - f))


class WrongSoftmax(Softmax):
    def derivatives(self, y, f):
        d1, d2, d3 = super().derivatives(y, f)
        return d1, d2 * np.eye(f.shape[-1]), d3


PARENTS = [Parent(), Logistic(), Poisson(), Gaussian(0.3), StudentT(0.4), Softmax()]
PLANTED = [
    (WrongFirst(), "first derivative"),
    (WrongThird(), "third derivative"),
    (NotNormalised(), "normalised"),
    (WrongMoments(), "moments"),
    (WrongCdf(0.3), "cdf"),
    (WrongQuantile(0.3), "quantile"),
    (WrongConvex(0.4), "convex"),
    (WrongMean(), "latent_is_mean"),
    (WrongBound(), "quadratic_bound"),
    (WrongConjugate(), "conjugate"),
    (WrongTilted(), "tilted"),
    (WrongExpected(), "expected"),
    (WrongLogPredictive(), "log_predictive"),
    (Overflows(), "far out"),
    (WrongSoftmax(), "softmax second derivative"),
]
