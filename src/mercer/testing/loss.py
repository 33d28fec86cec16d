"""The contract of a loss: its shape, its averages, and what it says a new observation will be."""

from __future__ import annotations

import copy

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.base import Loss
from mercer.losses.several.base import SeveralLatents
from mercer.testing.clauses import check_component, close, gradient, holds, slope
from mercer.testing.observations import (
    check_observations,
    conjugate_by_grid,
    expected_by_sums,
    tilted_by_sums,
)
from mercer.testing.several import check_several


def check_loss(loss: Loss, y: Array | None = None, tol: float = 1e-7) -> None:
    """Derivatives, convexity, averages, bounds, conjugate, and all that a likelihood promises.

    Every formula is compared with slow sums, and what the loss says of itself (``normalised``,
    ``convex``, ``latent_is_mean``) with what it does. What is left to the default of the base class
    is compared as well, to the accuracy of the default.

    Parameters
    ----------
    loss : the loss.
    y : (n,) targets; its ``example_targets`` if None.
    tol : of the derivatives, relative; 1e-4 where they are left to the default.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: those of :func:`check_component`; shapes, targets,
        first derivative, second derivative, third derivative, convex, far out, tilted, expected,
        expected_higher, conjugate, quadratic, quadratic_bound, symmetric, gradient of a parameter,
        in_units; normalised, moments, latent_is_mean, conditional_cdf, predict, cdf, quantile,
        log_predictive, sample; softmax for a loss with one latent function for each class; latents,
        curvature, curvature_slope, trace_slope, information for one of several functions.

    Examples
    --------
    >>> from mercer.losses import Logistic
    >>> check_loss(Logistic())
    """
    check_component(loss)
    rng = np.random.default_rng(0)
    targets = loss.example_targets(rng, 40) if y is None else np.asarray(y, dtype=np.float64)
    close("targets", loss.check_targets(list(targets)), targets, 0.0, 0.0, "they must be accepted")
    if loss.response == "multiclass":
        _check_classes(loss, targets)
        return
    if isinstance(loss, SeveralLatents):
        check_several(loss, targets)
        return
    _check_shapes(loss, targets)
    _check_derivatives(loss, targets, tol)
    _check_far(loss, targets)
    _check_convex(loss, targets)
    _check_sums(loss, targets)
    _check_averages(loss, targets)
    _check_quadratics(loss, targets)
    _check_conjugate(loss, targets)
    _check_units(loss, targets)
    check_observations(loss)


def stated(loss: Loss, method: str) -> bool:
    """Whether the loss has a formula of its own, not the default of the base class."""
    return getattr(type(loss), method) is not getattr(Loss, method)


def exponential(loss: Loss, y: Array) -> bool:
    """Whether the loss grows exponentially: then it may be infinite far out."""
    with np.errstate(over="ignore", invalid="ignore"):
        near, far = (loss.value(y, np.array([[-f], [f]])) for f in (20.0, 40.0))
        return bool(np.any(np.abs(far) > 1e4 * (1.0 + np.abs(near))))


def away_from_kinks(loss: Loss, y: Array, f: Array, distance: float = 0.05) -> Array:
    """Move f by three distances, and again, where it lies within one of a kink."""
    kinks = np.reshape(loss.kinks(y), (-1, len(y)))
    for _ in range(10 if kinks.size else 0):
        f = f + 3.1 * distance * (np.abs(kinks - f).min(axis=0) < distance)
    return f


def jumps(loss: Loss, y: Array) -> bool:
    """Whether the loss itself jumps somewhere, not only its slope: a step has no derivative."""
    kinks = np.reshape(loss.kinks(y), (-1, len(y)))
    gap = loss.value(y, kinks + 1e-9) - loss.value(y, kinks - 1e-9)
    return bool(np.any(np.abs(gap) > 1e-6))


