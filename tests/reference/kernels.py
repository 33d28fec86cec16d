"""Kernels again, slow and obvious: one pair of points at a time, straight from the formulas."""

from __future__ import annotations

import copy
from itertools import pairwise
from math import asin, cos, exp, gamma, pi, prod, sin, sqrt

import numpy as np
from scipy.integrate import quad
from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.special import j0, jn_zeros, kv


def gram(function, X, Z):
    """Matrix of function(x, z) over all pairs."""
    return np.array([[function(x, z) for z in Z] for x in X])


def scaled_distance(x, z, length_scale):
    scales = np.broadcast_to(length_scale, len(x))
    return sqrt(sum(((a - b) / s) ** 2 for a, b, s in zip(x, z, scales, strict=True)))


def rbf(x, z, length_scale=1.0):
    return exp(-(scaled_distance(x, z, length_scale) ** 2) / 2)


def matern(x, z, nu, length_scale=1.0):
    r = sqrt(2 * nu) * scaled_distance(x, z, length_scale)
    return 1.0 if r == 0 else 2 ** (1 - nu) / gamma(nu) * r**nu * kv(nu, r)


def rational_quadratic(x, z, alpha, length_scale=1.0):
    return (1 + scaled_distance(x, z, length_scale) ** 2 / (2 * alpha)) ** -alpha


def separable(x, z, nu, length_scale=1.0, share=1.0):
    """One factor after the other; nu = inf: squared exponentials."""
    d, k = len(x), 1.0
    scales, shares = np.broadcast_to(length_scale, d), np.broadcast_to(share, d)
    for j in range(d):
        one = (x[j : j + 1], z[j : j + 1])
        m = rbf(*one, scales[j]) if np.isinf(nu) else matern(*one, nu, scales[j])
        k *= 1.0 - shares[j] + shares[j] * m
    return k


def wendland(x, z, dims, q, length_scale=1.0):
    r, j = scaled_distance(x, z, length_scale), dims // 2 + q + 1
    if r >= 1:
        return 0.0
    polynomial = {
        0: 1.0,
        1: (j + 1) * r + 1,
        2: ((j**2 + 4 * j + 3) * r**2 + (3 * j + 6) * r + 3) / 3,
        3: (
            (j**3 + 9 * j**2 + 23 * j + 15) * r**3
            + (6 * j**2 + 36 * j + 45) * r**2
            + (15 * j + 45) * r
            + 15
        )
        / 15,
    }[q]
    return (1 - r) ** (j + q) * polynomial


def periodic(x, z, period, length_scale):
    d = len(x)
    p, s = np.broadcast_to(period, d), np.broadcast_to(length_scale, d)
    return exp(-2 * sum(sin(pi * (x[i] - z[i]) / p[i]) ** 2 / s[i] ** 2 for i in range(d)))


def cosine(x, z, period):
    p = np.broadcast_to(period, len(x))
    return prod(cos(2 * pi * (x[i] - z[i]) / p[i]) for i in range(len(x)))


def linear(x, z, weight=1.0, centre=0.0):
    d = len(x)
    w, c = np.broadcast_to(weight, d), np.broadcast_to(centre, d)
    return sum(w[i] * (x[i] - c[i]) * (z[i] - c[i]) for i in range(d))


def polynomial(x, z, degree, offset, weight):
    return (offset + linear(x, z, weight)) ** degree


def arcsine(x, z, weight, bias):
    """Equation (4.29) with the augmented vectors (1, x) and Sigma = diag(bias, weight)."""
    sigma = np.diag([bias, *np.broadcast_to(weight, len(x))])
    u, v = np.array([1.0, *x]), np.array([1.0, *z])
    top = 2 * u @ sigma @ v
    return 2 / pi * asin(top / sqrt((1 + 2 * u @ sigma @ u) * (1 + 2 * v @ sigma @ v)))


def categorical(x, z, correlation):
    c = np.broadcast_to(correlation, len(x))
    return prod(1.0 if x[i] == z[i] else c[i] for i in range(len(x)))


def thesis(x, z, w, v, C):
    """Kernel (4.22) of Seeger's thesis."""
    d = len(x)
    w = np.broadcast_to(w, d)
    return C * (exp(-sum(w[k] * (x[k] - z[k]) ** 2 for k in range(d)) / (2 * d)) + v)


