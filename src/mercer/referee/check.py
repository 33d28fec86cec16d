"""check_inference_on: draws of the posterior on the user's own rows, beside what a model says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from mercer.core.arrays import Array, as_columns
from mercer.estimators.shared.predictions import SMALLEST, log_probabilities
from mercer.inference import MCMC
from mercer.inference.base import Task
from mercer.inference.mcmc.draws import Draws
from mercer.referee.compared import Compared
from mercer.referee.evidence import EvidenceBracket, lower_bound, upper_bound
from mercer.referee.gaussian import bound, gaussians
from mercer.referee.rows import Training
from mercer.sampling.annealed import annealed
from mercer.sampling.mixing import mean_error
from mercer.sampling.told import teller

# differences that matter: of the mean in deviations, of the deviation in shares, of a probability,
# of a log density and of the log evidence
MATTER = {"mean": 0.1, "sd": 0.1, "probability": 0.02, "density": 0.05, "evidence": 0.5}
CERTAIN = 1.0  # error of a log evidence up to which it says something
DRAWS = 400  # of the posterior, over which predictions are averaged


@dataclass(frozen=True)
class InferenceCheck:
    """How far a model's posterior is from the truth, on its own rows.

    Attributes
    ----------
    inference : the name of what was checked.
    mean, sd : of the latent values at the distinct rows.
    predictions : probabilities of the classes, or log densities of targets; None where the loss has
        none.
    evidence : bounds and estimates of the log evidence.
    draws : how the sampler ended, one report for each output.
    messages : what is not certain about the check itself; empty if nothing is.

    ``print(check)`` says all of it in words; ``mercer.plots.InferenceDisplay`` draws it.
    """

    inference: str
    mean: Compared
    sd: Compared
    predictions: Compared | None
    evidence: EvidenceBracket
    draws: list[dict[str, Any]] = field(repr=False)
    messages: list[str] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether the draws can be believed: chains agree, and are long enough."""
        return not self.messages

    @property
    def evidence_difference(self) -> tuple[float, float] | None:
        """The model's log evidence less the truth, and the error of the truth; None if unknown."""
        truth, own = self.evidence.truth, self.evidence.approximate
        return None if truth is None or own is None else (own - truth[0], truth[1])

    @property
    def flags(self) -> list[str]:
        """What differs from the truth beyond the error of the draws, and enough to matter."""
        figures = [f for f in (self.mean, self.sd, self.predictions) if f is not None]
        found = [one.name for one in figures if one.flagged.any()]
        gap = self.evidence_difference
        if gap is not None and abs(gap[0]) > max(3.0 * gap[1], MATTER["evidence"]):
            found.append("log evidence")
        return found

    def summary(self) -> str:
        """Return all that was found, in words."""
        total = sum(one["draws"] for one in self.draws)
        worst = max(one["rhat"] for one in self.draws)
        least = min(one["ess"] for one in self.draws)
        figures = [f for f in (self.mean, self.sd, self.predictions) if f is not None]
        flags = self.flags
        verdict = "agrees with the truth as far as the draws can tell, or closely enough"
        if flags:
            verdict = f"differs from the truth in: {', '.join(flags)}"
        lines = [
            f"{self.inference} {verdict}",
            f"truth: {total} draws by {self.draws[0]['sampler']}, R-hat {worst:.3f}, "
            f"effective sample size {least:.0f}",
            *(one.line() for one in figures),
            "log evidence",
            *(f"  {line}" for line in self.evidence.lines()),
            *(f"note: {message}" for message in self.messages),
        ]
        return "\n".join(lines)

    __str__ = summary


