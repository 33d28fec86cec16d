"""Sollich's generative model of the support vector classifier: a likelihood for the bare hinge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, log_expit, logsumexp

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.losses.base import check_positive
from mercer.losses.binary.margins import Hinge, hinge_normaliser

FREEDOM = 10.0  # degrees of freedom of the proposals
BATCH = 256  # data sets begun at a time
STEPS = 80  # of expectation propagation at most


@dataclass(frozen=True)
class SollichEvidence:
    """A log evidence, its two parts, and how well Monte Carlo knows them.

    Attributes
    ----------
    value, error : n log kappa + log_integral - log_normaliser, and its standard error.
    log_integral : log of the integral of e^{-C sum hinge} over the prior.
    log_normaliser : log N_n, the chance that a data set of n rows is accepted.
    effective_draws : the fewer of the two; below a hundred or so ``error`` is not to be trusted.
    negative : most negative eigenvalue of K relative to the largest: rounding, counted as zero.
    """

    value: float
    log_integral: float
    log_normaliser: float
    error: float
    effective_draws: float
    negative: float


def sollich_evidence(
    kernel: Kernel,
    X: Array,
    y: Array,
    C: float = 1.0,
    *,
    draws: int = 20_000,
    rng: np.random.Generator | int = 0,
) -> SollichEvidence:
    """Return the log evidence of the hinge in Sollich's generative model, to be maximised.

    A function f is drawn from the prior, n inputs from their distribution, and each gets the label
    y with probability kappa e^{-C (1 - y f)_+}, kappa = 1 / (1 + e^{-2 C}). What is missing to one
    is the answer "do not know": if any row gives it, all is thrown away, function and inputs
    included, and begun anew. Given that a data set of n rows came out,

        log p = n log kappa + log int e^{-C sum_i (1 - y_i f_i)_+} N(f | 0, K) df - log N_n,
        N_n   = E[((1/n) sum_i kappa Z(f_i))^n],  kappa Z the mass of both labels (<= 1),

    where the rows at hand stand for the distribution of inputs. Without N_n the evidence of an
    unnormalised loss favours large variances of the kernel.

    Limits: the prior of f depends on n (functions that answer often are preferred, the more the
    larger n), so that leaving out a row is not the same as never having seen it; no predictive
    probabilities follow; and the cost is draws x n^2. For a likelihood of single labels, and for a
    search, use :class:`~mercer.losses.NormalizedHinge` with an inference that has an evidence.

    Both parts are Monte Carlo means, unbiased before the logarithm: the integral by importance
    sampling near the posterior, N_n by draws from the prior. They are good for tens to a hundred
    rows or two: see ``error`` and ``effective_draws``.

    Parameters
    ----------
    kernel : Kernel, its amplitude included; no free bias.
    X, y : (n, d) inputs and (n,) labels -1 and +1.
    C : > 0, slope of the hinge.
    draws, rng : Monte Carlo draws, >= 2, and their generator or seed.

    Reference: P. Sollich (2002), Bayesian methods for support vector machines, sections 2 and 3;
    Seeger's thesis, section 2.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> X, y = np.array([[0.0], [1.0], [4.0]]), np.array([1.0, 1.0, -1.0])
    >>> bool(abs(sollich_evidence(1e-8 * RBF(), X, y).value + 3 * np.log(2)) < 1e-2)
    True
    """
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    check_positive("sollich_evidence", C=C)
    if y.ndim != 1 or X.ndim != 2 or len(y) != len(X) or not len(y):
        raise ValueError(f"X must be (n, d) and y (n,), n >= 1; got {X.shape} and {y.shape}")
    if not np.all(np.abs(y) == 1.0):
        raise ValueError("labels must be -1 and +1: encode them, e.g. np.where(y == a, 1, -1)")
    if draws < 2:
        raise ValueError(f"draws must be at least 2, got {draws!r}")
    L, negative = square_root(kernel(X))
    first, second = np.random.default_rng(rng).spawn(2)
    weights = hinge_weights(L, y, C, draws, first)
    mass = hinge_normaliser(second.standard_normal((draws, len(y))) @ L.T, C)
    repeats = len(y) * np.log(mass.mean(axis=1))
    integral, error, effective = log_mean(weights)
    normaliser, other_error, other_effective = log_mean(repeats)
    value = len(y) * float(log_expit(2.0 * C)) + integral - normaliser
    total_error, fewer = float(np.hypot(error, other_error)), min(effective, other_effective)
    return SollichEvidence(value, integral, normaliser, total_error, fewer, negative)


@dataclass(frozen=True)
class SollichSample:
    """A data set of Sollich's model: X (n, d), y (n,) and f (n,), and the ``tries`` it took."""

    X: Array
    y: Array
    f: Array
    tries: int