def _check_shapes(loss: Loss, y: Array) -> None:
    y, kinks = y[:3], loss.kinks(y[:3])
    well = kinks.ndim == 2 and kinks.shape[1] == 3
    holds("shapes", well, f"kinks(y) must be (k, n), not {kinks.shape}")
    holds("shapes", np.all(np.diff(kinks, axis=0) >= 0), "kinks(y) must be sorted")
    holds("shapes", np.shape(loss.value(y, np.float64(0.3))) == (3,), "value(y, f) must broadcast")  # type: ignore[arg-type]  # a scalar
    for d in loss.derivatives(y, np.float64(0.3)):  # type: ignore[arg-type]  # a scalar
        holds("shapes", np.shape(d) == (3,), "derivatives(y, f) must broadcast")
    for method in ("tilted", "expected"):
        whole = getattr(loss, method)(y[:, None], np.array([0.1, 0.7]), 0.5)
        one = getattr(loss, method)(y.dtype.type(y[0]), np.float64(0.7), np.float64(0.5))
        for a, b in zip(whole, one, strict=True):
            good = np.shape(a) == (3, 2) and np.shape(b) == ()
            holds("shapes", good, f"{method}(y, m, v) must broadcast, not give {np.shape(a)}")
            close("shapes", a[0, 1], b, 1e-12, 1e-15, f"{method} of one row is that of several")
    if loss.response == "binary":
        one, m, v = np.ones(4), np.linspace(-2.0, 3.0, 4), np.linspace(0.2, 3.0, 4)
        if not np.allclose(loss.value(one, m), loss.value(-one, -m)):
            return  # the loss treats the labels differently
        for method in ("tilted", "expected"):
            plus, minus = getattr(loss, method)(one, m, v), getattr(loss, method)(-one, -m, v)
            for a, b, sign in zip(plus, minus, (1, -1, 1), strict=True):
                close("symmetric", a, sign * b, 1e-11, 1e-12, f"{method} of the other label")


def _check_derivatives(loss: Loss, y: Array, tol: float) -> None:
    if jumps(loss, y):
        return
    own = stated(loss, "derivatives")
    f = away_from_kinks(loss, y, np.random.default_rng(1).uniform(-3.0, 3.0, len(y)))
    width = np.broadcast_to(loss.width(y), y.shape)
    h = (2e-3 if own else 2e-2) * width
    found = loss.derivatives(y, f)
    rough = tol if own else max(tol, 1e-4)
    for i, order in enumerate(("first", "second", "third")):
        with np.errstate(all="ignore"):
            wanted = slope(lambda x, i=i: [loss.value(y, x), *loss.derivatives(y, x)][i], f, h)  # type: ignore[misc]  # a default
        size = float(np.max((1.0 / width) ** (i + 1)))
        text = "differences of the one below"
        close(f"{order} derivative", found[i], wanted, rough, rough * size, text)


def _check_convex(loss: Loss, y: Array) -> None:
    if not loss.convex:
        return
    f = away_from_kinks(loss, y, np.random.default_rng(2).uniform(-6.0, 6.0, len(y)))
    d2 = loss.derivatives(y, f)[1]
    lowest = 0.0 if stated(loss, "derivatives") else -1e-7 * float(np.abs(d2).max())
    holds("convex", np.all(d2 >= lowest), "a convex loss has no negative curvature")
    grid = np.linspace(-8.0, 8.0, 161)[:, None] * np.broadcast_to(loss.width(y), y.shape)
    g = loss.value(y, grid)
    bend = g[2:] - 2.0 * g[1:-1] + g[:-2]
    scale = 1e-11 * (1.0 + np.abs(g).max(axis=0))
    holds("convex", np.all(bend >= -scale), "the loss bends down somewhere: convex must be False")


