"""The contract of a kernel: values, gradients, and every ability that it says it has."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.testing.abilities import check_abilities
from mercer.testing.clauses import close, close_whole, gradient, holds
from mercer.testing.component import check_component


def check_kernel(
    kernel: Kernel, X: Array | None = None, Z: Array | None = None, tol: float = 1e-6
) -> None:
    """Values, gradients by central differences, and what else the kernel offers.

    Parameters
    ----------
    kernel : the kernel.
    X : (n, d) points on which it is defined; its ``example_inputs`` if None.
    Z : (m, d) other points; some of X if None.
    tol : of the gradients, relative.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: those of :func:`check_component`; shape, finite,
        symmetric, positive semidefinite, diag, fresh array, inputs, float32, rectangle, noise,
        rows, terms, profile, multiple, written; "gradient of" a parameter; and the abilities
        in_units, as_rbf, features, matmul, state_space, frozen, pairwise, resolve, workspace.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> check_kernel(RBF())
    """
    check_component(kernel)
    rng = np.random.default_rng(0)
    points = np.array(kernel.example_inputs(rng, 30) if X is None else X, dtype=np.float64)
    few = points if kernel.positional else points[: min(len(points), 14)]
    others = points[: max(2, len(points) // 2)] if Z is None else Z
    _check_values(kernel, points)
    _check_arrays(kernel, points, others)
    _check_parts(kernel, points, others)
    _check_dimensions(kernel, rng)
    Q = rng.standard_normal((len(few), len(few)))
    _check_gradient(kernel, few, None, Q + Q.T, tol)
    if not kernel.positional:
        R = rng.standard_normal((len(few), len(others)))
        _check_gradient(kernel, few, others, R, tol)
        tied = per_column(kernel, few)
        if tied is not None:
            _check_gradient(tied, few, None, Q + Q.T, tol)
            _check_gradient(tied, few, others, R, tol)
    check_abilities(kernel, points, others)


def _check_values(kernel: Kernel, X: Array) -> None:
    n, K = len(X), kernel(X)
    holds("shape", isinstance(K, np.ndarray) and K.shape == (n, n), "k(X) must be an (n, n) array")
    plain = K.dtype == np.float64 and K.flags.c_contiguous and K.flags.writeable
    holds("shape", plain, "k(X) must be a writeable C-ordered array of float64")
    holds("finite", np.all(np.isfinite(K)), "k(X) must be finite")
    if not kernel.positional:
        twice = np.vstack([X[:2], X[:2]])
        holds("finite", np.all(np.isfinite(kernel(twice))), "k must be finite at distance zero")
        holds("finite", np.all(np.isfinite(kernel(twice, X[:2]))), "k(x, x) must be finite")
    close_whole("symmetric", K, K.T, 1e-12, "k(X) must be symmetric")
    _check_spectrum(K)
    close_whole("diag", kernel.diag(X), np.diagonal(K), 1e-10, "diag(X) is the diagonal of k(X)")


def _check_spectrum(K: Array) -> None:
    lowest, highest = np.linalg.eigvalsh(0.5 * (K + K.T))[[0, -1]]
    enough = lowest >= -1e-10 * max(highest, 1e-300) * len(K)
    sentence = f"k(X) must have no negative eigenvalue, and has {lowest:.3g} ({highest:.3g})"
    holds("positive semidefinite", enough, sentence)


def _check_dimensions(kernel: Kernel, rng: np.random.Generator) -> None:
    """A kernel that does not say where it is defined is one in every number of columns it takes."""
    if type(kernel).example_inputs is not Kernel.example_inputs:
        return
    for d in (1, 2, 3, 5):
        X = rng.uniform(-2.0, 2.0, (60, d))
        try:
            K = kernel(X)
        except (ValueError, TypeError):
            continue  # one length scale per column, say
        _check_spectrum(K)


def _check_arrays(kernel: Kernel, X: Array, Z: Array) -> None:
    """Results are fresh, inputs are left alone, and how they lie in memory does not matter."""
    K = kernel(X)
    before = K.copy()
    kernel(X[::-1] if not kernel.positional else X)
    close("fresh array", K, before, 0.0, 0.0, "a later call must not change an earlier result")
    K *= 2.0
    close("fresh array", kernel(X), before, 0.0, 0.0, "what the caller does to k(X) is his")
    d = kernel.diag(X)
    kept = np.array(d)
    d *= 2.0
    close("fresh array", kernel.diag(X), kept, 0.0, 0.0, "what the caller does to diag(X) is his")
    given, Q = X.copy(), np.ones_like(before)
    given.flags.writeable = Q.flags.writeable = False
    try:
        kernel(given)
        kernel.diag(given)
        kernel.pullback(given, None, Q)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise AssertionError(f"inputs: X and Q must be left as they are ({error})") from error
    whole = X if kernel.positional else np.repeat(X, 2, axis=0)[::2]
    for name, other in (("Fortran order", np.asfortranarray(X)), ("strides", whole)):
        close("inputs", kernel(other), before, 1e-14, 1e-300, f"{name} must not matter")
    single = X.astype(np.float32)
    if np.array_equal(single, X):
        exact = before
    elif kernel.positional:
        exact = None
    else:
        exact = kernel(single.astype(np.float64))
    if exact is not None:
        K = kernel(single)  # type: ignore[arg-type]  # that is the question
        holds("float32", K.dtype == np.float64, "k(X) is float64 whatever X is")
        close_whole("float32", K, exact, 1e-12, "single precision is an input, not an arithmetic")
    _check_profile(kernel)


def _check_profile(kernel: Kernel) -> None:
    for name in ("profile", "slope"):
        function: Callable[[Array], Array] | None = getattr(kernel, name, None)
        if function is None:
            continue
        s = np.linspace(0.0, 4.0, 9)
        before = s.copy()
        found = function(s)
        close("profile", s, before, 0.0, 0.0, f"{name}(s) must leave s as it is")
        holds("profile", np.all(np.isfinite(found)), f"{name}(s) must be finite, at s = 0 as well")


def _check_parts(kernel: Kernel, X: Array, Z: Array) -> None:
    """Rectangles, noise, rows in another order, sums, multiples."""
    K, n = kernel(X), len(X)
    size = float(np.abs(K).max())
    signal = kernel.noise_free()
    if not kernel.positional:
        whole = np.zeros((n, n)) if signal is None else signal(X)
        cut = min(8, n // 2)
        part = kernel(X[:cut], X[cut:])
        close("rectangle", part, whole[:cut, cut:], 1e-11, 1e-13 * size, "a part of the square")
        wanted = whole[: len(Z)] if np.array_equal(Z, X[: len(Z)]) else kernel(X, Z).T
        close("rectangle", kernel(Z, X), wanted, 1e-11, 1e-12 * size, "k(Z, X) is k(X, Z)'")
        order = np.random.default_rng(2).permutation(n)
        mixed = K[np.ix_(order, order)]
        close("rows", kernel(X[order]), mixed, 1e-11, 1e-12 * size, "k sees what is in a row only")
        close("shape", kernel(X[:1]).shape, (1, 1), 0.0)
        close("shape", kernel(X, X[:0]).shape, (n, 0), 0.0)
        close("shape", kernel.diag(X[:0]).shape, (0,), 0.0)
        if signal is kernel:
            close("noise", kernel(X, X), K, 1e-11, 1e-13 * size, "k(X, X) is k(X) without noise")
    total = sum(term(X) for term in kernel.terms())
    close("terms", total, K, 1e-11, 1e-12 * size, "the terms must add up to the kernel")
    close("multiple", kernel.multiple(X, None, 2.5), 2.5 * K, 1e-12, 1e-13 * size)
    out = np.full((n, n), np.nan)
    close("written", kernel.written(X, out, 2.5), 2.5 * K, 1e-12, 1e-13 * size)
    sums = np.ones((n, n))
    kernel._add_to(sums, X, None)
    close("multiple", sums, 1.0 + K, 1e-12, 1e-12 * max(size, 1.0), "k(X) must be added in place")


def per_column(kernel: Kernel, X: Array) -> Kernel | None:
    """Return the kernel with one value per column where it takes one, None if nowhere."""
    vectors, found = copy.deepcopy(kernel), False
    for name in kernel.domains:
        value = getattr(kernel, name)
        if np.ndim(value) or value is None:
            continue
        trial = copy.deepcopy(vectors)
        setattr(trial, name, value * np.linspace(0.8, 1.3, X.shape[1]))
        try:
            trial(X)
            if X.shape[1] == 1 and np.shape(trial.pullback(X, None, np.eye(len(X)))[name]) != (1,):
                continue  # a vector of one is taken for a number
        except (ValueError, TypeError):
            continue
        vectors, found = trial, True
    return vectors if found else None


def _check_gradient(kernel: Kernel, X: Array, Z: Array | None, Q: Array, tol: float) -> None:
    value, stated = kernel._value_and_pullback(X, Z, Q)
    paths = [path for path, _, _ in kernel.differentiable()]
    same = kernel.pullback(X, Z, Q)
    for path in paths:
        sentence = f"pullback must return it, and returns {sorted(same)}"
        holds(f"gradient of {path}", path in same and path in stated, sentence)
    names = set(paths)
    holds("gradient", set(same) == names, f"pullback must name {sorted(names)}, not {sorted(same)}")
    K = kernel(X, Z)
    size = float(np.abs(Q * K).sum())
    close("gradient", value, (Q * K).sum(), 0.0, 1e-11 * size + 1e-300, "<Q, k> comes along")
    moved = kernel.__sklearn_clone__()
    for path, owner, name in moved.differentiable():
        given = np.asarray(stated[path], dtype=np.float64)
        at = np.array(getattr(owner, name), dtype=np.float64)

        def inner(theta: Array, owner: object = owner, name: str = name) -> float:
            setattr(owner, name, theta if theta.ndim else float(theta))
            return float((Q * moved(X, Z)).sum())

        clause = f"gradient of {path}"
        holds(clause, given.shape == at.shape, f"shape {at.shape} is expected, not {given.shape}")
        enough = False
        for step in (
            1e-3,
            1e-4,
        ):  # a higher derivative may jump between the points of the wider one
            numeric = gradient(inner, at, step)
            bound = tol * float(np.abs(numeric).max(initial=0.0)) + 1e-10 * size
            enough = enough or float(np.abs(given - numeric).max(initial=0.0)) <= bound
        setattr(owner, name, at if at.ndim else float(at))
        holds(clause, enough, f"differences give {numeric}, pullback returns {given}")