def sollich_sample(
    kernel: Kernel,
    inputs: Array,
    n: int,
    C: float = 1.0,
    *,
    tries: int = 1_000_000,
    rng: np.random.Generator | int = 0,
) -> SollichSample:
    """Draw a data set of n rows from Sollich's model of the support vector classifier.

    A function is drawn from the prior and n inputs from the rows of ``inputs`` (with replacement:
    they stand for the distribution of inputs); each row answers +1, -1 or "do not know", see
    :func:`sollich_evidence`. If any does not know, function and inputs are drawn anew. Functions
    that are often inside the margin are therefore rarer than the prior has them, the more so the
    larger n: ``tries`` is about 1 / N_n.

    Parameters
    ----------
    kernel, C : as for :func:`sollich_evidence`.
    inputs : (m, d), from which the inputs are drawn.
    tries : data sets that are begun at most; then it is refused.

    Reference: Seeger's thesis, section 2.1.8; Sollich (2002), section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> made = sollich_sample(9.0 * RBF(), np.linspace(0, 5, 30)[:, None], 10)
    >>> made.X.shape, sorted(set(made.y.tolist())), made.tries >= 1
    ((10, 1), [-1.0, 1.0], True)
    """
    inputs = np.asarray(inputs, dtype=np.float64)
    check_positive("sollich_sample", C=C)
    if inputs.ndim != 2 or not len(inputs) or n < 1 or tries < 1:
        raise ValueError("sollich_sample needs inputs (m, d), m >= 1, n >= 1 and tries >= 1")
    rng, (L, _) = np.random.default_rng(rng), square_root(kernel(inputs))
    done = 0
    while done < tries:
        count = min(BATCH, tries - done)
        at = rng.integers(len(inputs), size=(count, n))
        functions = rng.standard_normal((count, len(inputs))) @ L.T
        f = np.take_along_axis(functions, at, axis=1)
        draw = rng.random((count, n))
        known = np.all(draw < hinge_normaliser(f, C), axis=1)
        if np.any(known):
            i = int(np.argmax(known))
            plus = np.exp(log_expit(2.0 * C) - C * np.maximum(1.0 - f[i], 0.0))
            y = np.where(draw[i] < plus, 1.0, -1.0)
            return SollichSample(inputs[at[i]], y, f[i], done + i + 1)
        done += count
    raise ValueError(
        f"none of {tries} data sets had an answer for all of its {n} rows: give fewer rows, a "
        "kernel with a larger variance, or more tries"
    )


def square_root(K: Array) -> tuple[Array, float]:
    """Return L with L L' = K (n, n), by eigenvectors as K may be singular, and what was cut off."""
    values, vectors = np.linalg.eigh(K)
    largest = max(float(values[-1]), np.finfo(float).tiny)
    negative = min(float(values[0]) / largest, 0.0)
    if negative < -1e-10:
        raise ValueError(
            "the kernel matrix is not positive semidefinite: it has an eigenvalue of "
            f"{negative:.1e} times the largest"
        )
    return vectors * np.sqrt(np.maximum(values, 0.0)), negative


def hinge_weights(L: Array, y: Array, C: float, draws: int, rng: np.random.Generator) -> Array:
    """Log weights (draws,) whose mean e^weight is the integral of e^{-C sum hinge} N(f | 0, L L').

    f = L e, and e is drawn from a Student density about the Gaussian of :func:`near_gaussian`: its
    tails are heavier than the prior's, so that the weights are bounded.
    """
    n = len(y)
    mean, R = near_gaussian(L, y, C)
    spread = np.sqrt(rng.chisquare(FREEDOM, draws) / FREEDOM)
    d = rng.standard_normal((draws, n)) / spread[:, None]
    e = mean + solve_triangular(R, d.T, lower=True, trans="T").T
    half = 0.5 * (FREEDOM + n)
    log_q = gammaln(half) - gammaln(0.5 * FREEDOM) - 0.5 * n * np.log(0.5 * FREEDOM)
    log_q = log_q + np.log(np.diag(R)).sum() - half * np.log1p(np.square(d).sum(axis=1) / FREEDOM)
    hinges = C * np.maximum(1.0 - y * (e @ L.T), 0.0).sum(axis=1)
    # both densities without their (2 pi)^(-n/2)
    return np.asarray(-hinges - 0.5 * np.square(e).sum(axis=1) - log_q)


def near_gaussian(L: Array, y: Array, C: float) -> tuple[Array, Array]:
    """Mean (n,) and Cholesky factor R (n, n) of the precision of e, close to its posterior.

    Some parallel steps of expectation propagation; it need not converge, as it only proposes draws.
    """
    n, loss = len(y), Hinge(C)
    W, h = np.zeros(n), np.zeros(n)
    for _ in range(STEPS):
        R = np.linalg.cholesky(np.eye(n) + L.T @ (W[:, None] * L))
        half = solve_triangular(R, L.T, lower=True)
        mean = solve_triangular(R, half @ h, lower=True, trans="T")
        v = np.square(half).sum(axis=0)
        cavity = v / (1.0 - v * W)
        m = cavity * (L @ mean / v - h)
        _, slope, bend = loss.tilted(y, m, cavity)
        left = 1.0 + cavity * bend  # tilted variance / cavity variance, in (0, 1)
        new_W, new_h = np.maximum(-bend / left, 0.0), (slope - bend * m) / left
        moved = np.abs(new_W - W).max() / (1e-300 + np.abs(new_W).max())
        W, h = 0.5 * (W + new_W), 0.5 * (h + new_h)
        if moved < 1e-3:
            break
    return mean, np.asarray(R)


def log_mean(log_values: Array) -> tuple[float, float, float]:
    """log of the mean of e^values (draws,), its standard error, the effective number of draws."""
    n = len(log_values)
    values = np.exp(log_values - float(log_values.max()))
    effective = float(values.sum() ** 2 / np.square(values).sum())
    error = float(values.std(ddof=1) / (float(values.mean()) * np.sqrt(n)))
    return float(logsumexp(log_values)) - float(np.log(n)), error, effective