def _check_far(loss: Loss, y: Array) -> None:
    y, steep = y[:6], exponential(loss, y)
    for far in (-1e3, -40.0, 0.0, 40.0, 1e3):
        f = np.full(len(y), far)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            numbers = [loss.value(y, f), *loss.derivatives(y, f)]
            for v in (1e-4, 1.0, 1e4):
                numbers += loss.tilted(y, f, np.full(len(y), v))
                numbers += loss.expected(y, f, np.full(len(y), v))
        for array in numbers:
            plain = np.shape(array) == y.shape and np.asarray(array).dtype == np.float64
            holds("far out", plain, "float64 arrays (n,) are expected")
            holds("far out", not np.any(np.isnan(array)), f"NaN at f = {far:g}")
            text = f"infinite at f = {far:g}, although the loss does not grow exponentially"
            holds("far out", steep or np.all(np.isfinite(array)), text)


def _check_sums(loss: Loss, y: Array) -> None:
    """log Z and E[g], each with two derivatives, against dense sums."""
    steep = exponential(loss, y)
    y, m = y[:4], np.array([-3.0, -0.4, 0.6, 4.0])[: len(y[:4])]
    for v in (1e-4, 0.03, 1.0, 30.0, 1e4):
        # the dense second derivative is (Var - v) / v^2: its own error is about 1e-13 / v
        errors = np.array([1e-11, 1e-11 / np.sqrt(v), 1e-11 / v])[:, None]
        for method, slow in (("tilted", tilted_by_sums), ("expected", expected_by_sums)):
            if method == "expected" and steep and v > 1.0:
                continue  # the average lives far out in the tail, where dense sums do not reach
            found = getattr(loss, method)(y, m, np.full(len(y), v))
            wanted = np.array([slow(loss, a, b, v) for a, b in zip(y, m, strict=True)]).T
            size = (
                np.array([[10.0], [1.0], [1.0]]) if method == "tilted" else 1.0 + np.abs(wanted[0])
            )
            close(method, found, wanted, 2e-9, errors * size, f"dense sums at v = {v:g}")


def _check_averages(loss: Loss, y: Array) -> None:
    """What is returned as a derivative is one; expected_higher by the heat equation."""
    rng, steep = np.random.default_rng(4), exponential(loss, y)
    m, v = 2.0 * rng.normal(size=len(y)), 10 ** rng.uniform(-1.0, 1.0, len(y))
    v = np.minimum(v, 2.0) if steep else v
    width = np.broadcast_to(loss.width(y), y.shape)
    h = 1e-3 * np.sqrt(v) * np.minimum(1.0, width)
    for method in ("tilted", "expected"):
        average = getattr(loss, method)
        first = slope(lambda x, a=average: a(y, x, v)[0], m, h)  # type: ignore[misc]  # a default
        close(method, average(y, m, v)[1], first, 1e-6, 1e-8, "its derivative in m")
    second = slope(lambda x: loss.tilted(y, x, v)[1], m, h)
    close("tilted", loss.tilted(y, m, v)[2], second, 1e-6, 1e-8, "its second derivative in m")
    by_v = slope(lambda x: loss.expected(y, m, x)[0], v, 1e-3 * v)
    close("expected", loss.expected(y, m, v)[2], by_v, 1e-6, 1e-8, "its derivative in v")
    if not loss.offers("expected_higher"):
        return
    M = np.linspace(-6.0, 6.0, 25)
    Y = np.resize(y, M.size)
    for one in (0.01, 0.3, 1.0, 4.0, 30.0):
        at = np.full(M.size, one)
        third, fourth = loss.expected_higher(Y, M, at)
        step, more = 1e-3 * np.sqrt(one), 1e-3 * one
        bend = 2.0 * loss.expected(Y, M, at)[2]
        # the heat equation: T3 = 2 d2E/dm dv and T4 = 4 d2E/dv2
        along = slope(lambda x, at=at: 2.0 * loss.expected(Y, x, at)[2], M, step)  # type: ignore[misc]  # a default
        curve = 2.0 * slope(lambda x: 2.0 * loss.expected(Y, M, x)[2], at, more)
        size = np.maximum(np.abs(bend), 1e-3) / np.sqrt(one)
        close("expected_higher", third, along, 1e-7, 1e-7 * size, "third derivative")
        atol = 1e-7 * size / np.sqrt(one)
        close("expected_higher", fourth, curve, 1e-7, atol, "fourth derivative")


