"""The contract of an inference: what it asks for, what it returns, and that it hears everything."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Inference, Report, Solution
from mercer.kernels import RBF
from mercer.kernels.base import Kernel
from mercer.linalg import DenseGram
from mercer.losses import Hinge, Softmax
from mercer.losses.base import Loss
from mercer.testing.clauses import close, close_whole, holds, refused
from mercer.testing.component import check_component
from mercer.testing.evidence import check_evidence, check_spread
from mercer.testing.loss import away_from_kinks

REFUSALS = (ValueError, NotImplementedError)


def check_inference(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float = 1e-5
) -> None:
    """Solutions, evidence and its gradient, and that weights, mean, basis and start are heard.

    What an inference does not take (several outputs, a basis) it refuses with a ValueError; then
    the clause holds.

    Parameters
    ----------
    inference, loss, kernel : the parts.
    X : (n, d) distinct points.
    y : (n, m) targets.
    tol : of gradients, relative; solutions are compared to a tenth of it.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: those of :func:`check_component`; needs, refuses,
        solution, z, repeats, inputs, report, start, weights, mean, basis, outputs, spread, mode,
        evidence, and "gradient of" a parameter.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference import Exact
    >>> from mercer.kernels import RBF
    >>> from mercer.losses import Gaussian
    >>> X = np.linspace(0, 3, 8)[:, None]
    >>> check_inference(Exact(), Gaussian(noise=0.3), X, np.sin(X), 1.5 * RBF())
    """
    check_component(inference)
    inference.check(loss)
    y = np.asarray(y, dtype=np.float64)
    check_needs(inference, loss, X, y, kernel)
    _check_refusals(inference)
    _check_solution(inference, loss, X, y, kernel)
    if inference.has_evidence:
        check_evidence(inference, loss, X, y, kernel, tol)
    _check_start(inference, loss, X, y, kernel, 0.1 * tol)
    _check_weights(inference, loss, X, y, kernel, 0.1 * tol)
    _check_mean(inference, loss, X, y)
    _check_basis(inference, loss, X, y, kernel, 0.1 * tol)
    _check_outputs(inference, loss, X, y, kernel, 0.1 * tol)
    if inference.has_evidence:
        check_spread(inference, loss, X, y, kernel, tol)
        return
    gram = DenseGram(kernel, X, keep=True)
    found = inference.solve(gram, y, loss)
    text = "a mode has no evidence: evidence() must refuse with a sentence"
    refused("refuses", lambda: inference.evidence(gram, y, loss, found), text)
    _check_mode(loss, y, found)


def _check_refusals(inference: Inference) -> None:
    """What ``check`` must refuse before any work, as the attributes say."""
    if not inference.takes_classes:
        text = "takes_classes is False: a loss with a latent function for each class is refused"
        refused("refuses", lambda: inference.check(Softmax()), text)
    if not inference.takes_kinks or inference.needs_likelihood:
        text = "takes_kinks is False, or needs_likelihood True: Hinge is refused"
        refused("refuses", lambda: inference.check(Hinge()), text)


def _check_solution(inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel) -> None:
    gram = DenseGram(kernel, X, keep=True)
    given = [X.copy(), y.copy()]
    found = inference.solve(gram, y, loss)
    n, m = len(X), found.alpha.shape[-1]
    shapes = found.alpha.shape == (n, m) == found.z.shape
    holds("solution", shapes, f"alpha and z must be (n, m), not {found.alpha.shape}")
    outputs = m == y.shape[1] or loss.response == "multiclass"
    holds("solution", outputs, f"{y.shape[1]} outputs are expected, not {m}")
    holds("solution", np.shape(found.W) in ((n,), (n, m)), "W must be (n,) or (n, m)")
    numbers = (found.alpha, found.z, found.weights)
    holds("solution", all(np.all(np.isfinite(a)) for a in numbers), "all must be finite")
    holds("solution", not np.any(np.isnan(found.W)), "W is a number, or infinite at a kink")
    close("weights", found.weights, np.ones(n), 0.0, 0.0, "they are one where none are given")
    same = np.array_equal(X, given[0]) and np.array_equal(y, given[1])
    holds("inputs", same, "X and y must be left as they are")
    again = inference.solve(gram, y, loss)
    close("repeats", again.alpha, found.alpha, 0.0, 0.0, "the same call must give the same")
    _check_z(gram @ np.eye(n), found, np.zeros((n, m)), None)
    _check_report(inference, loss, found)


def _check_z(K: Array, found: Solution, mean: Array, basis: Array | None) -> None:
    """Latent values f = mean + K alpha + H beta, or targets with alpha = C z."""
    latent = mean + K @ found.alpha
    if basis is not None and found.beta is not None:
        latent = latent + basis @ found.beta
    size = 1e-6 * (1.0 + float(np.abs(latent).max()))
    if np.all(np.abs(found.z - latent) <= size):
        return
    solved = found.factor.solve(found.z)
    small = 1e-6 * (1.0 + float(np.abs(found.alpha).max()))
    text = "z holds the latent values mean + K alpha, or targets with alpha = C z"
    holds("z", np.all(np.abs(solved - found.alpha) <= small), text)


def _check_report(inference: Inference, loss: Loss, found: Solution) -> None:
    report = found.report
    holds("report", isinstance(report, Report), f"it is a Report, not a {type(report).__name__}")
    missing = _unsaid(inference, loss, report)
    holds("report", not missing, f"it must say {missing}, as `reports` promises: {report}")
    holds("report", bool(inference.reports), "`reports` must name what the report says")
    holds("report", plain(report.plain()), f"it must consist of plain values, not {report}")
    holds("report", report.converged in (True, False), "converged is True or False")


def _unsaid(inference: Inference, loss: Loss, report: Report) -> list[str]:
    """Return what `reports` names and the report lacks; a loss that is not convex has no gap."""
    said = {key for key, value in report.plain().items() if value is not None}
    said |= set() if loss.convex else {"gap"}
    return [key for key in inference.reports if key not in said]


def plain(value: object) -> bool:
    """Whether a value could be written as JSON: numbers, texts, None, lists and dictionaries."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _check_start(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
) -> None:
    """A start is where to begin, not what to return."""
    near = DenseGram(1.6 * kernel, X, keep=True)
    begun = inference.solve(near, y, loss)
    gram = DenseGram(kernel, X, keep=True)
    cold, warm = inference.solve(gram, y, loss), inference.solve(gram, y, loss, start=begun)
    K = gram @ np.eye(len(X))
    text = "another start must end in the same posterior"
    close_whole("start", K @ warm.alpha, K @ cold.alpha, max(tol, 1e-5), text)
    if inference.has_evidence:
        close_whole("start", warm.W, cold.W, max(10 * tol, 1e-4), text)