def check_inference_on(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    X_new: Any = None,
    y_new: Any = None,
    inference: MCMC | None = None,
    runs: int = 32,
    progress: bool | Callable[[dict[str, Any]], None] = False,
) -> InferenceCheck:
    """Tell how far a fitted model's approximate posterior is from the true one, on its own rows.

    The true posterior of kernel and loss as they were found is drawn from, and compared with what
    the model says: mean and deviation of the latent values, class probabilities or log densities,
    and the log evidence, which is bounded from both sides and estimated in two ways. A difference
    counts only beyond the Monte Carlo error of the draws, and is flagged only if it is large enough
    to matter. The hyperparameters are taken as they are: the check is of the inference, not of the
    model. An interrupt (Ctrl-C) ends the sampling and checks with what was drawn.

    Parameters
    ----------
    model : a fitted GPRegressor or GPClassifier (KernelRegressor and KernelClassifier with a
        spread); of a committee its first member is checked.
    X, y, sample_weight : the rows that it was fitted to; models do not keep their targets.
    X_new, y_new : other rows at which to compare predictions; the training rows if None. A
        regression needs both.
    inference : the sampler, :class:`~mercer.inference.MCMC` with other settings.
    runs : of annealed importance sampling, each way; 0 for none.
    progress : True writes to standard error, a function is called with {"stage", "done", "total"}.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier, check_inference_on
    >>> from mercer.inference import MCMC
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(0, 4, 15)[:, None]
    >>> y = np.sin(2 * X[:, 0]) > 0
    >>> model = GPClassifier(30.0 * RBF(0.8), inference="laplace", search=None).fit(X, y)
    >>> check = check_inference_on(model, X, y, inference=MCMC(samples=200), runs=8)
    >>> "latent mean" in check.flags  # Laplace underestimates far from the boundary
    True
    """
    rows = Training.of(model, X, y, sample_weight)
    method = MCMC(samples=300) if inference is None else inference
    if not isinstance(method, MCMC):
        raise TypeError(f"inference must be an MCMC, which draws the truth, not {inference!r}")
    if y_new is not None and X_new is None:
        raise ValueError("y_new are the targets of X_new: give both")
    method = method.__sklearn_clone__()
    method.progress = progress or method.progress
    brackets, drawn, messages = [], [], []
    for j, task in enumerate(rows.tasks()):
        which = f"output {j}: " if rows.outputs > 1 else ""
        draws = method.draw(task)
        own, said = _bracket(draws, task, runs, method)
        drawn.append(draws)
        brackets.append(own)
        messages += [which + text for text in (draws.complaint(), said) if text]
    bracket = reduce(EvidenceBracket.plus, brackets)
    if rows.exact:
        given = sum(bound(*pair)[0] for pair in gaussians(rows))
        bracket = replace(bracket, given=given if np.isfinite(given) else None)
    bracket = bracket.moved(rows.in_user_units(0.0))
    bracket = replace(bracket, approximate=model.log_evidence_)
    mean, sd = _latent(rows, drawn)
    predictions = _predictions(rows, drawn, (X, y) if X_new is None else (X_new, y_new))
    reports = [draws.report for draws in drawn]
    name = model.report_["inference"]["name"]
    return InferenceCheck(name, mean, sd, predictions, bracket, reports, messages)


def _bracket(draws: Draws, task: Task, runs: int, method: MCMC) -> tuple[EvidenceBracket, str]:
    """Return what is known of the log evidence of one output, and what is wrong with it."""
    rng, said = np.random.default_rng([method.seed, 2]), ""
    found: dict[str, float | None] = {"upper": upper_bound(task)}
    if task.loss.response != "multiclass":
        found["lower"] = lower_bound(task)
    if draws.guess.name != "prior":
        found["bridge"], found["bridge_error"] = draws.bridged(rng)
    if not runs:
        return EvidenceBracket(**found), said
    flat = draws.states.reshape(-1, *draws.states.shape[2:])
    try:
        tell = teller(method.progress)
        path = annealed(draws.latents, rng, runs=runs, most=1000, posterior=flat, tell=tell)
    except KeyboardInterrupt:
        return EvidenceBracket(**found), "annealing was interrupted"
    names = ("below", "below_error", "above", "above_error")
    found |= {"annealed": path.value, "annealed_error": path.error}
    found |= {name: getattr(path, name) for name in names}
    if path.error > CERTAIN:
        said = f"the annealed evidence is uncertain by {path.error:.1f}: give more runs"
    return EvidenceBracket(**found), said