def _check_conjugate(loss: Loss, y: Array) -> None:
    holds("convex", loss.convex or not loss.offers("conjugate"), "only convex losses have one")
    if not loss.offers("conjugate"):
        return
    tol = 1e-10 if stated(loss, "conjugate") and stated(loss, "derivatives") else 1e-6
    rng = np.random.default_rng(5)
    f = away_from_kinks(loss, y, rng.uniform(-3.0, 3.0, len(y)))
    d1 = loss.derivatives(y, f)[0]
    touch = loss.value(y, f) + loss.conjugate(y, d1) - d1 * f
    close("conjugate", touch, np.zeros(len(y)), 0.0, tol, "g + g* = u f at the slope u")
    u = d1 + rng.normal(size=len(y))
    gap = loss.value(y, f) + loss.conjugate(y, u) - u * f
    holds("conjugate", not np.any(np.isnan(gap)), "it is a number or infinite")
    holds("conjugate", np.all(gap >= -tol), "g + g* >= u f everywhere")
    few, at = y[:8], f[:8]
    u = 0.5 * (loss.derivatives(few, at)[0] + loss.derivatives(few, at + 0.7)[0])
    wanted = [conjugate_by_grid(loss, a, b) for a, b in zip(few, u, strict=True)]
    close("conjugate", loss.conjugate(few, u), wanted, 1e-8, 3e-7, "the supremum of u f - g")


def _check_quadratics(loss: Loss, y: Array) -> None:
    rng = np.random.default_rng(6)
    f = rng.uniform(-4.0, 4.0, (30, len(y)))
    if loss.offers("quadratic"):
        z, W = loss.quadratic(y)
        rest = loss.value(y, f) - 0.5 * W * (z - f) ** 2
        flat = np.broadcast_to(rest[:1], rest.shape)
        close("quadratic", rest, flat, 1e-10, 1e-10, "g - W (z - f)^2 / 2 must not depend on f")
        dW, moved = rng.normal(size=len(y)), copy.deepcopy(loss)
        found = loss.quadratic_pullback(y, dW)
        for path, owner, name in moved.differentiable():
            numeric = gradient(lambda: float(np.sum(dW * moved.quadratic(y)[1])), owner, name)
            text = "quadratic_pullback against differences"
            close(f"gradient of {path}", found.get(path, 0.0 * numeric), numeric, 1e-7, 1e-9, text)
    if loss.offers("quadratic_bound"):
        xi = rng.uniform(-6.0, 6.0, len(y))
        xi[0] = 0.0
        lam, z, c = loss.quadratic_bound(y, xi)
        above = lam * (f - z) ** 2 + c - loss.value(y, f)
        holds("quadratic_bound", np.all(above >= -1e-10), "it must lie above the loss")
        for at in (xi, -xi):
            touch = lam * (at - z) ** 2 + c
            close("quadratic_bound", touch, loss.value(y, at), 0.0, 1e-10, "it touches at +-xi")


def _check_units(loss: Loss, y: Array) -> None:
    if not loss.offers("in_units"):
        return
    scale, f = 2.5, np.random.default_rng(7).uniform(-3.0, 3.0, len(y))
    inside = loss.in_units(scale)
    zero = 0 * y
    added = np.log(scale) if loss.normalised else inside.value(zero, zero) - loss.value(zero, zero)
    moved = f if loss.response == "positive" else scale * f  # behind a link f has no unit
    found = inside.value(scale * y, moved)
    close("in_units", found, loss.value(y, f) + added, 1e-10, 1e-10, "the loss of scale * y")


