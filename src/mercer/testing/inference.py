"""The contract of an inference: what it asks for, what it returns, and that it hears everything."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Inference, Report, Solution
from mercer.kernels import RBF
from mercer.kernels.base import Kernel
from mercer.linalg import DenseGram
from mercer.losses import Gaussian, Hinge, Softmax
from mercer.losses.base import Loss
from mercer.search import EvidenceCriterion, Problem, Space, simple_problem
from mercer.testing.clauses import check_component, close, close_whole, holds, refused
from mercer.testing.loss import away_from_kinks

REFUSALS = (ValueError, NotImplementedError)
# What a loss may lack, or what costs more than its value: an inference says that it calls it.
WATCHED = """derivatives tilted expected expected_higher conjugate quadratic quadratic_pullback
quadratic_bound predict cdf quantile sample"""


def check_inference(
    inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float = 1e-5
) -> None:
    """Solutions, evidence and its gradient, and that weights, mean, basis and start are heard.

    What an inference does not take (several outputs, a basis) it refuses with a ValueError; then
    the clause holds. Of one that draws (``sampled``) it asks for what holds whatever the draws.

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
    case = _Case(inference, loss, X, np.asarray(y, dtype=np.float64), kernel, tol)
    case.check_needs()
    case.check_refusals()
    case.check_solution()
    if inference.sampled:  # the rest compares numbers closer than draws are sure of them
        case.check_exact()
        case.check_start()
        case.check_basis()
        case.check_outputs()
        return
    if inference.has_evidence:
        check_evidence_gradient(inference, loss, X, case.y, kernel, tol)
        case.check_vanishing()
        case.check_independent()
        case.check_exact()
    case.check_start()
    case.check_weights()
    case.check_mean()
    case.check_basis()
    case.check_outputs()
    if inference.has_evidence:
        case.check_spread()
    else:
        case.check_mode()


