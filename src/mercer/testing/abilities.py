"""What a kernel offers to the layers above, clause by clause."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.testing.clauses import close, close_whole, gradient, holds


def check_abilities(kernel: Kernel, X: Array, Z: Array) -> None:
    """Check in_units, as_rbf, features, matmul, state_space, frozen, pairwise, resolve."""
    _check_pairwise(kernel, X)
    _check_resolve(kernel, X)
    _check_units(kernel, X)
    _check_rbf(kernel, X)
    _check_features(kernel, X, Z)
    _check_matmul(kernel, X, X if kernel.pairwise else Z)
    _check_states(kernel, X)
    _check_frozen(kernel, X, Z)
    room = kernel.workspace()
    holds("workspace", isinstance(room, int) and room >= 0, f"a whole number, not {room!r}")


def _check_pairwise(kernel: Kernel, X: Array) -> None:
    """A pairwise kernel hands its inputs through: they are the values."""
    stated, parts = kernel.pairwise, kernel._parts()
    if parts:
        inside = any(part.pairwise for part in parts.values())
        holds("pairwise", stated == inside, f"a part inside says {inside}, the kernel {stated}")
        return
    K = kernel(X)
    values = X.shape == K.shape and np.allclose(K, X)
    sentence = "k(X) is X itself" if values else "k(X) is computed from points, it is not X"
    holds("pairwise", stated == values, f"{sentence}, so that it must be {values}, not {stated}")


def _check_resolve(kernel: Kernel, X: Array) -> None:
    names = [f"column {j}" for j in range(X.shape[1])]
    for given in (None, names):
        found = kernel.resolve(given, X.shape[1])
        close("resolve", found(X), kernel(X), 0.0, 0.0, "columns by position stay what they are")


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
        fixed = [path for path, _, _ in kernel.differentiable()]
        if fixed:
            kept = kernel.fix().in_units(shift, scale).free
            holds("in_units", kept == {}, f"fixed parameters stay fixed, and {list(kept)} are free")


def _check_rbf(kernel: Kernel, X: Array) -> None:
    found = kernel.as_rbf(X, X.mean(axis=0))
    if found is None:
        return
    Z, v = found
    squares = np.square(Z[:, None, :] - Z[None, :, :]).sum(axis=-1)
    text = "v exp(-|z_i - z_j|^2 / 2) must be k(x_i, x_j)"
    close_whole("as_rbf", v * np.exp(-0.5 * squares), kernel(X), 1e-10, text)


def _check_features(kernel: Kernel, X: Array, Z: Array) -> None:
    F = kernel.features(X)
    if F is None:
        return
    holds("features", len(F) == len(X), f"phi(X) has a row per row of X, not shape {np.shape(F)}")
    close_whole("features", F @ F.T, kernel(X), 1e-12, "phi(x)'phi(z) must be k(x, z)")
    cross = F @ kernel.features(Z).T
    size = float(np.abs(kernel(X)).max())
    close("features", cross, kernel(X, Z), 0.0, 1e-12 * size, "phi(x)'phi(z) must be k(x, z)")
    if kernel.takes_sparse:
        found = kernel.features(csr_array(X))
        dense: Any = found.toarray() if hasattr(found, "toarray") else found
        close_whole("features", dense, F, 1e-12, "sparse rows must have the features of dense ones")


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
    for path, owner, name in moved.differentiable():
        at = np.array(getattr(owner, name), dtype=np.float64)

        def inner(theta: Array, owner: object = owner, name: str = name) -> float:
            setattr(owner, name, theta if theta.ndim else float(theta))
            now = moved.state_space()
            assert now is not None
            return float(a @ np.log(now.rates) + b @ np.log(now.variances))

        numeric = gradient(inner, at)
        setattr(owner, name, at if at.ndim else float(at))
        text = f"state_space_pullback of {path}"
        close("state_space", stated[path], numeric, 1e-7, 1e-8, text)


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
