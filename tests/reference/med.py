"""Maximum entropy discrimination, written down as it stands and given to generic optimisers."""

from types import SimpleNamespace

import numpy as np
from scipy import optimize

from mercer.inference import MED
from mercer.linalg import DenseGram
from mercer.losses import Margin


def discriminate(K, y, C, *, weights=None, offset=None, previous=0.0, **options):
    """The package's own solver for one function: a, the bias, f without it, and the report."""
    found = MED(near=previous, **options).solve(
        DenseGram.given(K),
        y[:, None],
        Margin(C),
        mean=None if offset is None else offset[:, None],
        basis=np.ones((len(y), 1)),
        weights=weights,
    )
    report = found.report.plain() | {"objective": found.report.details["objective"][0]}
    bias = float(found.beta[0, 0])
    return SimpleNamespace(
        alpha=y * found.alpha[:, 0], bias=bias, latent=found.z[:, 0] - bias, report=report
    )


def loss(u, C):
    """g_C of u = 1 - y (f + b): C u - 1 - log(C u) where C u > 1, else 0."""
    r = np.maximum(C * np.asarray(u, dtype=float), 1.0)
    return r - 1.0 - np.log(r)


def dual(a, K, y, C, w, f0):
    """D(a) = -1/2 a'YKYa + a'(1 - Y f0) + sum w log(1 - a/(w C))."""
    c = y * a
    return -0.5 * c @ K @ c + a @ (1.0 - y * f0) + w @ np.log(1.0 - a / (w * C))


def primal(c, b, K, y, C, w, f0):
    """P with f = f0 + K c."""
    return 0.5 * c @ K @ c + w @ loss(1.0 - y * (f0 + K @ c + b), C)


def by_trust_region(K, y, C, w, f0):
    """Maximise the dual by SciPy's constrained optimiser; return a (n,)."""
    n = len(y)
    Q = y[:, None] * K * y
    found = optimize.minimize(
        lambda a: -dual(a, K, y, C, w, f0),
        np.full(n, 0.1) * w * C,
        jac=lambda a: Q @ a - (1.0 - y * f0) + 1.0 / (C - a / w),
        hess=lambda a: Q + np.diag(1.0 / (w * (C - a / w) ** 2)),
        method="trust-constr",
        bounds=optimize.Bounds(np.zeros(n), w * C * (1.0 - 1e-9), keep_feasible=True),
        constraints=optimize.LinearConstraint(y[None], 0.0, 0.0),
        options={"gtol": 1e-11, "xtol": 1e-13, "barrier_tol": 1e-11, "maxiter": 3000},
    )
    return found.x


def by_primal(K, y, C, w, f0):
    """Minimise the primal over (R'c, b), K = R R', by BFGS; return f (n,) and b."""
    values, vectors = np.linalg.eigh(K)
    R = vectors * np.sqrt(np.maximum(values, 0.0))
    n = len(y)

    def value(z):
        u = 1.0 - y * (f0 + R @ z[:n] + z[n])
        slope = -y * w * np.where(C * u > 1.0, C - 1.0 / np.where(C * u > 1.0, u, 1.0), 0.0)
        return 0.5 * z[:n] @ z[:n] + w @ loss(u, C), np.append(z[:n] + R.T @ slope, slope.sum())

    z = np.zeros(n + 1)
    for _ in range(3):
        z = optimize.minimize(value, z, jac=True, method="BFGS", options={"gtol": 1e-11}).x
    return f0 + R @ z[:n], z[n]


def batch(t):
    """Ten rows of the reference stream and their labels, the third one flipped."""
    i = np.arange(1, 11) + 17 * t
    X = np.column_stack([np.sin(1.3 * i), np.cos(0.9 * i + 0.3)])
    y = np.where(X[:, 0] + 0.6 * X[:, 1] > 0.1, 1.0, -1.0)
    y[2] *= -1.0
    return X, y


NEW = np.array([[0.3, -0.2], [-1.0, 0.5]])
# coefficients, bias and dual value of three batches at C = 10, k = exp(-d^2/2)
# fmt: off - ten coefficients in a row
STREAM = [
    (
        [
            0,
            7.3632053286,
            9.2363258193,
            5.9148207513,
            0,
            0,
            0.2363974971,
            0,
            2.8306573107,
            8.0904505829,
        ],
        -0.2309902596268,
        20.5184882351267,
    ),
    (
        [0, 0, 9.311161917, 8.3421599655, 0, 0, 1.1071266748, 2.0761286264, 0, 0],
        -0.5031477252698,
        15.6843792328863,
    ),
    (
        [
            0,
            0,
            9.4115693144,
            5.7757585856,
            8.9427011245,
            0,
            2.1439966348,
            0.1335378535,
            4.0576063623,
            7.3540379768,
        ],
        0.2410356892745,
        26.1710118710546,
    ),
]
# fmt: on
DECISION = [0.7720939724, -1.1054099997]


def categorical(rng, n):
    """Simulation 1: 200 categorical variables (n, 200) and labels -1, +1."""
    y = np.where(rng.random(n) < 0.5, 1, -1)
    U = rng.random((n, 200))
    high, low = np.array([0.55, 0.20, 0.15, 0.10]), np.array([0.70, 0.15, 0.10, 0.05])
    p = np.empty((n, 200, 4))
    p[:, :100], p[:, 100:150] = [0.94, 0.03, 0.02, 0.01], [0.50, 0.25, 0.15, 0.10]
    p[:, 150:175] = np.where(y[:, None, None] == 1, high, low)
    p[:, 175:] = np.where(y[:, None, None] == 1, low, high)
    return np.sum(np.cumsum(p, axis=2)[:, :, :3] <= U[:, :, None], axis=2), y


def categorical_stream(seed, batches):
    """Return the batches and a test set of 1000 rows as TF-IDF features of unit length.

    The stream has 30 batches whatever ``batches`` is, so that the test set is the same.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(97, 104, size=30)
    drawn = [categorical(rng, n) for n in sizes]
    test = categorical(rng, 1000)
    first = drawn[0][0]
    idf = np.log((1.0 + len(first)) / (1.0 + np.sum(first > 0, axis=0))) + 1.0

    def features(counts):
        Z = np.log1p(counts) * idf
        return Z / np.linalg.norm(Z, axis=1, keepdims=True)

    return [(features(x), y) for x, y in drawn[:batches]], (features(test[0]), test[1])
