"""Leave-one-out criteria: the log density of each observation given the others, or the errors."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import log_ndtr

from mercer.core.arrays import Array, Index, mirror
from mercer.inference.base import Inference, Problem, Solution
from mercer.kernels.base import Gradient, Kernel
from mercer.left_out.cavity import Left
from mercer.left_out.figures import worst
from mercer.left_out.margins import bounded_margins, left_out_latent
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.reduced.weights import WeightGram
from mercer.losses.base import Loss
from mercer.losses.binary.probit import SquaredProbit
from mercer.search.criteria.evidence import Criterion, GramMaker
from mercer.search.optimize import Result, Search
from mercer.search.space import Space

# Where PLSC looks for maxima: length scales from u on, the noise as a share of the variance of the
# kernel, and for each of these variances and widths of the sigmoid, most of them in logarithms.
LENGTHS = np.arange(-9.0, 3.0) * 0.7
SHARES = (1e-7, 1e-4, 1e-3, 1e-2, 0.3, 10.0)
VARIANCES = np.log([1e-3, 1e-2, 0.1, 1.0, 10.0, 99.0])
WIDTHS = np.log([0.03, 0.3, 1.0, 3.0, 10.0])
PEAKS = 3


class Score(NamedTuple):
    """How good the leave-one-out predictions are, to be maximised, and its derivatives."""

    value: float  # the sum over the observations
    residual: Array  # (N, m) in the residual y - mean
    signal: Array  # (N,) in the variance of the left-out f
    noise: Array  # (N,) in the noise that the observation adds to it
    loss: Gradient  # in parameters of the loss that do not act through these


class LooCriterion(Criterion):
    """The leave-one-out log predictive density of a Gaussian loss.

    GPML (5.10)-(5.13), with merged duplicates, weights and an unpenalised basis; the gradient by
    one adjoint product instead of one per hyperparameter. Theory (G11), (G12). A child scores the
    predictions in another way by its own ``score``; the gradient follows. Of targets that were
    ``centred`` on their mean a row is left out of that, too.

    Reference: GPML section 5.4.2.
    """

    centred = False

    def score(self, left: Left, loss: Loss) -> Score:
        """Return how good the predictions of the left-out observations are."""
        weights = self.problem.row_weights[:, None]
        v = left.variance[:, None]
        d_var = (weights * 0.5 * (left.residual**2 / v**2 - 1.0 / v)).sum(axis=1)
        value = float((weights * left.log_density()).sum())
        return Score(value, -weights * left.residual / v, d_var, d_var, {})

    def height(self, u: Array, start: Solution | None = None) -> tuple[float, Solution]:
        _, loss, solution = self.solve(u, start)
        left = Left(self.problem, solution, loss.quadratic(self.problem.y)[1])
        if self.centred:
            left.centre_anew(self.problem, solution)
        return self.score(left, loss).value + self.space.log_prior(u)[0], solution

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        p = self.problem
        precision = loss.quadratic(p.y)[1]
        left = Left(p, solution, precision)
        ones = left.centre_anew(p, solution) if self.centred else np.zeros((len(p.points), 0))
        score = self.score(left, loss)
        d_res, d_signal = score.residual, score.signal
        rest, W, P, t = left.rest, left.W, left.P, left.share
        # dL/d alpha_i and dL/d P_ii, summed over the observations of each point
        d_alpha = _by_point(p, d_res / rest[:, None])
        if self.centred:  # the targets that are all one have an alpha, too
            d_one = -(d_res * left.means).sum(axis=1, keepdims=True) / rest[:, None]
            d_alpha = np.hstack([d_alpha, _by_point(p, d_one)])
        through_rest = -(d_res * left.residual).sum(axis=1) - d_signal * left.signal
        d_diag = _by_point(p, (through_rest * t - d_signal / W) / rest)
        each = solution.factor, np.hstack([solution.alpha, ones]), d_alpha, d_diag
        if isinstance(gram, WeightGram):
            slope, q = gram.adjoint(*each)
        else:
            Q = _weights(*each)
            slope, q = gram.contract(Q) if self.moves_kernel else {}, np.diagonal(Q)
        # noise: through K + W^-1, through W itself and through the noise of the left-out value
        own = d_signal * P / W**2
        explicit = (left.offset * d_res).sum(axis=1) + through_rest * (1.0 - t) + own
        d_W = np.where(left.alone, own, explicit) / rest
        direct = _by_point(p, d_W) * p.weights - _by_point(p, score.noise) / precision**2
        with np.errstate(divide="ignore"):
            d_precision = direct - q / (p.weights * precision**2)
        own_loss = {**loss.quadratic_pullback(p.y, d_precision), **score.loss}
        return score.value, {"kernel": slope, "loss": own_loss}


def _by_point(problem: Problem, values: Array) -> Array:
    total = np.zeros((len(problem.points), *values.shape[1:]))
    np.add.at(total, problem.group, values)
    return total


def _weights(factor: Factor, alpha: Array, d_alpha: Array, d_diag: Array) -> Array:
    """-M with M = sym((P d_alpha) alpha') + P diag(d_diag) P: dL = <-M, dK>."""
    cross = factor.solve(d_alpha) @ alpha.T
    # P as a matrix: (0 0' - 2 P) / 2 with the sign turned
    P = -factor.gradient_weights(np.zeros((len(alpha), 1)), 2.0)
    M = (P * d_diag) @ P
    M += 0.5 * (cross + cross.T)
    return mirror(-M)


class PlscCriterion(LooCriterion):
    """sum_i log Phi(y_i (mu_i + b) / sqrt(tau^2 + s_i)), mu_i and s_i from all points but i.

    The log probability of the left-out labels, GPML (6.42): all hyperparameters, those of the
    kernel, the noise and the sigmoid, are trained on it together. Theory (Q5), (Q6).
    mu_i = y_i - alpha_i / P_ii and s_i = 1 / P_ii by GPML (5.12), the latter less the noise with
    ``latent`` in the loss. The gradient is that of the leave-one-out density: one adjoint product
    for all hyperparameters, in place of GPML (5.13) for each.

    Equal labels at one point are left out together: a copy would tell the answer. Where the labels
    of a point differ, they are observations of their own and left out one by one. Several columns
    are classes, each against the rest; their log probabilities add up.

    Where all left-out labels can be told, the sum has no maximum but grows towards 0 with ever more
    certain probabilities. ``smooth`` takes Platt's targets (n+ + 1)/(n+ + 2) and 1/(n- + 2) for the
    probability of +1 in place of 1 and 0, the cross-entropy to which has one.

    Reference: GPML section 6.5.1; Platt (1999) for the targets.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference import Exact
    >>> from mercer.kernels import RBF
    >>> from mercer.search import simple_problem
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [1.0], [-1.0]])
    >>> space = Space({"kernel": 1.0 * RBF(), "loss": SquaredProbit()})
    >>> value, gradient = PlscCriterion(space, simple_problem(X, y), Exact())(space.start)
    >>> round(value, 4), len(gradient)
    (-2.0219, 5)
    """

    def __init__(
        self,
        space: Space,
        problem: Problem,
        inference: Inference,
        make_gram: GramMaker | None = None,
        smooth: bool = False,
    ) -> None:
        g, one = problem.group, problem.left_out
        one = np.minimum(problem.row_weights, 1.0) if one is None else one
        mixed = np.any(problem.spread > 0.0, axis=1)[g]
        left_out = np.where(mixed, one, problem.weights[g])
        # gather equal labels of a point, in an order that does not depend on that of the rows
        keys = np.column_stack([g, problem.rows, left_out])
        kept, which = np.unique(keys, axis=0, return_inverse=True)
        weights = np.bincount(which.ravel(), problem.row_weights)
        problem = replace(
            problem,
            group=kept[:, 0].astype(np.intp),
            rows=np.ascontiguousarray(kept[:, 1:-1]),
            left_out=np.ascontiguousarray(kept[:, -1]),
            row_weights=np.asarray(weights, dtype=np.float64),
        )
        super().__init__(space, problem, inference, make_gram)
        self.smooth = smooth
        self.share = 0.5 * (1.0 + problem.rows)
        if smooth:
            plus, minus = (problem.row_weights @ s for s in (self.share, 1.0 - self.share))
            likely, unlikely = (plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0)
            self.share = np.where(self.share > 0.5, likely, unlikely)

    def on(self, problem: Problem) -> Self:
        return type(self)(self.space, problem, self.inference, self.make_gram, self.smooth)

    rivals = 1.0

    def also(self, u: Array, scales: Index) -> list[Array]:
        """Return the best places of a grid over length scales and shares of noise, as starts.

        The left-out means depend on these two alone; variance and sigmoid are known without
        another factorisation. Labels that are mixed are explained by noise in the regression, by a
        flat sigmoid over a function that meets them, or by both: each is a maximum of its own.
        """
        names = {entry.name: entry.where for entry in self.space.entries}
        if "loss__noise" not in names:
            return []
        bounds, kernel = self.space.bounds.T, cast(Kernel, self.space.parts_at(u)["kernel"])
        amplitude = float(kernel.diag(self.problem.points).mean())
        points = np.empty((len(LENGTHS), len(SHARES)), dtype=object)
        values = np.full(points.shape, -np.inf)
        for i, j in np.ndindex(points.shape):
            v = u.copy()
            v[scales] += LENGTHS[i]
            v[names["loss__noise"]] = np.log(SHARES[j] * amplitude)
            with suppress(ValueError):  # a matrix that is impossible at this point
                values[i, j], points[i, j] = self.settled(np.clip(v, *bounds), names)
        # a longer scale with less noise may be a maximum beside a shorter one with more: the
        # diagonal neighbours do not count
        around = np.pad(values, 1, constant_values=-np.inf)
        windows = sliding_window_view(around, (3, 3)).reshape(*values.shape, 9)
        highest = windows[..., 1::2].max(axis=2)
        order = np.argsort(-values, axis=None, kind="stable")
        # what is no better than the toss of a coin says nothing about scales
        coin = -np.log(2.0) * self.problem.row_weights.sum() * self.problem.rows.shape[1]
        peaks = [k for k in order if highest.flat[k] <= values.flat[k] > coin + 1e-6]
        return [points.flat[k] for k in peaks[:PEAKS]]

    def settled(self, u: Array, names: dict[str, slice]) -> tuple[float, Array]:
        """Return the value and point with the best of some variances and widths of the sigmoid.

        Variance and noise times c leave the left-out mean as it is, and its variance is times c.
        """
        _, loss, solution = self.solve(u)
        assert isinstance(loss, SquaredProbit)
        p, (low, high) = self.problem, self.space.bounds.T
        left = Left(p, solution, loss.quadratic(p.y)[1])
        s = (left.signal if loss.latent else left.variance)[:, None]
        mean, weights = p.rows - left.residual + loss.offset, p.row_weights[:, None]
        both, tau = np.zeros(len(u)), names.get("loss__tau")
        if "kernel__variance" in names:
            both[names["kernel__variance"]] = both[names["loss__noise"]] = 1.0
        points, variances, widths = [], [], []
        for by, width in product(VARIANCES if both.any() else (0.0,), WIDTHS):
            v = u + by * both
            if tau is not None:
                v[tau] = np.clip(width, low[tau], high[tau])
            if np.all((v >= low) & (v <= high)):
                points.append(v)
                variances.append(np.exp(by))
                widths.append(np.ravel(loss.tau if tau is None else np.exp(v[tau])))
        D = np.multiply.outer(variances, s) + np.square(np.array(widths))[:, None, :]
        r = mean / np.sqrt(D)
        logs = self.share * log_ndtr(r) + (1.0 - self.share) * log_ndtr(-r)
        values = (weights * logs).sum(axis=(1, 2))
        values += [self.space.log_prior(v)[0] for v in points]
        best = int(np.argmax(values))
        return float(values[best]), points[best]

    def score(self, left: Left, loss: Loss) -> Score:
        assert isinstance(loss, SquaredProbit)
        p = self.problem
        weights = p.row_weights[:, None]
        s = (left.signal if loss.latent else left.variance)[:, None]
        mean = p.rows - left.residual
        value, dm, ds, d_log_tau, db = loss.log_probability(self.share, mean, s)
        d_s = (weights * ds).sum(axis=1)
        own: Gradient = {
            "tau": _summed(weights * d_log_tau, loss.tau) / loss.tau,
            "offset": _summed(weights * db, loss.offset),
        }
        d_noise = np.zeros_like(d_s) if loss.latent else d_s
        return Score(float((weights * value).sum()), -weights * dm, d_s, d_noise, own)


def _summed(values: Array, like: float | Array) -> Any:
    """Sum (n, m) to the shape of the parameter: one for all outputs, or one for each."""
    return values.sum(axis=0) if np.ndim(like) else float(values.sum())


FIRST, LAST = 2.0, 0.2  # steps of the search, in the coordinate u (log for positive parameters)


class LooBoundCriterion(Criterion):
    """Minus the leave-one-out error, bounded or by the cavity; it has steps, and no gradient.

    Between equal numbers of errors the one with the larger margins is better, by less than one row.
    Theory (K8), (K9).
    """

    def __init__(self, *args: Any, figure: str = "bound") -> None:
        super().__init__(*args)
        self.figure = figure

    def __call__(self, u: Array) -> tuple[float, Array]:
        value, _ = self.value_and_gradients(*self.solve(u))
        return value + self.space.log_prior(u)[0], np.zeros(len(u))  # in place of a gradient

    def value_and_gradients(
        self, gram: Gram, loss: Loss, solution: Solution
    ) -> tuple[float, dict[str, Gradient]]:
        p = self.problem
        if self.figure == "bound":
            margins = bounded_margins(p, gram, solution)
        else:
            latent = left_out_latent(p, gram, solution)
            if latent is None:
                return -np.inf, {}
            margins = p.rows * latent
        lead = worst(margins, np.argmax(p.rows, axis=1))
        share = p.row_weights / p.row_weights.sum()
        scale = float(share @ np.abs(lead)) or 1.0
        soft = share @ (1.0 / (1.0 + np.exp(np.clip(lead / scale, -50.0, 50.0))))
        return -float(share @ (lead <= 0.0) + 0.5 * share.min() * soft), {}


class LooBound(Search):
    """Choose the kernel's parameters and C by leave-one-out, from one fit per candidate.

    The bound follows from a single fit: nothing is refitted or held out. It has steps and no
    gradient: the search goes to a better neighbour at a distance in one free parameter, and halves
    the distance when there is none. It begins at the given parameters, or at the data's own scale
    where that is better.

    Parameters
    ----------
    figure : "bound", the upper bound of Lemma 1, or "cavity", a much closer estimate that is no
        bound.
    max_evaluations : fits at most.

    Reference: Jaakkola & Haussler (1999), Lemma 1.

    Examples
    --------
    >>> LooBound(max_evaluations=30)
    LooBound(max_evaluations=30)
    """

    needs_evidence: ClassVar[bool] = False

    def __init__(self, figure: str = "bound", max_evaluations: int = 80) -> None:
        self.figure = figure
        self.max_evaluations = max_evaluations
        if figure not in ("bound", "cavity"):
            raise ValueError(f"unknown figure {figure!r}; known are bound, cavity")

    @property
    def needs_reports(self) -> tuple[str, ...]:
        return ("gap",) if self.figure == "bound" else ()

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        starts = [space.start, *space.suggested]
        best, u = max(((criterion(v)[0], v) for v in starts), key=lambda pair: pair[0])
        step, count, failed = FIRST, len(starts), 0
        while len(u) and step >= LAST and count < self.max_evaluations:
            moved = False
            for i in range(len(u)):
                for sign in (1.0, -1.0):
                    there = u.copy()
                    there[i] = np.clip(u[i] + sign * step, *space.bounds[i])
                    if there[i] == u[i] or count >= self.max_evaluations:
                        continue
                    count += 1
                    try:
                        value = criterion(there)[0]
                    except ValueError:  # a kernel that is impossible at this point
                        failed += 1
                        continue
                    if value > best:
                        best, u, moved = value, there, True
                        break
            if not moved:
                step *= 0.5
        report = {
            "criterion": f"loo_{self.figure}",
            "starts": len(starts),
            "evaluations": count,
            "failed_evaluations": failed,
            "converged": bool(step < LAST or not len(u)),
            "message": "steps in each parameter, without a gradient",
            "interrupted": False,
            "at_bounds": [],
        }
        return [Result(u, best, report)]
