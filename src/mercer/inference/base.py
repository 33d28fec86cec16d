"""Inference: how alpha and W are found. The contract, what it is given and what it returns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.core.arrays import Array, Index
from mercer.core.component import Component
from mercer.core.errors import outside
from mercer.inference.mode.prox import has_kinks
from mercer.kernels.base import Gradient
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss, is_number, missing_because
from mercer.losses.several.base import check_elementwise


@dataclass(frozen=True)
class Report:
    """How an inference ended.

    Attributes
    ----------
    converged : whether the tolerance was reached.
    iterations : steps of the outermost loop; None for a closed form.
    gap : distance of the objective from its bound (a duality gap), or None.
    message : why it stopped, if that needs saying.
    details : what else was done to the numbers (``jitter``, ``factorisations``, ...): plain values.
    columns : one report for each latent function, where several were solved one by one.
    """

    converged: bool = True
    iterations: int | None = None
    gap: float | None = None
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    columns: tuple[Report, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return everything as one dictionary of plain values, for ``report_``."""
        ended = {"converged": self.converged, "iterations": self.iterations, "gap": self.gap}
        parts = {"columns": [one.plain() for one in self.columns]} if self.columns else {}
        return ended | {"message": self.message} | self.details | parts

    def each(self) -> tuple[Report, ...]:
        """Return the report of every latent function: ``columns``, or this one."""
        return self.columns or (self,)


def ended(converged: object, steps: int, message: str, factor: Factor, **details: Any) -> Report:
    """Return the report of one latent function: details, and the message if it did not converge."""
    said = "" if converged else message
    return Report(bool(converged), steps, message=said, details=details | factor.report)


def joined_report(reports: Sequence[Report], *summed: str) -> Report:
    """Return one report for latent functions solved one by one; a single one is returned unchanged.

    Converged if all are; the gaps and the details named in ``summed`` are added.
    """
    if len(reports) == 1:
        return reports[0]
    gaps = [one.gap for one in reports if one.gap is not None]
    return Report(
        all(one.converged for one in reports),
        max(one.iterations or 0 for one in reports),
        sum(gaps) if len(gaps) == len(reports) else None,
        next((one.message for one in reports if one.message), ""),
        {name: sum(one.details[name] for one in reports) for name in summed},
        tuple(reports),
    )


@dataclass(frozen=True)
class Problem:
    """The data of a fit: n distinct points, N observations.

    Attributes
    ----------
    points : (n, d) distinct inputs.
    y, weights : (n, m) mean and (n,) total weight of the observations at each point.
    spread : (n, m) weighted sum of squares of the observations about their mean.
    basis : (n, k) unpenalised basis at the points, or None.
    group, rows, row_weights : (N,) point, (N, m) value and (N,) weight of each observation.
    whole : leave out all observations of a point at a time, not one (leave-one-out search).
    left_out : (N,) the weight that goes when an observation is left out; None is min(weight, 1).
    """

    points: Array
    y: Array
    weights: Array
    spread: Array
    basis: Array | None
    group: Index
    rows: Array
    row_weights: Array
    whole: bool = False
    left_out: Array | None = None

    @property
    def shares(self) -> Array:
        """The share (N,) of the weight at its point that each row takes: of weight two, a half."""
        if self.whole:
            return np.ones(len(self.group))
        gone = np.minimum(self.row_weights, 1.0) if self.left_out is None else self.left_out
        return np.asarray(gone / self.weights[self.group])


@dataclass(frozen=True)
class Solution:
    """A posterior on the training points.

    Attributes
    ----------
    alpha : (n, m) weights of formula (1), one column per output.
    W : (n,) site precisions, sample weights included; (n, m) where each output has its own.
    z : (n, m) site means: the targets the Gaussian sites stand for, less the prior mean; for a
        mode without spread the latent values.
    factor : C of formula (2); with a basis the projected operator P. Zero for a mode.
    beta, weights : (k, m) coefficients of the basis, or None; (n,) sample weights.
    report : how it ended, and what was done to the numbers.
    """

    alpha: Array
    W: Array
    z: Array
    factor: Factor
    beta: Array | None
    weights: Array
    report: Report = field(default_factory=Report)


@dataclass(frozen=True)
class Task:
    """What :meth:`Inference.solve` was given, its defaults filled in.

    Attributes
    ----------
    gram, loss : K on the n points, and what is observed.
    y, mean : targets and prior mean, (n, m), or (n,) of one latent function.
    w : (n,) how often the loss of each point counts.
    basis : (n, k) unpenalised basis at the points, or None.
    """

    gram: Gram
    y: Array
    loss: Loss
    w: Array
    mean: Array
    basis: Array | None = None

    @property
    def H(self) -> Array:
        """The basis (n, k), k = 0 for none."""
        return np.zeros((len(self.y), 0)) if self.basis is None else self.basis

    def column(self, j: int) -> Task:
        """The task of one latent function alone."""
        return replace(self, y=self.y[:, j], mean=self.mean[:, j])