def _latent(rows: Training, drawn: list[Draws]) -> tuple[Compared, Compared]:
    """Return mean and deviation of the latent values, the model's and the truth."""
    mean, sd = rows.marginals()
    units = rows.model.units_.of_latent(rows.loss)
    pairs = [mean_error(draws.averages.mean) for draws in drawn]
    true, error = (np.hstack(one) for one in zip(*pairs, strict=True))
    pairs = [mean_error(draws.averages.variance) for draws in drawn]
    variance, error_of = (np.hstack(one) for one in zip(*pairs, strict=True))
    deviation = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    shift, scale = units.y_shift, units.y_scale

    def flat(values: Array) -> Array:
        return np.asarray(values * scale).ravel()

    return (
        Compared(
            "latent mean",
            flat(mean) + np.broadcast_to(shift, mean.shape).ravel(),
            flat(true) + np.broadcast_to(shift, mean.shape).ravel(),
            flat(error),
            flat(deviation),
            "deviations",
            MATTER["mean"],
        ),
        Compared(
            "latent deviation",
            flat(sd),
            flat(deviation),
            flat(0.5 * error_of / deviation),
            flat(deviation),
            "of itself",
            MATTER["sd"],
        ),
    )


def _predictions(rows: Training, drawn: list[Draws], at: tuple[Any, Any]) -> Compared | None:
    """Return predictions at rows, the model's and those averaged over the draws."""
    model, loss, (X, y) = rows.model, rows.loss, at
    means, variance = _conditional(rows, drawn, model._inputs(X))
    chains, samples, q, m = means.shape
    flat = means.reshape(-1, m)
    v = None if variance is None else np.tile(variance, chains * samples)[:, None]
    if hasattr(model, "classes_"):
        if v is not None and loss.response == "multiclass":  # c-dimensional: one draw for each
            flat = flat + np.sqrt(v) * np.random.default_rng(0).standard_normal(flat.shape)
            v = None
        own, total = model.predict_proba(X), np.ones((q, 1))
        if loss.response == "multiclass" or m == 1:
            log_p = log_probabilities(loss, flat, v)
        else:  # one machine for each class: normalised after the average
            yes = np.ones_like(flat)
            log_p = -loss.value(yes, flat) if v is None else loss.log_predictive(yes, flat, v)
        true, error = mean_error(np.exp(log_p).reshape(chains, samples, q, -1))
        if own.shape[1] == 2:
            true, error, own = true[:, 1:], error[:, 1:], own[:, 1:]
        else:
            total = true.sum(axis=1, keepdims=True)
        true, error = true / total, error / total
        tolerance = MATTER["probability"]
        name, unit = "probability", "of 1"
        return Compared(name, own.ravel(), true.ravel(), error.ravel(), 1.0, unit, tolerance)
    if y is None:
        return None
    target = model.units_.y_standardised(as_columns(y))
    many = np.tile(target, (chains * samples, 1))
    each = -loss.value(many, flat) if v is None else loss.log_predictive(many, flat, v)
    each = each.reshape(chains, samples, q, m)
    top = each.max(axis=(0, 1))
    share, error = mean_error(np.exp(each - top))
    true = np.log(share) + top - np.log(model.units_.y_scale)
    own = as_columns(model.predictive_log_density(X, y))
    tolerance, name, unit = MATTER["density"], "log density", "nats"
    error = (error / share).ravel()
    return Compared(name, own.ravel(), true.ravel(), error, 1.0, unit, tolerance)


def _conditional(rows: Training, drawn: list[Draws], inside: Array) -> tuple[Array, Array | None]:
    """Return f at rows given each draw: means (chains, samples, q, m), and the variance (q,).

    The variance is that of formula (2) with C = K^+, the same for all draws; None if it is zero.
    """
    signal = rows.kernel.signal()
    cross = signal(inside, rows.fit.problem.points)
    chains, samples = (min(d.states.shape[i] for d in drawn) for i in (0, 1))
    chosen = np.linspace(0, samples - 1, min(samples, -(-DRAWS // chains))).round().astype(int)
    means = []
    for draws in drawn:
        nu = draws.latents.nu(draws.states[:chains, chosen])
        means.append(np.swapaxes(nu @ (draws.latents.inverse @ cross.T), -1, -2))
    known = drawn[0].latents.inverse @ cross.T
    prior = signal.diag(inside)
    variance = prior - np.einsum("rq,rq->q", known, known)
    none = bool(np.all(variance <= 1e-9 * prior))
    return np.concatenate(means, axis=3), None if none else np.maximum(variance, SMALLEST)