def _check_weights(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
) -> None:
    """A point of weight two is the point twice; nearly so for sites, which see them together."""
    w = np.resize([1.0, 2.0, 1.0, 3.0], len(X))
    twice = np.repeat(np.arange(len(X)), w.astype(int))
    many = DenseGram(_signal(kernel), X[twice], keep=True)
    gram = DenseGram(_signal(kernel), X, keep=True)
    try:
        short = inference.solve(gram, y, loss, weights=w)
    except REFUSALS:
        return
    close("weights", short.weights, w, 0.0, 0.0, "the solution must hold the weights")
    long = inference.solve(many, y[twice], loss)
    K = gram @ np.eye(len(X))
    alpha = np.zeros_like(short.alpha)
    np.add.at(alpha, twice, long.alpha)
    text = "a point of weight two must be as the point twice"
    close_whole("weights", K @ short.alpha, K @ alpha, max(tol, 1e-2), text)
    if inference.has_evidence:
        one = inference.evidence(gram, y, loss, short).value
        other = inference.evidence(many, y[twice], loss, long).value
        close("weights", one, other, 2e-2, 1e-2, f"{text}: evidence")


def _signal(kernel: Kernel) -> Kernel:
    signal = kernel.noise_free()
    return kernel if signal is None else signal


def _check_mean(inference: Inference, loss: Loss, X: Array, y: Array) -> None:
    """Where the prior hardly varies, f is the prior mean: alpha = -w g'(y, mean)."""
    n, classes = len(X), loss.response == "multiclass"
    m = int(y.max()) + 1 if classes else y.shape[1]
    mean = 0.31 + 0.05 * np.arange(n * m).reshape(n, m) / (n * m)
    if not classes:
        mean = np.column_stack([away_from_kinks(loss, y[:, j], mean[:, j], 0.1) for j in range(m)])
    gram = DenseGram(1e-4 * RBF(), X, keep=True)
    w = np.resize([1.0, 2.0, 0.5], n)
    try:
        found = inference.solve(gram, y, loss, mean=mean, weights=w)
    except REFUSALS:
        return
    if classes:
        wanted = -w[:, None] * loss.derivatives(y[:, 0], mean)[0]
    else:
        slopes = [loss.derivatives(y[:, j], mean[:, j])[0] for j in range(m)]
        wanted = -w[:, None] * np.column_stack(slopes)
    text = "with a prior that hardly varies alpha must be -w g'(y, mean)"
    close_whole("mean", found.alpha, wanted, 1e-2, text)
    _check_z(gram @ np.eye(n), found, mean, None)
    if inference.has_evidence:
        gram = DenseGram(1e-10 * RBF(), X, keep=True)
        found = inference.solve(gram, y, loss, mean=mean, weights=w)
        value = inference.evidence(gram, y, loss, found).value
        columns = (
            [loss.value(y[:, 0], mean)]
            if classes
            else [loss.value(y[:, j], mean[:, j]) for j in range(m)]
        )
        total = -sum(float(w @ g) for g in columns)
        close("mean", value, total, 1e-6, 1e-6, "the evidence must tend to -sum w g(y, mean)")


