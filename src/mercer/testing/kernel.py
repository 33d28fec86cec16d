"""The contract of a kernel: values, gradients, and every ability that it says it has."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mercer._native import rational
from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.features.explicit import width_of
from mercer.kernels.markov import ANY
from mercer.linalg.line import Line
from mercer.testing.clauses import check_component, close, close_whole, gradient, holds


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
        in_units, as_rbf, features, matmul, state_space, markov_process, frozen, pairwise, resolve,
        workspace.

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
    _check_arrays(kernel, points)
    _check_profile(kernel)
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
    _check_columns(kernel, points)
    _check_units(kernel, points)
    _check_features(kernel, points, others)
    _check_explicit(kernel, points)
    _check_matmul(kernel, points, points if kernel.pairwise else others)
    _check_states(kernel, points)
    _check_process(kernel, points)
    _check_frozen(kernel, points, others)
    room = kernel.workspace()
    holds("workspace", isinstance(room, int) and room >= 0, f"a whole number, not {room!r}")


def _check_values(kernel: Kernel, X: Array) -> None:
    n, K = len(X), kernel(X)
    plain = isinstance(K, np.ndarray) and K.shape == (n, n) and K.dtype == np.float64
    plain = plain and K.flags.c_contiguous and K.flags.writeable
    holds("shape", plain, "k(X) must be an (n, n) array of float64, writeable and C-ordered")
    holds("finite", np.all(np.isfinite(K)), "k(X) must be finite")
    if not kernel.positional:
        twice = np.vstack([X[:2], X[:2]])
        for values in (kernel(twice), kernel(twice, X[:2])):
            holds("finite", np.all(np.isfinite(values)), "k must be finite at distance zero")
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


def _check_arrays(kernel: Kernel, X: Array) -> None:
    """Results are fresh, inputs are left alone, and how they lie in memory does not matter."""
    K = kernel(X)
    before = K.copy()
    kernel(X[::-1] if not kernel.positional else X)
    close("fresh array", K, before, 0.0, 0.0, "a later call must not change an earlier result")
    for method in (kernel, kernel.diag):
        found = method(X)
        kept = np.array(found)
        found *= 2.0
        close("fresh array", method(X), kept, 0.0, 0.0, "what the caller does to a result is his")
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
    same = np.array_equal(single, X)
    if same or not kernel.positional:
        exact = before if same else kernel(single.astype(np.float64))
        K = kernel(single)  # type: ignore[arg-type]  # that is the question
        holds("float32", K.dtype == np.float64, "k(X) is float64 whatever X is")
        close_whole("float32", K, exact, 1e-12, "single precision is an input, not an arithmetic")


def _check_profile(kernel: Kernel) -> None:
    s = np.linspace(0.0, 4.0, 9)
    for name in ("profile", "slope"):
        function = getattr(kernel, name, None)
        if function is not None:
            given = s.copy()
            finite = np.all(np.isfinite(function(given)))
            close("profile", given, s, 0.0, 0.0, f"{name}(s) must leave s as it is")
            holds("profile", finite, f"{name}(s) must be finite, at s = 0 as well")


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
        shapes = kernel(X[:1]).shape, kernel(X, X[:0]).shape, kernel.diag(X[:0]).shape
        holds("shape", shapes == ((1, 1), (n, 0), (0,)), f"of one row and of none, not {shapes}")
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
    names = {path for path, _, _ in kernel.differentiable()}
    same = kernel.pullback(X, Z, Q)
    for path in sorted(names - (set(same) & set(stated))):
        holds(f"gradient of {path}", False, f"pullback must return it, and returns {sorted(same)}")
    holds("gradient", set(same) == names, f"pullback must name {sorted(names)}, not {sorted(same)}")
    K = kernel(X, Z)
    size = float(np.abs(Q * K).sum())
    close("gradient", value, (Q * K).sum(), 0.0, 1e-11 * size + 1e-300, "<Q, k> comes along")
    moved = kernel.__sklearn_clone__()
    for path, owner, name in moved.differentiable():
        clause, given = f"gradient of {path}", np.asarray(stated[path], dtype=np.float64)
        shape = np.shape(getattr(owner, name))
        holds(clause, given.shape == shape, f"shape {shape} is expected, not {given.shape}")
        enough = False
        # a higher derivative may jump between the points of the wider step
        for step in (1e-3, 1e-4):
            numeric = gradient(lambda: float((Q * moved(X, Z)).sum()), owner, name, step)
            bound = tol * float(np.abs(numeric).max(initial=0.0)) + 1e-10 * size
            enough = enough or float(np.abs(given - numeric).max(initial=0.0)) <= bound
        holds(clause, enough, f"differences give {numeric}, pullback returns {given}")


def _check_columns(kernel: Kernel, X: Array) -> None:
    """A pairwise kernel hands its inputs through; columns by position stay what they are."""
    K, parts = kernel(X), kernel._parts()
    if parts:
        wanted, reason = any(part.pairwise for part in parts.values()), "a part inside says so"
    else:
        wanted = X.shape == K.shape and np.allclose(K, X)
        reason = "k(X) is X itself" if wanted else "k(X) is computed from points, it is not X"
    holds("pairwise", kernel.pairwise == wanted, f"it must be {wanted}: {reason}")
    for names in (None, [f"column {j}" for j in range(X.shape[1])]):
        found = kernel.resolve(names, X.shape[1])(X)
        close("resolve", found, K, 0.0, 0.0, "columns by position stay what they are")


def _check_units(kernel: Kernel, inside: Array) -> None:
    """k.in_units(shift, scale) at x is k at (x - shift) / scale; powers of two lose no digit."""
    d, K, diag = inside.shape[1], kernel(inside), kernel.diag(inside)
    size = 1e-12 * max(1.0, float(np.abs(K).max()))
    by_row = kernel.positional or kernel.pairwise or type(kernel).__name__ == "Precomputed"
    shift = np.zeros(d) if by_row else np.resize([-2.0, 3.0, 0.5], d)
    scales = [np.full(d, 4.0)] if by_row else [np.resize([0.5, 4.0, 2.0], d), np.full(d, 4.0)]
    for scale in scales:
        outside = kernel.in_units(shift, scale)
        X = inside * scale + shift
        sentence = f"k((x - shift) / scale) is expected at x, scale {scale}"
        close("in_units", outside(X), K, 1e-9, size, sentence)
        close("in_units", outside.diag(X), diag, 1e-9, size, f"diag: {sentence}")
        twice = outside.in_units(np.zeros(d), np.full(d, 2.0))
        close("in_units", twice(2.0 * X), K, 1e-9, size, "units may be changed again")
        if list(kernel.differentiable()):
            kept = kernel.fix().in_units(shift, scale).free
            holds("in_units", kept == {}, f"fixed parameters stay fixed, and {list(kept)} are free")


def _check_features(kernel: Kernel, X: Array, Z: Array) -> None:
    """What the kernel is a function of: scaled points of an RBF, or features."""
    scaled, F, K = kernel.as_rbf(X, X.mean(axis=0)), kernel.features(X), kernel(X)
    if scaled is not None:
        P, v = scaled
        squares = np.square(P[:, None, :] - P[None, :, :]).sum(axis=-1)
        text = "v exp(-|z_i - z_j|^2 / 2) must be k(x_i, x_j)"
        close_whole("as_rbf", v * np.exp(-0.5 * squares), K, 1e-10, text)
    if F is None:
        return
    holds("features", len(F) == len(X), f"phi(X) has a row per row of X, not shape {np.shape(F)}")
    size, text = 1e-12 * float(np.abs(K).max()), "phi(x)'phi(z) must be k(x, z)"
    close("features", F @ F.T, K, 0.0, size, text)
    close("features", F @ kernel.features(Z).T, kernel(X, Z), 0.0, size, text)
    if kernel.takes_sparse:
        found = kernel.features(csr_array(X))
        dense: Any = found.toarray() if hasattr(found, "toarray") else found
        close_whole("features", dense, F, 1e-12, "sparse rows must have the features of dense ones")


def _check_explicit(kernel: Kernel, X: Array) -> None:
    """The map of weight space, and its gradient: <G, k(X, X)> by the features alone."""
    m = width_of(kernel, X)
    if not m:  # infinitely many, or noise alone
        return
    F, K = kernel.signal().explicit(X), kernel.signal()(X, X.copy())
    size = float(np.abs(K).max(initial=0.0))
    holds("explicit", F.shape == (len(X), m), f"width says {m} columns, and phi(X) is {F.shape}")
    close("explicit", F @ F.T, K, 0.0, 1e-10 * size, "phi(x)'phi(z) must be k(x, z)")
    G = np.random.default_rng(6).standard_normal(K.shape)
    G = G + G.T
    wanted = kernel.pullback(X, X.copy(), G) if list(kernel.differentiable()) else {}
    found = kernel.explicit_pullback(X, F, 2.0 * G @ F)
    holds("explicit", found.keys() == wanted.keys(), f"slopes of {list(found)}")
    text = "the gradient of <G, phi phi'> must be that of <G, k(X, X)>"
    for path, slope in wanted.items():
        close_whole(f"explicit, {path}", found[path], slope, 1e-8, text)


def _check_matmul(kernel: Kernel, X: Array, Z: Array) -> None:
    """k(X, Z) @ V, whatever way it is computed: for no, few and many columns of V."""
    K, rng = kernel(X, Z), np.random.default_rng(4)
    for columns in (0, 1, 5, 40):
        V = rng.standard_normal((len(Z), columns))
        size = float(np.abs(K).max(initial=0.0)) * len(Z)
        for precision, tol in (("double", 1e-12), ("single", 2e-5)):
            found = kernel.matmul(X, Z, V, precision=precision)
            fine = found.shape == (len(X), columns) and found.dtype == np.float64
            holds("matmul", fine, f"a float64 array (n, r) is expected, not {found.shape}")
            close("matmul", found, K @ V, 0.0, tol * size, f"k(X, Z) @ V, {precision} precision")
        if kernel.takes_sparse:
            found = kernel.matmul(csr_array(X), csr_array(Z), V)
            close("matmul", found, K @ V, 0.0, 1e-11 * size, "sparse rows are as dense ones")
    if not kernel.pairwise:
        none = kernel.matmul(X, Z[:0], np.zeros((0, 2)))
        holds("matmul", none.shape == (len(X), 2) and not none.any(), "zero without any points z")


def _check_states(kernel: Kernel, X: Array) -> None:
    states = kernel.state_space()
    if states is None:
        return
    wide = X[:, :1] if states.column is None else X
    x = states.line(wide)
    distance = np.abs(x[:, None] - x[None, :])
    total = np.zeros(distance.shape)
    for order, rate, variance in zip(states.orders, states.rates, states.variances, strict=True):
        r = rate * distance
        series = {1: 1.0, 2: 1.0 + r, 3: 1.0 + r + r**2 / 3.0}[int(order)]
        total += variance * series * np.exp(-r)
    text = "the sum of its Matern processes must be the kernel on a line"
    close_whole("state_space", total, kernel(wide), 1e-10, text)
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, len(states.rates)))
    stated = kernel.state_space_pullback(a, b)
    moved = copy.deepcopy(kernel)

    def inner() -> float:
        now = moved.state_space()
        assert now is not None
        return float(a @ np.log(now.rates) + b @ np.log(now.variances))

    for path, owner, name in moved.differentiable():
        numeric = gradient(inner, owner, name)
        text = f"state_space_pullback of {path}"
        close("state_space", stated[path], numeric, 1e-7, 1e-8, text)


def _check_process(kernel: Kernel, X: Array) -> None:
    """k(r) = sum_b [exp(F_b r) P_b]_00 on a line, at rest, and its gradient by F and P."""
    from scipy.linalg import expm

    process = kernel.markov_process()
    if process is None or process.column == ANY:
        return
    wide = np.ascontiguousarray(X[:10, :1] if process.column is None else X[:10])
    x, K = process.line(wide), np.zeros((len(wide), len(wide)))
    for F, N, P in process.blocks:
        rest = F @ P + P @ F.T + N
        size = float(np.abs(F).max() * np.abs(P).max())
        close("markov_process", rest, 0.0 * rest, 0.0, 1e-9 * size, "F P + P F' + N must be zero")
        for i, j in np.ndindex(K.shape):
            K[i, j] += (expm(F * abs(x[i] - x[j])) @ P)[0, 0]
    close_whole("markov_process", K, kernel(wide), 1e-9, "its covariance must be the kernel")
    if process.size > rational.LARGEST:
        return
    U, V = np.random.default_rng(5).standard_normal((2, len(wide), 2))
    found = Line(process, wide).pullback(kernel, np.ones(len(wide)), 0.0, U, V)
    Q = U @ V.T
    for path, slope in kernel.pullback(wide, None, 0.5 * (Q + Q.T)).items():
        text = f"markov_pullback of {path}"
        close("markov_process", found[path], slope, 1e-6, 1e-7 * (1.0 + np.abs(slope).max()), text)


def _check_frozen(kernel: Kernel, X: Array, Z: Array) -> None:
    once = kernel.frozen(X)
    holds("frozen", isinstance(once, Kernel), "a kernel must be returned")
    holds("frozen", once.free == kernel.free, "the free parameters stay the same")
    for path, owner, name in kernel.differentiable():
        now = {p: getattr(o, n) for p, o, n in once.differentiable()}.get(path)
        same = now is not None and np.array_equal(now, getattr(owner, name))
        holds("frozen", same, f"{path} must stay {getattr(owner, name)}, not {now}")
    if kernel.positional:
        return
    K = once(X, Z)
    half = X[: max(2, len(X) // 2)]
    close("frozen", once.frozen(half)(X, Z), K, 1e-12, 1e-300, "what is taken once is kept")
    weights = np.resize([1.0, 3.0, 2.0], len(X))
    copies = np.repeat(X, weights.astype(int), axis=0)
    size = max(1e-300, float(np.abs(K).max()))
    by_weight, by_copies = kernel.frozen(X, weights)(X, Z), kernel.frozen(copies)(X, Z)
    close("frozen", by_weight, by_copies, 1e-8, 1e-9 * size, "a weight of 3 is three copies")
    try:
        plain = kernel(X, Z)
    except (ValueError, RuntimeError, NotImplementedError):
        return  # it cannot be evaluated before
    close("frozen", K, plain, 1e-12, 1e-13 * size, "a kernel that can be evaluated stays as it is")
