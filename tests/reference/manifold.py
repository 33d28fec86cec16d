"""Manifold regularisation written down as it stands: loops, dense matrices, one formula."""

import numpy as np

from tests.reference import med
from tests.reference.med import discriminate


def arrays(manifold):
    """All arrays that a memory consists of, its sparse graph included."""
    found = {name: value for name, value in vars(manifold).items() if isinstance(value, np.ndarray)}
    graph = vars(manifold).get("graph")
    parts = () if graph is None else ("data", "indices", "indptr")
    return found | {name: getattr(graph, name) for name in parts}


LABELLED = 4  # rows of each batch of the reference stream with a label
# coefficients, bias, k_t between the two new points: C = 10, beta = 0.5, 4 neighbours, h = 0.5
# fmt: off - one batch in a row
STREAM = [
    ([0.6724516428, 0.2885829077, 7.8932879306, 8.8543224811], 0.5455617756001, 0.3707718754678),
    ([0.0, 0.0811680418, 8.920939466, 9.0021075078], -0.0588273122667, 0.3858567963831),
    ([0.0, 0.570941328, 8.4388012302, 9.0097425582], 0.4685547515839, 0.4103427620540),
]
# fmt: on
DECISION = [0.9115911352, 0.7262684931]
FIRST_ROW = [1, -0.192869722, 0, 0, -0.2029005601, -0.3239634362, -0.2483220285, 0, 0, 0]
EIGENVALUES = [
    0, 0.31865188277, 0.73845562366, 0.96266555283, 1.1897112335,
    1.2880304171, 1.3146545813, 1.3315525214, 1.3770724186, 1.4792057688,
]  # fmt: skip
# the scheme of section 3.2 of the paper, three readings of it
AVERAGED = {
    "smallest": [0.9191114784, 0.6945284739],
    "largest": [0.9569817305, 0.9208218682],
    "moment": [0.9494463529, 0.8663965937],
}
MOMENT_S, MOMENT_D = [2.6366263802, 1.7078308359], [0.3598267049, 0.7252486299]


def laplacian(X, k, h):
    """I - D^-1/2 W D^-1/2, W_ij = exp(-d^2/(4h)) if one is among the k nearest of the other."""
    n = len(X)
    W = np.zeros((n, n))
    for i in range(n):
        d2 = [np.sum((X[i] - X[j]) ** 2) if j != i else np.inf for j in range(n)]
        for j in np.argsort(d2, kind="stable")[: min(k, n - 1)]:
            W[i, j] = W[j, i] = np.exp(-d2[j] / (4.0 * h))
    root = np.sqrt(W.sum(axis=1))
    return np.eye(n) - W / root[:, None] / root


def conditioned(K, M):
    """P = (I + M K)^-1 M."""
    return np.linalg.solve(np.eye(len(K)) + M @ K, M)


def block_diagonal(blocks):
    n = sum(map(len, blocks))
    M, i = np.zeros((n, n)), 0
    for block in blocks:
        M[i : i + len(block), i : i + len(block)] = block
        i += len(block)
    return M


def stream(kernel, batches, C, beta, k, h, new):
    """Sequential LapMED by the single formula over all rows so far, anew at each step.

    ``batches`` are (X, y) with y = 0 for no label. Return the decisions at ``new`` and k_t among
    its points after each batch.
    """
    rows, coef, blocks, found = np.zeros((0, new.shape[1])), np.zeros(0), [], []
    for X, y in batches:
        before = len(rows)
        rows = np.concatenate([rows, X])
        blocks.append(2.0 * beta * laplacian(X, k, h))
        P = conditioned(kernel(rows), block_diagonal(blocks))

        def now(A, B, P=P, rows=rows):
            return kernel(A, B) - kernel(A, rows) @ P @ kernel(rows, B)

        lab = np.flatnonzero(y)
        f0 = now(X[lab], rows[:before]) @ coef
        solved = discriminate(now(X[lab], X[lab]), y[lab], C, offset=f0)
        more = np.zeros(len(X))
        more[lab] = y[lab] * solved.alpha
        coef = np.append(coef, more)
        found.append((now(new, rows) @ coef + solved.bias, now(new, new)))
    return found


def averaged(kernel, batches, C, beta, k, h, new, reading):
    """Section 3.2 of the paper: from the third batch on the prior is that of r averaged vectors.

    Readings: singular vectors averaged (largest entry positive) with the "smallest" or "largest"
    eigenvalues of the Laplacians, or "moment": eigenvectors v of the mean X'X with eigenvalues s^2
    and d = v'(mean X'LX) v / s^2. Return the decisions at ``new``, s and d.
    """
    rows, coef, past = np.zeros((0, new.shape[1])), np.zeros(0), []
    for t, (X, y) in enumerate(batches):
        L = laplacian(X, k, h)
        base = kernel
        if t >= 2:
            V, s, d = _directions(past, reading)
            D = np.diag(2.0 * beta * len(past) * s**2 * d)
            base = _less(kernel, V.T, conditioned(kernel(V.T, V.T), D))
        elif t == 1:
            X0, L0 = past[0]
            base = _less(kernel, X0, conditioned(kernel(X0, X0), 2.0 * beta * L0))
        now = _less(base, X, conditioned(base(X, X), 2.0 * beta * L))
        lab = np.flatnonzero(y)
        f0 = now(X[lab], rows) @ coef if len(rows) else np.zeros(len(lab))
        solved = discriminate(now(X[lab], X[lab]), y[lab], C, offset=f0)
        more = np.zeros(len(X))
        more[lab] = y[lab] * solved.alpha
        rows, coef = np.concatenate([rows, X]), np.append(coef, more)
        past.append((X, L))
    return now(new, rows) @ coef + solved.bias, s, d


def _less(kernel, Z, P):
    return lambda A, B: kernel(A, B) - kernel(A, Z) @ P @ kernel(Z, B)


def _directions(past, reading):
    if reading == "moment":
        S = np.mean([X.T @ X for X, _ in past], axis=0)
        values, V = np.linalg.eigh(S)
        values, V = np.maximum(values[::-1], 1e-300), V[:, ::-1]  # fewer rows than columns: 0
        V = V * np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
        smooth = np.mean([X.T @ L @ X for X, L in past], axis=0)
        return V, np.sqrt(values), np.einsum("ij,ik,kj->j", V, smooth, V) / values
    found, r = [], min(min(X.shape) for X, _ in past)
    for X, L in past:
        _, s, Vt = np.linalg.svd(X, full_matrices=False)
        V = Vt.T * np.sign(Vt[np.arange(len(Vt)), np.abs(Vt).argmax(axis=1)])
        d = np.linalg.eigvalsh(L)
        found.append((V[:, :r], s[:r], d[:r] if reading == "smallest" else d[::-1][:r]))
    return tuple(np.mean([one[i] for one in found], axis=0) for i in range(3))


def reference_batches():
    """The reference stream, its first four rows labelled."""
    batches = []
    for t in range(3):
        X, y = med.batch(t)
        batches.append((X, np.where(np.arange(10) < LABELLED, y, 0.0)))
    return batches
