"""How compiled functions of general processes and of sequences are called, and their answers."""

from __future__ import annotations

import numpy as np

from mercer.kernels import Cosine, Matern, Operator
from tests.attacks.native_draws import Arguments, Case, empty, size


def drawn(rng: np.random.Generator) -> tuple[Arguments, np.ndarray]:
    """A process of two blocks at some points, and its covariance there."""
    kernel = Matern(nu=1.5) * Cosine(period=1.7) + Operator(rng.uniform(0.5, 2.0, 3))
    n = size(rng, 1)
    gaps = rng.uniform(0.0, 1.0, n - 1)
    x = np.concatenate([[0.0], np.cumsum(gaps)])
    sizes, F, N, P = kernel.markov_process().arrays
    return {"sizes": sizes, "F": F, "N": N, "P": P, "gaps": gaps}, kernel(x[:, None])


def process_logdet(rng: np.random.Generator) -> Case:
    given, K = drawn(rng)
    W = rng.uniform(0.5, 2.0, len(K))
    return given | {"W": W}, {"return": np.linalg.slogdet(K + np.diag(1.0 / W))[1]}


def process_smooth(rng: np.random.Generator) -> Case:
    given, K = drawn(rng)
    n, W = len(K), rng.uniform(0.5, 2.0, len(K))
    Z = rng.normal(size=(n, int(rng.integers(0, 3))))
    C = np.linalg.inv(K + np.diag(1.0 / W))
    given |= {"W": W, "Z": Z, "solved": empty(*Z.shape), "inverse": empty(n), "variance": empty(n)}
    expected = {"solved": C @ Z, "inverse": np.diag(C), "variance": np.diag(K - K @ C @ K)}
    return given, expected


def process_times(rng: np.random.Generator) -> Case:
    given, K = drawn(rng)
    V = rng.normal(size=(len(K), int(rng.integers(0, 3))))
    return given | {"V": V, "out": empty(*V.shape)}, {"out": K @ V}


def process_gradient(rng: np.random.Generator) -> Case:
    given, K = drawn(rng)
    U, V = rng.normal(size=(2, len(K), int(rng.integers(0, 3))))
    given |= {"W": rng.uniform(0.5, 2.0, len(K)), "U": U, "V": V, "share": 0.3}
    return given | {"dF": np.zeros_like(given["F"]), "dP": np.zeros_like(given["F"])}, {}


def subsequences(rng: np.random.Generator) -> Case:
    n, m, width = size(rng, 1), size(rng, 1), int(rng.integers(1, 6))
    X, Z = rng.integers(0, 3, (n, width)), rng.integers(0, 3, (m, width))
    counts = [[float(sum(a == b for a in x for b in z)) for z in Z] for x in X]
    given = {"X": X, "Z": Z, "order": 1, "decay": 0.5, "pairs": 2}
    given |= {"K": empty(n, m), "slope": empty(n, m)}
    return given, {"K": 0.25 * np.array(counts), "slope": np.array(counts)}