def _check_basis(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
) -> None:
    n = len(X)
    basis = np.column_stack([np.ones(n), X[:, 0] - X[:, 0].mean()])
    gram = DenseGram(kernel, X, keep=True)
    try:
        found = inference.solve(gram, y, loss, basis=basis)
    except REFUSALS:
        return
    m = found.alpha.shape[1]
    shape = None if found.beta is None else found.beta.shape
    holds("basis", shape == (2, m), f"beta must be (k, m), not {shape}; refuse a basis not taken")
    size = 1e-6 * float(np.abs(found.alpha).max())
    close("basis", basis.T @ found.alpha, np.zeros((2, m)), 0.0, n * size, "H'alpha must be zero")
    _check_z(gram @ np.eye(n), found, np.zeros((n, m)), basis)
    if loss.response == "real" and loss.latent_is_mean:
        more = np.array([[3.0], [-2.0]])
        moved = inference.solve(gram, y + basis @ more, loss, basis=basis)
        text = "what the basis can say must leave alpha alone"
        close_whole("basis", moved.alpha, found.alpha, max(tol, 1e-6), text)
        assert moved.beta is not None
        assert found.beta is not None
        close_whole("basis", moved.beta, found.beta + more, 1e-6, "beta must take it up")


def _check_outputs(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
) -> None:
    """Several outputs are solved as each by itself."""
    if loss.response == "multiclass":
        return
    gram = DenseGram(kernel, X, keep=True)
    both = np.column_stack([y[:, 0], y[::-1, 0]])
    try:
        found = inference.solve(gram, both, loss)
    except REFUSALS:
        return
    K = gram @ np.eye(len(X))
    each = [inference.solve(gram, both[:, j : j + 1], loss) for j in range(2)]
    wanted = np.hstack([K @ one.alpha for one in each])
    text = "each output must be solved as by itself"
    close_whole("outputs", K @ found.alpha, wanted, max(tol, 1e-6), text)
    missing = _unsaid(inference, loss, found.report)
    holds("report", not missing, f"with two outputs it must say {missing}, too")
    if found.W.ndim == 2:
        text = "outputs with sites of their own have a report each, in `columns`"
        holds("report", len(found.report.columns) == 2, text)
    if inference.has_evidence:
        total = sum(
            inference.evidence(gram, both[:, j : j + 1], loss, one).value
            for j, one in enumerate(each)
        )
        value = inference.evidence(gram, both, loss, found).value
        close("outputs", value, total, 1e-7, 1e-6, "their evidences must add up")