@dataclass(frozen=True)
class Evidence:
    """The log evidence (or a bound on it), and what its gradient needs beyond alpha and C.

    Attributes
    ----------
    value, loss_gradient : E, to be maximised, and dE/d name for the loss's parameters.
    U, V : (n, r) factors of the extra term of formula (3), or None.
    """

    value: float
    U: Array | None = None
    V: Array | None = None
    loss_gradient: Gradient = field(default_factory=dict)


class Inference(Component):
    """How a posterior comes out of a Gram, targets and a loss.

    A child states ``infer`` (or ``solve`` itself) and ``evidence``, and says in its attributes what
    it asks for and what it does; estimators read them before any work.

    Attributes
    ----------
    needs : the methods of the loss that it calls beyond ``value``.
    takes_classes : True if it takes a loss with one latent function for each class (Softmax).
    takes_latents : True if it takes a loss of several latent functions (SeveralLatents).
    latent_needs : what it calls of such a loss, None for ``needs``.
    needs_likelihood : True if the loss must be normalised, as for an evidence by sites.
    takes_kinks : False if the slope of the loss must not jump.
    reports : keys that ``report.plain()`` of a solution has. A search by leave-one-out bounds asks
        for "gap", None where the loss is not convex.
    has_evidence : False if it ends in a mode, which has none.
    inverse_in_place : True if ``evidence`` needs no more than solutions and the diagonal of C: then
        the search lets the inverse overwrite the Cholesky factor.
    factors_repeatedly : True if it factors K several times, which is then kept.
    works_in_linear_time : True if it asks a factor only for what O(n) algebra has as well:
        solutions, diagonals and the determinant.
    takes_weights : True if in weight space it forms no n x n array, as all that serve inducing
        points do.
    bounds_evidence : True if its evidence on few inducing points is a lower bound on that of all
        rows, charged for what the points leave unexplained; else this is part of the prior.
    sampled : True if its numbers are averages over draws, with an error of their own.
    serves_device : True if it reads n x n arrays by the contract of Gram and Factor alone: they may
        then be on an accelerator.
    link : the binary loss with which it classifies unless told otherwise.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    takes_classes: ClassVar[bool] = False
    takes_latents: ClassVar[bool] = False
    latent_needs: ClassVar[tuple[str, ...] | None] = None
    needs_likelihood: ClassVar[bool] = False
    takes_kinks: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ("converged", "iterations")
    has_evidence: ClassVar[bool] = True
    inverse_in_place: ClassVar[bool] = False
    factors_repeatedly: ClassVar[bool] = False
    works_in_linear_time: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    bounds_evidence: ClassVar[bool] = False
    sampled: ClassVar[bool] = False
    serves_device: ClassVar[bool] = False
    link: ClassVar[str] = "logistic"

    def check(self, loss: Loss) -> None:
        """Refuse a loss that lacks what this inference asks for, before any work."""
        limits, who, what = self.get_params(deep=False), type(self).__name__, type(loss).__name__
        check_limits(who, limits.get("tol", 1.0), limits.get("max_iter", 1))
        loss.check_domains()
        if loss.response == "multiclass" and not self.takes_classes:
            other = "'laplace'" if self.has_evidence else "'newton'"
            raise ValueError(
                f"{who} inference knows one latent function per target, and {what} has one per "
                f"class; use inference={other}, or one binary problem per class"
            )
        if loss.response == "multiclass" and not is_softmax(loss):
            raise ValueError(
                f"{who} inference knows the softmax of the latent functions as the probabilities "
                f"of the classes, and {what} has others; use losses.Softmax(), or one binary "
                "problem per class"
            )
        if loss.latents and not self.takes_latents:
            other = "'laplace'" if self.has_evidence else "'newton'"
            raise ValueError(
                f"{who} inference knows one latent function per target, and {what} has "
                f"{len(loss.latents)} ({', '.join(loss.latents)}); use inference={other}"
            )
        if loss.latents and not (loss.convex or loss.offers("information")):
            raise ValueError(
                f"{what} is not convex and has no information: "
                f"{missing_because(type(loss), 'information')}"
            )
        if not (loss.joint or type(loss).__module__.startswith("mercer.")):
            check_elementwise(loss)  # those of the house fulfil their contract
        own = self.latent_needs if loss.latents else None
        missing = [name for name in own or self.needs if not loss.offers(name)]
        if missing:
            raise ValueError(
                f"{who} inference needs {', '.join(missing)} from the loss, and "
                f"{what} does not offer it: {missing_because(type(loss), missing[0])}"
            )
        if self.needs_likelihood and not loss.normalised:
            raise ValueError(
                f"{who} inference gives an evidence, and {what} is not a likelihood: exp(-loss) "
                "does not sum to one over the targets, so that its evidence would favour large "
                "variances whatever the data say; choose a normalised loss (NormalizedHinge for "
                "Hinge), or the mode, which KernelClassifier and KernelRegressor(search=None) find "
                "with inference='auto'"
            )
        if not self.takes_kinks and has_kinks(loss):
            mode = not self.has_evidence and loss.offers("conjugate")
            other = "inference='dual'" if mode else "EP or Variational inference"
            raise ValueError(
                f"{who} inference needs a loss that is twice differentiable, and the slope of "
                f"{what} jumps: at a kink there is no curvature; use {other}"
            )

    def check_basis(self, loss: Loss, y: Array, H: Array) -> None:
        """Refuse targets y (n, m) that leave coefficients of the basis H (n, k) without bound."""
        return

    def warn(self, report: Report) -> None:
        """Warn, at the user's line, if ``report`` says that it stopped before its tolerance."""
        if report.converged:
            return
        name, given = type(self).__name__, self.get_params()
        after = "" if report.iterations is None else f" after {report.iterations} steps"
        reached = "" if report.gap is None else f" with a duality gap of {report.gap:.2g}"
        limits = ", ".join(f"{k}={given[k]}" for k in ("tol", "max_iter") if k in given)
        if not limits and report.message:  # a closed form has no steps that could be more
            warnings.warn(report.message, ConvergenceWarning, stacklevel=outside())
            return
        warnings.warn(
            f"{name} inference stopped{after}{reached}, before it reached its tolerance "
            f"({limits}): give inference={name}(max_iter=...) more steps, a larger tol if this is "
            "near enough, or the kernel a smaller amplitude (a classifier a smaller C)",
            ConvergenceWarning,
            stacklevel=outside(),
        )

    @property
    def serves_inducing(self) -> bool:
        """Whether it runs on a prior that is known through few inducing points."""
        return self.works_in_linear_time

    @property
    def takes_single(self) -> bool:
        """Whether features in single precision are good enough for its tolerance."""
        return False

    def for_search(self, loss: Loss) -> Inference:
        """Return the inference by whose evidence hyperparameters are found: this one."""
        return self

    def searching(self, rough: bool = False) -> Inference:
        """Return the inference for a search, maybe a rougher one; its result is solved by this.

        ``rough`` is for a search on some of the rows, that is to end near the maximum of all.
        """
        return self

    def solve(
        self,
        gram: Gram,
        y: Array,
        loss: Loss,
        *,
        mean: Array | None = None,
        basis: Array | None = None,
        weights: Array | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """Return the posterior.

        Parameters
        ----------
        gram : K on the n training points.
        y : (n, m) targets, one column per output.
        loss : a loss that offers ``needs``.
        mean : (n, m) prior mean, zero if None.
        basis : (n, k) unpenalised basis at the points, or None.
        weights : (n,) sample weights: the loss of point i counts weights_i times.
        start : an earlier solution nearby, to begin from.
        """
        m = int(y.max()) + 1 if loss.response == "multiclass" else len(loss.latents) or y.shape[1]
        prior = np.zeros((len(y), m)) if mean is None else mean
        return self.infer(Task(gram, y, loss, ones_if_none(weights, len(y)), prior, basis), start)

    def infer(self, task: Task, start: Solution | None) -> Solution:
        """Return the posterior of a task; ``start`` as for :meth:`solve`."""
        raise NotImplementedError

    def evidence(
        self, gram: Gram, y: Array, loss: Loss, solution: Solution, *, spread: Array | None = None
    ) -> Evidence:
        """Return the log evidence of a solution.

        E is the density of all observations: those at point i have weight ``weights_i``, mean y_i
        and weighted sum of squares ``spread`` (n, m) about it (zeros if None).
        """
        if self.has_evidence:
            raise NotImplementedError
        raise ValueError(
            f"{type(self).__name__} finds a mode, which has no spread and therefore no evidence to "
            "learn from; give search=None, or search='loo_bound' for a classifier, or another "
            "inference"
        )


def is_softmax(loss: Loss) -> bool:
    """Whether the slope of a loss with several classes is that of the softmax, looked at twice."""
    f, y = np.array([[0.3, -1.0, 1.2], [2.0, 0.1, -0.4]]), np.array([0.0, 2.0])
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    own = np.eye(3)[y.astype(np.intp)]
    return bool(np.allclose(loss.derivatives(y, f)[0], p - own, rtol=1e-6, atol=1e-6))


def check_limits(who: str, tol: object, max_iter: object) -> None:
    """Refuse a tolerance that is not a positive finite number, and less than one iteration."""
    if not is_number(tol, 0.0, np.inf):
        raise ValueError(f"{who} needs a positive finite tol, e.g. 1e-6, not {tol!r}")
    whole = isinstance(max_iter, (int, np.integer)) and not isinstance(max_iter, bool)
    if not (whole and is_number(max_iter, 0.0, np.inf)):
        raise ValueError(f"{who} needs a whole number max_iter >= 1, not {max_iter!r}")


def ones_if_none(weights: Array | None, n: int) -> Array:
    """Return the sample weights (n,), all one if None."""
    return np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
