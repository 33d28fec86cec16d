"""Contracts, shipped: one call checks that a part of your own fits the house.

Each function raises AssertionError with a sentence that says which clause is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Component
from mercer.inference.base import Inference
from mercer.kernels.base import Kernel
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.process.process import Process


def _close(a: Any, b: Any, tol: float, clause: str) -> None:
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    size = max(1e-300, float(np.max(np.abs(b), initial=0.0)))
    worst = float(np.max(np.abs(a - b), initial=0.0)) / size
    assert a.shape == b.shape, f"{clause}: shapes {a.shape} and {b.shape} differ"
    assert worst <= tol, f"{clause}: relative difference {worst:.2e} exceeds {tol:.0e}"


def check_component(part: Component) -> None:
    """A component is its parameters: copies, repr, dictionary form.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> check_component(RBF(length_scale=2.0))
    """
    assert part.__sklearn_clone__() == part, "a clone must be equal"
    assert type(part).__name__ in repr(part), "repr must show the class"
    params = part.get_params(deep=False)
    assert type(part)(**params) == part or part.__dict__.get("_marks"), (
        "the constructor must store its arguments"
    )
    try:
        data = part.to_dict()
    except TypeError:
        return  # holds a function: it says so and cannot be stored
    classes = _classes_of(part)
    assert Component.from_dict(data, classes.__getitem__) == part, "to_dict / from_dict must agree"


def _classes_of(part: Component) -> dict[str, type[Component]]:
    found = {type(part).part_name(): type(part)}
    for child in part.children().values():
        found |= _classes_of(child)
    for mark in getattr(part, "_marks", {}).values():
        if mark.prior is not None:
            found |= _classes_of(mark.prior)
    return found


def check_kernel(
    kernel: Kernel, X: Array | None = None, Z: Array | None = None, tol: float = 1e-6
) -> None:
    """Symmetric, positive semidefinite, diagonal, exact pullback by central differences.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> check_kernel(RBF())
    """
    check_component(kernel)
    rng = np.random.default_rng(0)
    points = kernel.example_inputs(rng, 9) if X is None else X
    others = points[: max(2, len(points) // 2)] if Z is None else Z
    K = kernel(points)
    assert K.shape == (len(points),) * 2, "k(X) must be (n, n)"
    _close(K, K.T, 1e-12, "k(X) must be symmetric")
    _close(np.diagonal(K), kernel.diag(points), 1e-10, "diag(X) must be the diagonal of k(X)")
    lowest = np.linalg.eigvalsh(K)[0]
    scale = np.trace(K) / len(K)
    assert lowest > -1e-9 * max(scale, 1e-300) * len(K), f"k(X) has eigenvalue {lowest:.2e}"
    before = K.copy()
    K *= 2.0
    _close(kernel(points), before, 0.0, "k(X) must be a fresh array")
    if kernel.noise_free() is kernel and not getattr(kernel, "positional", False):
        _close(kernel(points, points), before, 1e-10, "k(X, X) must equal k(X)")
    Q = rng.standard_normal((len(points), len(points)))
    _check_pullback(kernel, points, None, Q + Q.T, tol)
    if not getattr(kernel, "positional", False):
        R = rng.standard_normal((len(points), len(others)))
        _check_pullback(kernel, points, others, R, tol)


def _check_pullback(kernel: Kernel, X: Array, Z: Array | None, Q: Array, tol: float) -> None:
    gradient = kernel.pullback(X, Z, Q)
    paths = [path for path, _, _ in kernel.differentiable()]
    assert set(paths) <= set(gradient), f"pullback must name {sorted(set(paths) - set(gradient))}"
    moved = kernel.__sklearn_clone__()
    owners = {path: (owner, name) for path, owner, name in moved.differentiable()}
    size = float(np.abs(Q).sum() * max(1e-300, np.abs(kernel(X, Z)).max()))
    for path in paths:
        owner, name = owners[path]
        value = np.array(getattr(owner, name), dtype=np.float64)

        def inner(theta: Array, owner: Any = owner, name: str = name) -> float:
            setattr(owner, name, float(theta) if theta.ndim == 0 else theta)
            return float((Q * moved(X, Z)).sum())

        numeric = _differences(inner, value)
        setattr(owner, name, getattr(dict_owner(kernel, path), name))
        given = np.asarray(gradient[path], dtype=np.float64)
        assert given.shape == value.shape, f"gradient of {path} must have the parameter's shape"
        floor = 1e-7 * size / max(1e-300, float(np.abs(value).max()))
        error = np.abs(given - numeric).max()
        bound = max(tol * np.abs(numeric).max(), floor * tol * 1e2)
        assert error <= bound, f"pullback of {path}: {given} but differences give {numeric}"


def dict_owner(part: Component, path: str) -> Component:
    """Return the component that owns the differentiable parameter ``path``."""
    return next(owner for p, owner, _ in part.differentiable() if p == path)


def _differences(function: Callable[[Array], float], x: Array) -> Array:
    """Five-point differences, relative step 1e-3."""
    result = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        h = 1e-3 * max(abs(float(x[i])), 1e-3)
        values = []
        for k in (-2, -1, 1, 2):
            y = x.copy()
            y[i] += k * h
            values.append(function(y))
        result[i] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    return result


def check_loss(loss: Loss, y: Array | None = None, tol: float = 1e-5) -> None:
    """Derivatives against differences, and finite values far out.

    Examples
    --------
    >>> from mercer.losses import Logistic
    >>> check_loss(Logistic())
    """
    check_component(loss)
    if loss.response == "multiclass":
        return
    rng = np.random.default_rng(0)
    targets = loss.example_targets(rng, 40) if y is None else y
    f = rng.uniform(-2.5, 2.5, len(targets))
    kinks = np.reshape(loss.kinks(targets), (-1, len(targets)))
    if kinks.size:
        near = np.abs(kinks - f).min(axis=0) < 0.05
        f[near] += 0.11
    step = 1e-4
    first = (loss.value(targets, f + step) - loss.value(targets, f - step)) / (2 * step)
    d1, d2, d3 = loss.derivatives(targets, f)
    _close(d1, first, tol, "first derivative of the loss")
    up, down = loss.derivatives(targets, f + step), loss.derivatives(targets, f - step)
    _close(d2, (up[0] - down[0]) / (2 * step), max(tol, 1e-5), "second derivative of the loss")
    _close(d3, (up[1] - down[1]) / (2 * step), max(tol, 1e-3), "third derivative of the loss")
    for far in (-1e3, 1e3):
        assert not np.any(np.isnan(loss.value(targets, np.full(len(targets), far)))), (
            f"the loss is NaN at f = {far:g}"
        )


def check_gram(gram: Gram, tol: float = 1e-8) -> None:
    """Products, rows, and the Factor against dense linear algebra.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg import DenseGram
    >>> check_gram(DenseGram(RBF(), np.arange(5.0)[:, None]))
    """
    n = len(gram.points)
    rng = np.random.default_rng(0)
    K = gram @ np.eye(n)
    _close(np.diagonal(K), gram.diag(), tol, "diag() must be the diagonal of K")
    _close(gram.rows(np.arange(min(n, 2))), K[:2], tol, "rows() must be rows of K")
    W = rng.uniform(0.5, 2.0, n)
    W[0] = 0.0
    C = np.diag(W) @ np.linalg.inv(np.eye(n) + K @ np.diag(W))
    V = rng.standard_normal((n, 2))
    factor = gram.factor(W)
    _close(factor.solve(V), C @ V, tol, "solve(V) must be C V")
    _close(factor.quad(V, V), V.T @ C @ V, tol, "quad(A, B) must be A' C B")
    _close(factor.quad_diag(V), np.diagonal(V.T @ C @ V), tol, "quad_diag(A)")
    _close(factor.diag(), np.diagonal(C), tol, "diag() must be the diagonal of C")
    _close(factor.cov_diag(), np.diagonal(K - K @ C @ K), tol, "cov_diag() of K - K C K")
    logdet = np.linalg.slogdet(np.eye(n) + K * W)[1]
    _close(factor.logdet(), logdet, tol, "logdet() must be log |I + K W|")
    Q = gram.factor(W).gradient_weights(V, 2.0)
    _close(Q, 0.5 * (V @ V.T - 2.0 * C), tol, "gradient_weights must be (a a' - count C) / 2")


def check_inference(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float = 1e-5
) -> None:
    """The evidence gradient by formula (3) against differences, for the kernel and the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference import Exact
    >>> from mercer.kernels import RBF
    >>> from mercer.losses import Gaussian
    >>> X = np.linspace(0, 3, 8)[:, None]
    >>> check_inference(Exact(), Gaussian(noise=0.3), X, np.sin(X), 1.5 * RBF())
    """
    from mercer.search import EvidenceCriterion, Space, simple_problem

    check_component(inference)
    inference.check(loss)
    space = Space({"kernel": kernel, "loss": loss})
    criterion = EvidenceCriterion(space, simple_problem(X, y), inference)
    value, gradient = criterion(space.start)
    assert np.isfinite(value), "the evidence must be finite"
    step = 1e-4
    for i, name in enumerate(
        n for e in space.entries for n in [e.name] * (e.where.stop - e.where.start)
    ):
        move = step * np.eye(len(space))[i]
        numeric = (criterion(space.start + move)[0] - criterion(space.start - move)[0]) / (2 * step)
        error = abs(gradient[i] - numeric)
        assert error <= tol * max(1.0, abs(numeric)), (
            f"gradient of the evidence in {name}: {gradient[i]} but differences give {numeric}"
        )


def check_process(process: Process, X: Array, tol: float = 1e-8) -> None:
    """Variance is the diagonal of the covariance, which is symmetric and positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.process.process import Prior
    >>> check_process(Prior(RBF()), np.arange(4.0)[:, None])
    """
    cov = process.cov(X)
    _close(cov, cov.T, tol, "the covariance must be symmetric")
    _close(process.var(X), np.diagonal(cov), tol, "var(X) must be the diagonal of cov(X)")
    lowest = np.linalg.eigvalsh(0.5 * (cov + cov.T))[0]
    assert lowest > -tol * max(1.0, np.abs(cov).max()), (
        f"the covariance has eigenvalue {lowest:.2e}"
    )
    assert process.mean(X).shape[0] == len(X), "mean(X) must have a row per point"
    draws = process.sample(X, 3, np.random.default_rng(0))
    assert draws.shape == (*process.mean(X).shape, 3), "sample(X, s) must be (n, m, s)"