def _check_mode(loss: Loss, y: Array, found: Solution) -> None:
    """A mode is certified by its duality gap, or by its slope."""
    if loss.response == "multiclass":
        wanted = -loss.derivatives(y[:, 0], found.z)[0]
        close_whole("mode", found.alpha, wanted, 1e-5, "alpha must be -g' at the latent values")
        return
    for j in range(y.shape[1]):
        a, f = found.alpha[:, j], found.z[:, j]
        if loss.offers("conjugate"):
            # a at the edge of the domain of g* may lie outside by rounding
            star = np.minimum(
                loss.conjugate(y[:, j], -a), loss.conjugate(y[:, j], -a * (1 - 1e-12))
            )
            gap = float((loss.value(y[:, j], f) + star + a * f).sum())
            size = 1.0 + float(np.abs(loss.value(y[:, j], f)).sum())
            holds("mode", abs(gap) <= 1e-6 * size, f"the duality gap must vanish, and is {gap:.3g}")
        else:
            wanted = -loss.derivatives(y[:, j], f)[0]
            close_whole("mode", a, wanted, 1e-4, "alpha must be -g' at the latent values")


# What a loss may lack, or what costs more than its value: an inference says that it calls it.
WATCHED = (
    "derivatives",
    "tilted",
    "expected",
    "expected_higher",
    "conjugate",
    "quadratic",
    "quadratic_pullback",
    "quadratic_bound",
    "predict",
    "cdf",
    "quantile",
    "sample",
)


def check_needs(inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel) -> None:
    """Every method of the loss that is called must be named in ``needs``, or asked for before."""
    for name in inference.needs:
        exists = hasattr(Loss, name) or hasattr(loss, name)
        holds("needs", exists, f"{name!r} is not a method of a loss")
    watched, called, asked = watch(loss)
    gram = DenseGram(kernel, X, keep=True)
    found = inference.solve(gram, y, watched)
    if inference.has_evidence:
        inference.evidence(gram, y, watched, found)
    missing = sorted(called - asked - set(inference.needs))
    text = f"{', '.join(missing)} of the loss is called: name it in `needs`, or ask offers() first"
    holds("needs", not missing, text)


def watch(loss: Loss) -> tuple[Loss, set[str], set[str]]:
    """Return a copy of the loss, what is called on it, and what it is asked for with offers().

    Only calls from outside count: a default that stands on another method is the loss's own affair.
    """
    watched: Any = copy.deepcopy(loss)
    called: set[str] = set()
    asked: set[str] = set()
    depth = [0]

    def wrap(name: str, method: Any) -> Any:
        def seen(*args: Any, **kwargs: Any) -> Any:
            if depth[0] == 0:
                called.add(name)
            depth[0] += 1
            try:
                return method(*args, **kwargs)
            finally:
                depth[0] -= 1

        return seen

    def offers(name: str) -> bool:
        asked.add(name)
        return type(loss).offers(name)

    for name in WATCHED:
        setattr(watched, name, wrap(name, getattr(watched, name)))
    watched.offers = offers
    return watched, called, asked
