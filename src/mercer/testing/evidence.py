"""The clauses on an evidence: its value by three limits, its gradient by differences."""

from __future__ import annotations

from functools import partial

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Inference
from mercer.kernels import RBF
from mercer.kernels.base import Kernel
from mercer.linalg import DenseGram
from mercer.losses import Gaussian
from mercer.losses.base import Loss
from mercer.search import EvidenceCriterion, Problem, Space, simple_problem
from mercer.testing.clauses import close, holds


def check_evidence(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
) -> None:
    """Check the gradient and the value."""
    check_evidence_gradient(inference, loss, X, y, kernel, tol)
    _check_vanishing(inference, loss, X, y)
    _check_independent(inference, loss, X, y)
    _check_exact(inference, X)


def _evidence(inference: Inference, loss: Loss, kernel: Kernel, X: Array, y: Array) -> float:
    gram = DenseGram(kernel, X, keep=True)
    found = inference.evidence(gram, y, loss, inference.solve(gram, y, loss))
    return float(found.value)


def _check_vanishing(inference: Inference, loss: Loss, X: Array, y: Array) -> None:
    """A prior that hardly varies knows f: the evidence is that of f = 0."""
    value = _evidence(inference, loss, 1e-10 * RBF(), X, y)
    if loss.response == "multiclass":
        total = float(loss.value(y[:, 0], np.zeros((len(y), int(y.max()) + 1))).sum())
    else:
        total = sum(float(loss.value(c, np.zeros(len(c))).sum()) for c in y.T)
    text = "with a prior that hardly varies it must be -sum g(y, 0)"
    close("evidence", value, -total, 1e-6, 1e-6, text)


def _check_independent(inference: Inference, loss: Loss, X: Array, y: Array) -> None:
    """What is observed at places that know nothing of each other multiplies."""
    if loss.response == "multiclass":
        return  # a part need not have all classes
    half = max(1, len(X) // 2)
    apart = 10.0 * np.arange(len(X), dtype=np.float64)[:, None]
    apart[half:] += 1e4
    kernel = 1.7 * RBF(4.0)
    whole = _evidence(inference, loss, kernel, apart, y)
    parts = [
        _evidence(inference, loss, kernel, apart[s], y[s]) for s in (slice(half), slice(half, None))
    ]
    text = "the evidence of two independent halves must be the sum of theirs"
    close("evidence", whole, sum(parts), 1e-6, 1e-5, text)


def _check_exact(inference: Inference, X: Array) -> None:
    """A Gaussian loss has a closed form, whatever the inference."""
    loss, kernel = Gaussian(noise=0.3), 1.4 * RBF(1.1)
    try:
        inference.check(loss)
    except ValueError:
        return
    y = np.sin(2.0 * X[:, :1]) + 0.3 * np.cos(7.0 * X[:, :1])
    value = _evidence(inference, loss, kernel, X, y)
    Ky = kernel(X) + 0.3 * np.eye(len(X))
    wanted = -0.5 * float(y[:, 0] @ np.linalg.solve(Ky, y[:, 0]))
    wanted -= 0.5 * float(np.linalg.slogdet(2.0 * np.pi * Ky)[1])
    close("evidence", value, wanted, 1e-6, 1e-6, "that of Gaussian noise in closed form")


def check_evidence_gradient(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float = 1e-5
) -> None:
    """Check the gradient of the evidence by formula (3), for all parameters of kernel and loss.

    A clause of :func:`check_inference`, for kernels with which the others would be too hard.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference import Exact
    >>> from mercer.losses import Gaussian
    >>> X = np.linspace(0, 3, 8)[:, None]
    >>> check_evidence_gradient(Exact(), Gaussian(noise=0.3), X, np.sin(X), 1.5 * RBF())
    """
    inference.check(loss)
    _check_gradient(inference, loss, simple_problem(X, y), kernel, tol)


def _check_gradient(
    inference: Inference, loss: Loss, problem: Problem, kernel: Kernel, tol: float
) -> None:
    space = Space({"kernel": kernel, "loss": loss})
    criterion = EvidenceCriterion(space, problem, inference)
    value, gradient = criterion(space.start)
    holds("evidence", np.isfinite(value), f"it must be finite, not {value}")
    step = 1e-4
    names = [n for e in space.entries for n in [e.name] * (e.where.stop - e.where.start)]
    for i, name in enumerate(names):
        move = step * np.eye(len(space))[i]
        ahead, back = (criterion(space.start + sign * move)[0] for sign in (1.0, -1.0))
        numeric = (ahead - back) / (2 * step)
        error = abs(gradient[i] - numeric)
        text = f"differences of the evidence give {numeric:.8g}, formula (3) {gradient[i]:.8g}"
        holds(f"gradient of {name}", error <= tol * max(1.0, abs(numeric)), text)


def check_spread(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
) -> None:
    """Merged rows with other targets: the evidence is that of all rows.

    Rows are merged so for an inference that needs a quadratic loss; others see them one by one.
    """
    if "quadratic" not in inference.needs or kernel.noise_free() is not kernel:
        return
    counts = np.resize([1, 3, 2], len(X))
    group = np.repeat(np.arange(len(X)), counts)
    rng = np.random.default_rng(0)
    rows = y[group] + 0.3 * rng.standard_normal((len(group), y.shape[1]))
    mean = np.array([rows[group == i].mean(axis=0) for i in range(len(X))])
    spread = np.array([((rows[group == i] - mean[i]) ** 2).sum(axis=0) for i in range(len(X))])
    if np.ndim(getattr(loss, "noise", 0.0)):
        return  # a noise for each row belongs to these rows
    gram = DenseGram(kernel, X, keep=True)
    found = inference.solve(gram, mean, loss, weights=counts.astype(np.float64))
    value = inference.evidence(gram, mean, loss, found, spread=spread).value
    wanted = _evidence(inference, loss, kernel, X[group], rows)
    text = "the evidence of merged rows must be that of all rows"
    close("spread", value, wanted, 1e-7, 1e-6, text)
    make = partial(Problem, X, mean, counts.astype(np.float64), spread, None, group, rows)
    _check_gradient(inference, loss, make(np.ones(len(group))), kernel, tol)