class _Case:
    """The parts and the data: each clause is a method."""

    def __init__(
        self, inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel, tol: float
    ) -> None:
        self.inference, self.loss, self.X, self.y, self.kernel = inference, loss, X, y, kernel
        self.tol = tol
        self.gram = DenseGram(kernel, X, keep=True)
        self.K = self.gram @ np.eye(len(X))
        self.classes = loss.response == "multiclass"

    def evidence(self, kernel: Kernel, X: Array, y: Array, **given: Any) -> float:
        gram = DenseGram(kernel, X, keep=True)
        found = self.inference.solve(gram, y, self.loss, **given)
        return float(self.inference.evidence(gram, y, self.loss, found).value)

    def check_needs(self) -> None:
        """Every method of the loss that is called must be named in ``needs``, or asked for."""
        inference = self.inference
        unknown = [n for n in inference.needs if not (hasattr(Loss, n) or hasattr(self.loss, n))]
        holds("needs", not unknown, f"{unknown} are no methods of a loss")
        watched, called, asked = watch(self.loss)
        found = inference.solve(self.gram, self.y, watched)
        if inference.has_evidence:
            inference.evidence(self.gram, self.y, watched, found)
        missing = sorted(called - asked - set(inference.needs))
        text = "of the loss is called: name it in `needs`, or ask offers() first"
        holds("needs", not missing, f"{', '.join(missing)} {text}")

    def check_refusals(self) -> None:
        """What ``check`` must refuse before any work, as the attributes say."""
        check = self.inference.check
        if not self.inference.takes_classes:
            text = "takes_classes is False: a loss with a latent function for each class is refused"
            refused("refuses", lambda: check(Softmax()), text)
        if not self.inference.takes_kinks or self.inference.needs_likelihood:
            text = "takes_kinks is False, or needs_likelihood True: Hinge is refused"
            refused("refuses", lambda: check(Hinge()), text)

    def check_solution(self) -> None:
        given = [self.X.copy(), self.y.copy()]
        self.found = found = self.inference.solve(self.gram, self.y, self.loss)
        n, m = len(self.X), found.alpha.shape[-1]
        shapes = found.alpha.shape == (n, m) == found.z.shape
        holds("solution", shapes, f"alpha and z must be (n, m), not {found.alpha.shape}")
        wanted = m if self.classes else self.y.shape[1]
        holds("solution", m == wanted, f"{wanted} outputs are expected, not {m}")
        holds("solution", np.shape(found.W) in ((n,), (n, m)), "W must be (n,) or (n, m)")
        numbers = (found.alpha, found.z, found.weights)
        holds("solution", all(np.all(np.isfinite(a)) for a in numbers), "all must be finite")
        holds("solution", not np.any(np.isnan(found.W)), "W is a number, or infinite at a kink")
        close("weights", found.weights, np.ones(n), 0.0, 0.0, "they are one where none are given")
        same = np.array_equal(self.X, given[0]) and np.array_equal(self.y, given[1])
        holds("inputs", same, "X and y must be left as they are")
        again = self.inference.solve(self.gram, self.y, self.loss)
        close("repeats", again.alpha, found.alpha, 0.0, 0.0, "the same call must give the same")
        _check_z(self.K, found, np.zeros((n, m)), None)
        report = found.report
        holds("report", isinstance(report, Report), f"it must be a Report, not {report!r:.60}")
        missing = self._unsaid(report)
        holds("report", not missing, f"it must say {missing}, as `reports` promises: {report}")
        holds("report", bool(self.inference.reports), "`reports` must name what the report says")
        holds("report", plain(report.plain()), f"it must consist of plain values, not {report}")
        holds("report", report.converged in (True, False), "converged is True or False")

    def _unsaid(self, report: Report) -> list[str]:
        """Return what `reports` names and the report lacks; a loss not convex has no gap."""
        said = {key for key, value in report.plain().items() if value is not None}
        said |= set() if self.loss.convex else {"gap"}
        return [key for key in self.inference.reports if key not in said]

    def check_start(self) -> None:
        """A start is where to begin, not what to return."""
        near = DenseGram(1.6 * self.kernel, self.X, keep=True)
        begun = self.inference.solve(near, self.y, self.loss)
        cold, warm = self.found, self.inference.solve(self.gram, self.y, self.loss, start=begun)
        text, tol = "another start must end in the same posterior", max(0.1 * self.tol, 1e-5)
        close_whole("start", self.K @ warm.alpha, self.K @ cold.alpha, tol, text)
        if self.inference.has_evidence:
            close_whole("start", warm.W, cold.W, max(self.tol, 1e-4), text)

    def check_weights(self) -> None:
        """A point of weight two is the point twice; nearly so for sites, which see both."""
        inference, loss, X, y = self.inference, self.loss, self.X, self.y
        w = np.resize([1.0, 2.0, 1.0, 3.0], len(X))
        twice = np.repeat(np.arange(len(X)), w.astype(int))
        signal = self.kernel.noise_free() or self.kernel
        gram, many = (DenseGram(signal, points, keep=True) for points in (X, X[twice]))
        try:
            short = inference.solve(gram, y, loss, weights=w)
        except REFUSALS:
            return
        close("weights", short.weights, w, 0.0, 0.0, "the solution must hold the weights")
        long = inference.solve(many, y[twice], loss)
        K, alpha = gram @ np.eye(len(X)), np.zeros_like(short.alpha)
        np.add.at(alpha, twice, long.alpha)
        text = "a point of weight two must be as the point twice"
        close_whole("weights", K @ short.alpha, K @ alpha, max(0.1 * self.tol, 1e-2), text)
        if inference.has_evidence:
            one = inference.evidence(gram, y, loss, short).value
            other = inference.evidence(many, y[twice], loss, long).value
            close("weights", one, other, 2e-2, 1e-2, f"{text}: evidence")

    def check_mean(self) -> None:
        """Where the prior hardly varies, f is the prior mean: alpha = -w g'(y, mean)."""
        loss, X, y, n = self.loss, self.X, self.y, len(self.X)
        m = int(y.max()) + 1 if self.classes else y.shape[1]
        mean = 0.31 + 0.05 * np.arange(n * m).reshape(n, m) / (n * m)
        pairs = [(y[:, 0], slice(None))] if self.classes else [(y[:, j], j) for j in range(m)]
        if not self.classes:
            mean = np.column_stack([away_from_kinks(loss, c, mean[:, j], 0.1) for c, j in pairs])
        gram, w = DenseGram(1e-4 * RBF(), X, keep=True), np.resize([1.0, 2.0, 0.5], n)
        try:
            found = self.inference.solve(gram, y, loss, mean=mean, weights=w)
        except REFUSALS:
            return
        slopes = np.column_stack([loss.derivatives(c, mean[:, j])[0] for c, j in pairs])
        text = "with a prior that hardly varies alpha must be -w g'(y, mean)"
        close_whole("mean", found.alpha, -w[:, None] * slopes, 1e-2, text)
        _check_z(gram @ np.eye(n), found, mean, None)
        if self.inference.has_evidence:
            value = self.evidence(1e-10 * RBF(), X, y, mean=mean, weights=w)
            total = -sum(float(w @ loss.value(c, mean[:, j])) for c, j in pairs)
            close("mean", value, total, 1e-6, 1e-6, "the evidence must tend to -sum w g(y, mean)")

    def check_basis(self) -> None:
        inference, loss, X, y = self.inference, self.loss, self.X, self.y
        basis = np.column_stack([np.ones(len(X)), X[:, 0] - X[:, 0].mean()])
        try:
            found = inference.solve(self.gram, y, loss, basis=basis)
        except REFUSALS:
            return
        n, m = found.alpha.shape
        shape = None if found.beta is None else found.beta.shape
        holds(
            "basis", shape == (2, m), f"beta must be (k, m), not {shape}; refuse a basis not taken"
        )
        size = 1e-6 * n * float(np.abs(found.alpha).max())
        close("basis", basis.T @ found.alpha, np.zeros((2, m)), 0.0, size, "H'alpha must be zero")
        _check_z(self.K, found, np.zeros((n, m)), basis)
        if loss.response == "real" and loss.latent_is_mean:
            more = np.array([[3.0], [-2.0]])
            moved = inference.solve(self.gram, y + basis @ more, loss, basis=basis)
            text = "what the basis can say must leave alpha alone"
            close_whole("basis", moved.alpha, found.alpha, max(0.1 * self.tol, 1e-6), text)
            assert moved.beta is not None
            assert found.beta is not None
            close_whole("basis", moved.beta, found.beta + more, 1e-6, "beta must take it up")

    def check_outputs(self) -> None:
        """Several outputs are solved as each by itself."""
        if self.classes:
            return
        inference, loss, gram, K = self.inference, self.loss, self.gram, self.K
        columns = [self.y[:, :1], self.y[::-1, :1]]
        both = np.hstack(columns)
        try:
            found = inference.solve(gram, both, loss)
        except REFUSALS:
            return
        each = [inference.solve(gram, column, loss) for column in columns]
        wanted = np.hstack([K @ one.alpha for one in each])
        text = "each output must be solved as by itself"
        close_whole("outputs", K @ found.alpha, wanted, max(0.1 * self.tol, 1e-6), text)
        missing = self._unsaid(found.report)
        holds("report", not missing, f"with two outputs it must say {missing}, too")
        if found.W.ndim == 2:
            text = "outputs with sites of their own have a report each, in `columns`"
            holds("report", len(found.report.columns) == 2, text)
        if inference.has_evidence and loss.normalised:
            pairs = zip(columns, each, strict=True)
            total = sum(inference.evidence(gram, column, loss, one).value for column, one in pairs)
            value = inference.evidence(gram, both, loss, found).value
            close("outputs", value, total, 1e-7, 1e-6, "their evidences must add up")

    def check_mode(self) -> None:
        """A mode has no evidence, and is certified by its duality gap, or by its slope."""
        loss, y, found = self.loss, self.y, self.found
        text = "a mode has no evidence: evidence() must refuse with a sentence"
        refused("refuses", lambda: self.inference.evidence(self.gram, y, loss, found), text)
        if self.classes:
            wanted = -loss.derivatives(y[:, 0], found.z)[0]
            close_whole("mode", found.alpha, wanted, 1e-5, "alpha must be -g' at the latent values")
            return
        for t, a, f in zip(y.T, found.alpha.T, found.z.T, strict=True):
            if loss.offers("conjugate"):
                # a at the edge of the domain of g* may lie outside by rounding
                star = np.minimum(loss.conjugate(t, -a), loss.conjugate(t, -a * (1 - 1e-12)))
                value = loss.value(t, f)
                gap, size = float((value + star + a * f).sum()), 1.0 + float(np.abs(value).sum())
                text = f"the duality gap must vanish, and is {gap:.3g}"
                holds("mode", abs(gap) <= 1e-6 * size, text)
            else:
                wanted = -loss.derivatives(t, f)[0]
                close_whole("mode", a, wanted, 1e-4, "alpha must be -g' at the latent values")

    def check_vanishing(self) -> None:
        """A prior that hardly varies knows f: the evidence is that of f = 0."""
        value, y = self.evidence(1e-10 * RBF(), self.X, self.y), self.y
        zeros = np.zeros((len(y), int(y.max()) + 1)) if self.classes else np.zeros(len(y))
        total = sum(float(self.loss.value(column, zeros).sum()) for column in y.T)
        text = "with a prior that hardly varies it must be -sum g(y, 0)"
        close("evidence", value, -total, 1e-6, 1e-6, text)

    def check_independent(self) -> None:
        """What is observed at places that know nothing of each other multiplies."""
        if self.classes:
            return  # a part need not have all classes
        half = max(1, len(self.X) // 2)
        apart = 10.0 * np.arange(len(self.X), dtype=np.float64)[:, None]
        apart[half:] += 1e4
        whole, first, last = (
            self.evidence(1.7 * RBF(4.0), apart[rows], self.y[rows])
            for rows in (slice(None), slice(half), slice(half, None))
        )
        text = "the evidence of two independent halves must be the sum of theirs"
        close("evidence", whole, first + last, 1e-6, 1e-5, text)

    def check_exact(self) -> None:
        """A Gaussian loss has a closed form, whatever the inference."""
        X, loss, kernel = self.X, Gaussian(noise=0.3), 1.4 * RBF(1.1)
        try:
            self.inference.check(loss)
        except ValueError:
            return
        y = np.sin(2.0 * X[:, :1]) + 0.3 * np.cos(7.0 * X[:, :1])
        value = _Case(self.inference, loss, X, y, kernel, self.tol).evidence(kernel, X, y)
        Ky = kernel(X) + 0.3 * np.eye(len(X))
        wanted = -0.5 * float(y[:, 0] @ np.linalg.solve(Ky, y[:, 0]))
        wanted -= 0.5 * float(np.linalg.slogdet(2.0 * np.pi * Ky)[1])
        close("evidence", value, wanted, 1e-6, 1e-6, "that of Gaussian noise in closed form")

    def check_spread(self) -> None:
        """Rows merged, as for an inference that needs a quadratic loss: the evidence is of all."""
        inference, loss, X, y, kernel = self.inference, self.loss, self.X, self.y, self.kernel
        if "quadratic" not in inference.needs or kernel.noise_free() is not kernel:
            return
        if np.ndim(getattr(loss, "noise", 0.0)):
            return  # a noise for each row belongs to these rows
        counts = np.resize([1, 3, 2], len(X))
        group, weights = np.repeat(np.arange(len(X)), counts), counts.astype(np.float64)
        noise = np.random.default_rng(0).standard_normal((len(group), y.shape[1]))
        rows = y[group] + 0.3 * noise
        mean = np.array([rows[group == i].mean(axis=0) for i in range(len(X))])
        spread = np.array([((rows[group == i] - mean[i]) ** 2).sum(axis=0) for i in range(len(X))])
        found = inference.solve(self.gram, mean, loss, weights=weights)
        value = inference.evidence(self.gram, mean, loss, found, spread=spread).value
        text = "the evidence of merged rows must be that of all rows"
        close("spread", value, self.evidence(kernel, X[group], rows), 1e-7, 1e-6, text)
        make = partial(Problem, X, mean, weights, spread, None, group, rows)
        _check_gradient(inference, loss, make(np.ones(len(group))), kernel, self.tol)


def _check_z(K: Array, found: Solution, mean: Array, basis: Array | None) -> None:
    """Latent values f = mean + K alpha + H beta, or targets with alpha = C z."""
    latent = mean + K @ found.alpha
    if basis is not None and found.beta is not None:
        latent = latent + basis @ found.beta
    if np.all(np.abs(found.z - latent) <= 1e-6 * (1.0 + float(np.abs(latent).max()))):
        return
    small = 1e-6 * (1.0 + float(np.abs(found.alpha).max()))
    text = "z holds the latent values mean + K alpha, or targets with alpha = C z"
    holds("z", np.all(np.abs(found.factor.solve(found.z) - found.alpha) <= small), text)


def plain(value: object) -> bool:
    """Whether a value could be written as JSON: numbers, texts, None, lists and dictionaries."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(plain(v) for v in value)
    return value is None or isinstance(value, (bool, int, float, str))


def watch(loss: Loss) -> tuple[Loss, set[str], set[str]]:
    """Return a copy of the loss, what is called on it, and what it is asked for with offers().

    Only calls from outside count: a default that stands on another method is the loss's own affair.
    """
    watched: Any = copy.deepcopy(loss)
    called: set[str] = set()
    asked: set[str] = set()
    inside: list[str] = []

    def seen(name: str, method: Any, *args: Any, **kwargs: Any) -> Any:
        if not inside:
            called.add(name)
        inside.append(name)
        try:
            return method(*args, **kwargs)
        finally:
            inside.pop()

    def offers(name: str) -> bool:
        asked.add(name)
        return type(loss).offers(name)

    for name in WATCHED.split():
        setattr(watched, name, partial(seen, name, getattr(watched, name)))
    watched.offers = offers
    return watched, called, asked


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
    (value, gradient), step = criterion(space.start), 1e-4
    holds("evidence", np.isfinite(value), f"it must be finite, not {value}")
    names = [n for e in space.entries for n in [e.name] * (e.where.stop - e.where.start)]
    for i, name in enumerate(names):
        move = step * np.eye(len(space))[i]
        near = (space.start + sign * move for sign in (1.0, -1.0))
        ahead, back = (criterion.height(u)[0] for u in near)
        numeric = (ahead - back) / (2 * step)
        error = abs(gradient[i] - numeric)
        text = f"differences of the evidence give {numeric:.8g}, formula (3) {gradient[i]:.8g}"
        holds(f"gradient of {name}", error <= tol * max(1.0, abs(numeric)), text)
