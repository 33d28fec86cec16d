"""Several threads in the compiled core: the same bits as one, and no more of them than allowed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mercer._native import core, machines
from mercer.core import arrays
from mercer.kernels import RBF

# rows and columns around tiles of 128, blocks of 64 rows, fours of rows and sixteens of columns
SIZES = [(1, 1), (3, 500), (129, 127), (261, 387), (517, 30)]


def same_for_all(call: Callable[[int], np.ndarray]) -> None:
    one = call(1)
    assert np.all(np.isfinite(one))
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(call(threads), one)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_formation(rng: np.random.Generator, n: int, m: int) -> None:
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    for profile in (-1, 0, 3):

        def formed(threads: int, profile: int = profile) -> np.ndarray:
            own, cross = np.full((n, n), np.nan), np.full((n, m), np.nan)
            core.stationary(profile, X, X, True, own, 0.5, threads)
            core.stationary(profile, X, Z, False, cross, 1.0, threads)
            return np.hstack([own, cross])

        same_for_all(formed)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_products_and_gradients(rng: np.random.Generator, n: int, m: int) -> None:
    X, Z, V = rng.normal(size=(n, 3)), rng.normal(size=(m, 3)), rng.normal(size=(5, m))
    Q, S = rng.normal(size=(n, m)), rng.normal(size=(n, n))
    S += S.T

    def product(threads: int) -> np.ndarray:
        out = np.full((n, 5), np.nan)
        core.stationary_matmul(1, X, Z, V, out, 2.0, threads)
        return out

    def gradient(threads: int) -> np.ndarray:
        sums = np.full((3, 3), np.nan)
        cross = core.stationary_pullback(2, X, Z, False, Q, sums[0], threads)
        own = core.stationary_pullback(2, X, X, True, S, sums[1], threads)
        core.weighted_spread(X, Z, Q, sums[2], threads)
        return np.append(sums, [cross, own])

    def weights(threads: int) -> np.ndarray:
        A, M = S.copy(), S.copy()
        core.add_scaled_upper(S, X[:, 0].copy(), M, threads)
        core.scale_upper(M, X[:, 1].copy(), 1.5, M, threads)
        core.gradient_weights(A, X[:, 2].copy(), X, 2.0, threads)
        return np.hstack([A, M])

    for call in (product, gradient, weights):
        same_for_all(call)


@pytest.mark.parametrize("outputs", [1, 7, 8, 16, 37])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_single_precision(rng: np.random.Generator, n: int, m: int, outputs: int) -> None:
    X, Z = rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(m, 3)).astype(np.float32)
    alpha, columns = rng.normal(size=(outputs, m)), np.ascontiguousarray(Z.T)
    slots = rng.permutation(n)

    def expanded(threads: int) -> np.ndarray:
        out = np.full((n, outputs), np.nan)
        machines.rbf_expand(X, columns, alpha, out, threads)
        return out

    def rows(threads: int) -> np.ndarray:
        out = np.full((n, m), np.nan, dtype=np.float32)
        machines.rbf_rows(X, columns, slots, out, threads)
        return out

    same_for_all(expanded)
    same_for_all(rows)
    K = RBF()(X.astype(float), Z.astype(float))
    np.testing.assert_allclose(rows(3)[slots], K, rtol=0, atol=4e-7)
    near = 6e-7 * np.abs(alpha).sum(axis=1)  # values of K to 4e-7, and the roundings of sums
    assert np.all(np.abs(expanded(3) - K @ alpha.T) <= near)


def test_product_to_two_millionths(rng: np.random.Generator) -> None:
    """The relative error of a product in single precision, 8 columns and 16 right-hand sides."""
    X, V = rng.normal(size=(700, 8)), rng.normal(size=(700, 16))
    kernel = 3.0 * RBF(length_scale=2.0)
    exact, single = kernel(X) @ V, kernel.matmul(X, X, V, precision="single")
    assert np.linalg.norm(single - exact) <= 2e-6 * np.linalg.norm(exact)


def test_as_many_as_the_blas_may() -> None:
    many = 1000 * arrays.SHARE
    with threadpool_limits(1, user_api="blas"):
        assert arrays.threads(many) == 1
    with threadpool_limits(3, user_api="blas"):
        assert arrays.threads(many) == 3
        assert arrays.threads(2 * arrays.SHARE) == 2
        assert arrays.threads(arrays.SHARE) == 1
        assert arrays.threads(0) == 1


def test_threads_must_be_a_count() -> None:
    X, out = np.zeros((3, 1)), np.empty((3, 3))
    with pytest.raises(TypeError):
        core.stationary(0, X, X, True, out, 1.0, -1)
    core.stationary(0, X, X, True, out, 1.0, 0)  # none is one
    core.stationary(0, X, X, True, out, 1.0, 10**9)  # no more than there are tiles
    np.testing.assert_array_equal(out, 1.0)


def test_other_python_threads_go_on(rng: np.random.Generator) -> None:
    """Two callers at once: each has its own threads, and neither holds the interpreter."""
    X, results = rng.normal(size=(300, 4)), {}

    def work(name: int) -> None:
        for _ in range(20):
            results[name] = np.empty((300, 300))
            core.stationary(0, X, X, True, results[name], 1.0, 2)

    callers = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for name in range(3):
        np.testing.assert_array_equal(results[name], RBF()(X))


INTERRUPTED = """
import signal, threading, time
import numpy as np
from mercer._native import core

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
X = np.random.default_rng(0).normal(size=(60_000, 2))
V, out = np.ones((8, len(X))), np.empty((len(X), 8))
threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
before = time.process_time()
try:
    core.stationary_matmul(0, X, X, V, out, 1.0, 3)
except KeyboardInterrupt:
    assert time.process_time() - before < 5.0  # of the 30 it takes to the end
    assert threading.active_count() == 1
    print("ended")
"""


def test_interrupt_ends_all_threads() -> None:
    # in a process of its own: only a main thread hears signals, and workers of tests have none
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert done.stdout == "ended\n", done.stderr
