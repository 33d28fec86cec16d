"""What a likelihood says of an observation, and slow and obvious sums of what losses average."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import integrate, optimize

from mercer.core.arrays import Array
from mercer.losses.base import Loss
from mercer.testing.clauses import close, holds, refused

DISCRETE = ("count", "ordinal", "binary")
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
AT = np.array([-2.3, -0.4, 0.0, 1.0, 2.9])


def check_observations(loss: Loss) -> None:
    """Check normalised, moments, latent_is_mean, cdf, predict, quantile, log_predictive, sample."""
    if loss.normalised:
        total = [_moment(loss, f, 0) for f in AT]
        close("normalised", total, np.ones(len(AT)), 0.0, 1e-10, "exp(-g) must sum to one over y")
        _check_log_predictive(loss)
    if loss.offers("moments"):
        mean, variance = loss.moments(AT)
        if loss.normalised:
            _check_moments(loss, mean, variance)
        if loss.latent_is_mean:
            close("latent_is_mean", mean, AT, 1e-12, 1e-12, "the mean of y given f must be f")
    if loss.offers("conditional_cdf") and loss.normalised:
        _check_distribution(loss)
        _check_quantile(loss)
    if loss.offers("predict"):
        _check_predict(loss)
    if loss.offers("sample") and loss.normalised:
        _check_sample(loss)


def labels(loss: Loss) -> Array:
    """Return all values y can have, as far as they matter."""
    if loss.response == "binary":
        return np.array([-1.0, 1.0])
    if loss.response == "ordinal":
        return np.arange(float(np.size(getattr(loss, "cutpoints", [])) + 1))
    return np.arange(20_000.0)


def _integral(loss: Loss, f: float, power: int, top: float = np.inf) -> float:
    """Return the integral of y^power exp(-g(y, f)) up to ``top``, cut where the density bends."""
    start = 0.0 if loss.response == "positive" else -np.inf
    # the kinks in y lie where the same distance from f is one in f
    middle = float(np.exp(f)) if loss.response == "positive" else f
    edges = [f - 0.5, f, f + 0.5, middle, *(2 * f - k for k in kinks_of(loss, f))]
    inside = sorted({e for e in edges if start < e < top})
    total = 0.0

    def density(y: float) -> float:
        return y**power * float(np.exp(-loss.value(np.float64(y), np.float64(f))))  # type: ignore[arg-type]  # scalars

    for a, b in pairwise([start, *inside, top]):
        total += integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
    return total


def _density(loss: Loss, f: Array) -> Array:
    """Return p(y | f) for all values y (k, n) of a discrete loss."""
    return np.asarray(np.exp(-loss.value(labels(loss)[:, None], f)))


def _moment(loss: Loss, f: float, power: int) -> float:
    """Return the sum, or the integral, of y^power exp(-g(y, f)) over all y."""
    if loss.response in DISCRETE:
        return float(_density(loss, np.array([f]))[:, 0] @ labels(loss) ** power)
    return _integral(loss, f, power)


def _check_log_predictive(loss: Loss) -> None:
    y = loss.example_targets(np.random.default_rng(8), 4)
    for v in (0.03, 2.0):
        m = np.array([-1.0, 0.2, 0.9, 2.0])[: len(y)]
        wanted = [tilted_by_sums(loss, a, b, v)[0] for a, b in zip(y, m, strict=True)]
        found = loss.log_predictive(y, m, np.full(len(y), v))
        close("log_predictive", found, wanted, 2e-9, 1e-9, "log of the average of exp(-g)")


def _check_moments(loss: Loss, mean: Array, variance: Array) -> None:
    finite = np.isfinite(mean) & np.isfinite(variance)  # heavy tails have none
    for f, m, v in zip(AT[finite], mean[finite], variance[finite], strict=True):
        first, second = _moment(loss, f, 1), _moment(loss, f, 2)
        close("moments", m, first, 1e-6, 1e-8, f"mean of y at f = {f:g}")
        close("moments", v, second - first**2, 1e-5, 1e-8, f"variance of y at f = {f:g}")


def _check_distribution(loss: Loss) -> None:
    """P(Y <= y), given f and averaged over it, is the sum or the integral of the density."""
    discrete, m, v = loss.response in DISCRETE, 0.3, 0.7
    y = labels(loss)[:6] if discrete else np.array([0.2, 0.7, 1.9])
    for f in (-0.4, 1.0):
        below = [_integral(loss, f, 0, top) for top in y] if not discrete else []
        wanted = np.cumsum(_density(loss, np.array([f]))[:6, 0]) if discrete else below
        found = loss.conditional_cdf(y, np.full(len(y), f))
        close("conditional_cdf", found, wanted, 1e-8, 1e-9, f"P(Y <= y | f) at f = {f:g}")
    if discrete:
        y = y[:4]
        wanted = np.cumsum(np.exp(loss.log_predictive(y, m, v)))  # type: ignore[arg-type]  # numbers broadcast
        close("cdf", loss.cdf(y, m, v), wanted, 0.0, 1e-10, "the sum of the probabilities")  # type: ignore[arg-type]  # numbers broadcast
        return
    y = np.linspace(0.4, 1.6, 4001)
    area = np.trapezoid(np.exp(loss.log_predictive(y, m, v)), y)  # type: ignore[arg-type]  # numbers broadcast
    found = np.diff(loss.cdf(y[[0, -1]], m, v))[0]  # type: ignore[arg-type]  # numbers broadcast
    close("cdf", found, area, 0.0, 1e-7, "the integral of the predictive density")
    low, high = loss.cdf(np.array([1e-300 if loss.response == "positive" else -1e9, 1e9]), m, v)  # type: ignore[arg-type]  # numbers broadcast
    holds("cdf", low < 0.05 and high > 0.95, "it rises from zero to one")


def _check_quantile(loss: Loss) -> None:
    q = np.array([0.001, 0.05, 0.5, 0.9, 0.999])[:, None]
    m, v = np.array([-1.0, 0.4, 2.0]), np.array([0.01, 1.0, 3.0])
    y = loss.quantile(q, m, v)
    holds("quantile", np.shape(y) == (5, 3), "it must broadcast")
    holds("quantile", np.all(np.diff(y, axis=0) >= 0), "it must rise with the level")
    if loss.response in DISCRETE:
        # a latent mean at a cutpoint has P(Y <= 0) = 1/2, a tie up to rounding
        enough = np.all(loss.cdf(y, m, v) >= q - 1e-13)
        below = loss.cdf(np.maximum(y - 1, 0), m, v)
        least = np.all((below < q + 1e-13) | (y == 0))
        holds("quantile", enough and least, "the smallest k with P(Y <= k) >= q")
    else:
        wanted = np.broadcast_to(q, y.shape)
        close("quantile", loss.cdf(y, m, v), wanted, 1e-9, 0.0, "cdf(quantile(q)) must be q")
    text = "levels are strictly between 0 and 1"
    refused("quantile", lambda: loss.quantile(1.0, 0.0, 1.0), text)  # type: ignore[arg-type]  # numbers broadcast


def _check_predict(loss: Loss) -> None:
    m, v = np.array([-2.0, 0.0, 0.3, 1.5]), np.array([0.01, 0.8, 0.3, 0.5])
    if loss.response == "binary":
        p = loss.predict(m, v)
        holds("predict", np.all(p >= 0.0) and np.all(p <= 1.0), "a probability of y = +1")
        if loss.normalised:
            wanted = [np.exp(tilted_by_sums(loss, 1.0, a, b)[0]) for a, b in zip(m, v, strict=True)]
            close("predict", p, wanted, 1e-9, 1e-12, "the probability of y = +1")
            if np.allclose(loss.value(np.ones(4), m), loss.value(-np.ones(4), -m)):
                both = p + loss.predict(-m, v)
                close("predict", both, np.ones(4), 1e-11, 0.0, "the labels sum to one")
        return
    mean, variance = loss.predict(m, v)
    for i in range(len(m)):
        f, w = dense_grid(m[i], v[i], [], 9.0, 2_000)
        w = w * np.exp(-((f - m[i]) ** 2) / (2 * v[i])) / np.sqrt(2 * np.pi * v[i])
        first, second = loss.moments(f)
        if not np.all(np.isfinite(second)):
            return  # heavy tails
        average = float(w @ first)
        spread = float(w @ (second + first**2)) - average**2
        close("predict", mean[i], average, 1e-7, 1e-8, "the average of the mean given f")
        close("predict", variance[i], spread, 1e-6, 1e-7, "the variance of a new y")


def _check_sample(loss: Loss) -> None:
    n, rng = 100_000, np.random.default_rng(9)
    f = np.full(n, 0.4)
    y = loss.sample(f, rng)
    close("sample", loss.check_targets(y), y, 0.0, 0.0, "a draw must be a target")
    if loss.response == "binary":
        wanted = np.exp(-loss.value(np.ones(1), f[:1]))[0]
        close("sample", np.mean(y == 1), wanted, 0.0, 0.01, "the share of y = +1")
        return
    if loss.offers("conditional_cdf"):
        for t in np.quantile(y, [0.1, 0.5, 0.9]):
            wanted = float(loss.conditional_cdf(np.array([t]), f[:1])[0])
            close("sample", np.mean(y <= t), wanted, 0.0, 0.01, f"the share of draws below {t:g}")
    if not loss.offers("predict"):
        return
    n, m, v = 400_000, 0.3, 0.2
    y = loss.sample(m + np.sqrt(v) * rng.standard_normal(n), rng)
    mean, variance = loss.predict(np.array([m]), np.array([v]))
    holds("predict", np.shape(mean) == np.shape(variance) == (1,), "mean and variance are (n,)")
    if np.isfinite(variance[0]):
        atol = 6.0 * np.sqrt(variance[0] / n)
        close("predict", y.mean(), mean[0], 0.0, atol, "the mean of many draws")


def dense_grid(
    m: float, v: float, kinks: list[float], reach: float, panels: int = 8_000
) -> tuple[Array, Array]:
    """Nodes and weights of short panels over m +- reach s, shorter near 0, cut at the kinks."""
    s = np.sqrt(v)
    cuts = np.linspace(m - reach * s, m + reach * s, panels + 1)
    fine = np.concatenate([np.linspace(-60, 60, 6001), kinks])
    inside = fine[(cuts[0] < fine) & (fine < cuts[-1])]
    cuts = np.sort(np.concatenate([cuts, inside]))
    half = 0.5 * np.diff(cuts)[:, None]
    nodes = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * NODES
    return nodes.ravel(), (half * WEIGHTS).ravel()


def kinks_of(loss: Loss, y: float) -> list[float]:
    """Where in f a derivative of the loss jumps, for one target."""
    return [float(k) for k in np.reshape(loss.kinks(np.array([y])), -1)]


def tilted_by_sums(loss: Loss, y: float, m: float, v: float) -> tuple[float, float, float]:
    """log Z and its derivatives in m, from the tilted mean and variance."""
    f, w = dense_grid(m, v, kinks_of(loss, y), 40.0)
    at: Any = np.float64(y)
    log_density = -loss.value(at, f) - (f - m) ** 2 / (2 * v)
    log_density -= 0.5 * np.log(2 * np.pi * v)
    top = log_density.max()
    w = w * np.exp(np.maximum(log_density - top, -700))
    total = w.sum()
    mean = w @ (f - m) / total
    spread = w @ (f - m - mean) ** 2 / total
    return float(np.log(total) + top), float(mean / v), float((spread - v) / v**2)


def expected_by_sums(
    loss: Loss, y: float, m: float, v: float, reach: float = 12.0
) -> tuple[float, float, float]:
    """E[g], dE/dm and dE/dv by Stein's identities: the Gaussian is differentiated, not the loss."""
    f, w = dense_grid(m, v, kinks_of(loss, y), reach)
    w = w * np.exp(-((f - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    at: Any = np.float64(y)
    g = loss.value(at, f)
    t = (f - m) ** 2 / v
    return float(w @ g), float(w @ (g * (f - m)) / v), float(w @ (g * (t - 1)) / (2 * v))


def conjugate_by_grid(
    loss: Loss, y: float, u: float, low: float = -60.0, high: float = 60.0
) -> float:
    """sup_f u f - g(y, f) by a grid and then a bounded minimiser around its best point."""
    f = np.linspace(low, high, 24_001)
    at: Any = np.float64(y)

    def height(x: float) -> float:
        point: Any = np.float64(x)
        return float(loss.value(at, point)) - u * x

    best = float(f[np.argmax(u * f - loss.value(at, f))])
    step = float(f[1] - f[0])
    found = optimize.minimize_scalar(
        height, bounds=(best - step, best + step), method="bounded", options={"xatol": 1e-12}
    )
    return -float(found.fun)