def _check_classes(loss: Loss, y: Array) -> None:
    """Check value, three derivatives, conjugate, probabilities and draws of such a loss."""
    rng = np.random.default_rng(0)
    c, y = max(int(y.max()) + 1, 3), y[:6]
    f = rng.normal(size=(len(y), c))
    g = loss.value(y, f)
    holds("softmax", np.shape(g) == y.shape, "value(y, f) must be (n,) for f (n, c)")
    _check_class_derivatives(loss, y, f)
    far = np.tile([1e3, -1e3, 0.0], (len(y), 1))
    calm = np.all(np.isfinite(loss.value(np.minimum(y, 2.0), far)))
    holds("softmax far out", calm, "the loss must be finite at f = +-1000")
    bend = np.linalg.eigvalsh(loss.derivatives(y, f)[1])
    if loss.convex:
        holds("softmax convex", np.all(bend >= -1e-12), "no curvature may be negative")
    if loss.offers("conjugate"):
        d1 = loss.derivatives(y, f)[0]
        gap = loss.value(y, f) + loss.conjugate(y, d1) - np.sum(d1 * f, axis=1)
        close("softmax conjugate", gap, 0.0 * gap, 0.0, 1e-12, "g + g* = u'f at the slope u")
        infinite = np.all(loss.conjugate(y, d1 + 0.1 * np.eye(c)[0]) == np.inf)
        holds("softmax conjugate", infinite, "it is infinite where u does not sum to zero")
    if loss.normalised:
        _check_probabilities(loss, f)


def _check_class_derivatives(loss: Loss, y: Array, f: Array) -> None:
    d1, d2, d3 = loss.derivatives(y, f)
    n, c = f.shape
    shapes = d1.shape == (n, c) and d2.shape == (n, c, c) and d3.shape == (n, c, c, c)
    holds("softmax", shapes, "derivatives are (n, c), (n, c, c) and (n, c, c, c)")
    for j, e in enumerate(1e-5 * np.eye(c)):
        ahead, back = ([loss.value(y, x), *loss.derivatives(y, x)] for x in (f + e, f - e))
        for i, (order, d) in enumerate((("first", d1), ("second", d2), ("third", d3))):
            numeric = (ahead[i] - back[i]) / (2 * e[j])
            close(f"softmax {order} derivative", d[..., j], numeric, 0.0, 1e-9, f"in latent {j}")


def _check_probabilities(loss: Loss, f: Array) -> None:
    n, c = f.shape
    p = np.array([np.exp(-loss.value(np.full(n, float(k)), f)) for k in range(c)]).T
    close("softmax normalised", p.sum(axis=1), np.ones(n), 0.0, 1e-12, "probabilities sum to one")
    rng = np.random.default_rng(1)
    m, v = rng.normal(size=(3, c)), rng.uniform(0.2, 2.0, (3, c))
    found = loss.predict(m, v)
    holds("softmax predict", np.shape(found) == (3, c), "predict(m, v) must be (n, c)")
    close("softmax predict", found.sum(axis=1), np.ones(3), 0.0, 1e-9, "it must sum to one")
    draws = rng.standard_normal((100_000, c))
    draws = np.vstack([draws, -draws])
    for i in range(3):
        latent = m[i] + np.sqrt(v[i]) * draws
        each = [np.exp(-loss.value(np.full(len(latent), float(k)), latent)) for k in range(c)]
        average = np.array([e.mean() for e in each])
        close("softmax predict", found[i], average, 0.0, 4e-3, "the average over the latents")
    y = np.zeros(3)
    logs = loss.log_predictive(y, m, v)
    close("softmax log_predictive", logs, np.log(found[:, 0]), 1e-10, 1e-12, "log of predict")
    if loss.offers("sample"):
        y = loss.sample(np.broadcast_to(f[0], (100_000, c)), rng)
        close("softmax sample", loss.check_targets(y), y, 0.0, 0.0, "a draw must be a target")
        share = np.bincount(y.astype(int), minlength=c) / len(y)
        close("softmax sample", share, p[0], 0.0, 0.01, "the share of each class")