def thesis_gradient(X, Gamma, w, v, C):
    """The expanded gradient by log w, log v, log C for a symmetric Gamma = dF/dK (k of X alone)."""
    n, d = X.shape
    E = gram(lambda x, z: thesis(x, z, w, 0.0, 1.0), X, X)
    M = Gamma * (C * E)
    rho = M @ np.ones(n)
    by_w = [-(w[k] / d) * (rho @ X[:, k] ** 2 - X[:, k] @ M @ X[:, k]) for k in range(d)]
    return np.array(by_w), C * v * Gamma.sum(), (Gamma * (C * (E + v))).sum()


def operator(coefficients, dims, r):
    """Green's function of P(-laplacian) by quadrature over the frequency w = 2 pi |s|."""

    def density(w):
        return 1.0 / sum(a * w ** (2 * m) for m, a in enumerate(coefficients))

    if r == 0:
        sphere = 2 * pi ** (dims / 2) / gamma(dims / 2) / (2 * pi) ** dims
        return sphere * quad(lambda w: density(w) * w ** (dims - 1), 0, np.inf, epsabs=1e-13)[0]
    if dims == 1:
        value = quad(density, 0, np.inf, weight="cos", wvar=r, epsabs=1e-12, limlst=300)[0]
        return value / pi
    if dims == 3:
        f = quad(lambda w: w * density(w), 0, np.inf, weight="sin", wvar=r, epsabs=1e-12)[0]
        return f / (2 * pi**2 * r)
    assert dims == 2
    zeros = [0.0, *(jn_zeros(0, 60) / r)]
    pieces = [quad(lambda w: density(w) * w * j0(w * r), a, b)[0] for a, b in pairwise(zeros)]
    sums = np.cumsum(pieces)
    while len(sums) > 40:  # averaging the alternating tail
        sums = (sums[1:] + sums[:-1]) / 2
    return sums[-1] / (2 * pi)


def state_space(q, r):
    """The operator kernel with roots z_j = -q_j^2, a_M = 1, as an autoregressive process."""
    M, c = len(q), np.poly(-np.asarray(q)).real
    F, noise = np.eye(M, k=1), np.zeros((M, M))
    F[-1] = -c[:0:-1]
    noise[-1, -1] = 1.0
    stationary = solve_continuous_lyapunov(F, -noise)
    return np.array([(expm(F * t) @ stationary)[0, 0] for t in r])


def numeric_pullback(kernel, X, Z, Q, step=1e-3):
    """d<Q, k(X, Z)> by five-point differences in every entry of every parameter."""
    moved = copy.deepcopy(kernel)
    found = {}
    for path, owner, name in moved.differentiable():
        value = np.array(getattr(owner, name), dtype=float)
        result = np.empty(value.shape)
        for i in np.ndindex(value.shape):
            h = step * max(abs(float(value[i])), 0.01)
            total = 0.0
            for times, c in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
                at = value.copy()
                at[i] += times * h
                setattr(owner, name, at if at.ndim else float(at))
                total += c * (Q * moved(X, Z)).sum()
            result[i] = total / (12 * h)
        setattr(owner, name, value if value.ndim else float(value))
        found[path] = result
    return found


def assert_pullback(kernel, X, Z, Q, tol=1e-6, step=1e-3):
    """The stated gradient has every path, the parameter's shape, and agrees with differences."""
    value, stated = kernel._value_and_pullback(X, Z, Q)
    assert stated.keys() == kernel.pullback(X, Z, Q).keys()
    size = np.abs(Q * kernel(X, Z)).sum()
    assert abs(value - (Q * kernel(X, Z)).sum()) <= 1e-11 * size + 1e-300
    numeric = numeric_pullback(kernel, X, Z, Q, step)
    assert stated.keys() == numeric.keys()
    for path, reference in numeric.items():
        given = np.asarray(stated[path])
        assert given.shape == reference.shape, path
        error = np.abs(given - reference).max()
        assert error <= tol * np.abs(reference).max() + 1e-10 * size, (kernel, path, error)
