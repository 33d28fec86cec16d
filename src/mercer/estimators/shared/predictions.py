"""From latent means and variances to the probability of each class; rows that come in blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index
from mercer.core.memory import available_bytes
from mercer.estimators.shared.labels import decided
from mercer.estimators.shared.table import read_inputs
from mercer.estimators.shared.units import Units
from mercer.losses.base import Loss
from mercer.losses.ordinal import CumulativeLink
from mercer.losses.real.base import LocationLoss
from mercer.losses.several.noise import VaryingNoise
from mercer.process.process import Process

Moments: TypeAlias = tuple[Array, Array | None]  # mean and variance of f; no variance of a mode
TINY = float(np.log(np.finfo(float).tiny))
SMALLEST = 1e-300  # stands for a latent variance of zero, where an average is the value at m


def log_probabilities(loss: Loss, m: Array, v: Array | None) -> Array:
    """Log probability of each class, (q, k).

    m is (q, 1) for two classes and a binary loss, else (q, k). v is (q, 1), (q, k) or, for a
    softmax, (q, k, k); None takes the loss at m: a mode has no spread. With one machine per class
    the probabilities are normalised over the classes. Ordered classes have one function, (q, 1).
    """
    if loss.response == "multiclass":
        if v is None:
            return np.asarray(m - np.logaddexp.reduce(m, axis=1, keepdims=True))
        p = loss.predict(m, v)
        return np.asarray(np.log(np.maximum(p, np.exp(TINY))))
    labels: tuple[float, ...] = (1.0,)
    v = None if v is None else np.maximum(v, SMALLEST)
    if isinstance(loss, CumulativeLink):
        j = np.arange(len(loss.cuts()) + 1.0)
        return -loss.value(j, m) if v is None else loss.log_predictive(j, m, v)
    if m.shape[1] == 1:
        labels, m, v = (-1.0, 1.0), m[:, 0], None if v is None else v[:, 0]
    targets = [np.full(m.shape, label) for label in labels]
    log_p = np.column_stack(
        [-loss.value(y, m) if v is None else loss.log_predictive(y, m, v) for y in targets]
    )
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))


def sides_of_means(posteriors: Sequence[Process], losses: list[Loss], X: Array) -> Index | None:
    """Return the more probable of two classes, 0 or 1 (q,), where only the means are known.

    A loss that treats both labels alike gives the label of the sign of the mean, whatever the
    variance. None where the variances are known, or are needed: for several classes, for labels
    that are not alike, and for committees whose members differ.
    """
    if all(not p.has_spread or p.variance_known_at(X) for p in posteriors):
        return None
    means = [p.mean(X) for p in posteriors]
    zero = np.zeros(1)
    alike = all(
        loss.response == "binary"
        and np.allclose(loss.value(zero + 1.0, zero), loss.value(zero - 1.0, zero))
        for loss in losses
    )
    sides = np.array([m[:, 0] > 0.0 for m in means])
    if means[0].shape[1] > 1 or not alike or np.any(sides != sides[0]):
        return None
    return np.asarray(sides[0].astype(np.intp))


def latent(posterior: Process, loss: Loss, X: Array, noise: bool = True) -> Moments:
    """Latent mean (q, m), and variance (q, m) or covariance (q, m, m); None for a mode.

    ``noise``: what a new observation sees, noise parts of the kernel included; else the signal.
    """
    m = posterior.mean(X)
    if not posterior.has_spread:
        return m, None
    check_variances([posterior], X)
    extra = posterior.noise(X) if noise else np.zeros(len(X))
    if m.shape[1] == 1:
        return m, (posterior.var(X) + extra)[:, None]
    blocks = posterior.blocks(X) + extra[:, None, None] * np.eye(m.shape[1])
    if loss.response == "multiclass":
        return m, blocks
    return m, np.maximum(np.diagonal(blocks, axis1=1, axis2=2), 0.0)  # rounding: -1e-16 of K_ii


def check_variances(posteriors: Sequence[Process], X: Array) -> None:
    """Refuse the variance of a mode, and of new points that are given by their kernel values."""
    if not all(p.has_spread for p in posteriors):
        raise ValueError(
            "a mode has no spread: predict and predict_latent give means, and there are no "
            "deviations, intervals, densities or draws; an inference with a posterior has them, "
            "e.g. that of GPRegressor"
        )
    if not all(p.variance_known_at(X) for p in posteriors):
        raise ValueError(
            "the kernel values of new points with the training points do not say how the new "
            "points vary, and deviations, probabilities and draws need that: for all points give "
            "Precomputed(matrix), and row numbers of it as X. Means are known without; so is the "
            "probability at the mode, of GPClassifier with discriminant='mode'; and of two classes "
            "predict(X) gives the more probable one"
        )


def infinite_variance(loss: Loss) -> str:
    """Say that observations have an infinite variance, and what to use in its place; or nothing."""
    own = loss.unit() if isinstance(loss, VaryingNoise) else loss
    try:
        variance = own.noise_moments()[1] if isinstance(own, LocationLoss) else 0.0
    except (NotImplementedError, ValueError):  # not stated, or known of training rows only
        return ""
    if np.isfinite(variance):
        return ""
    return (
        f"the noise found, {loss!r}, has an infinite variance, and so has a new observation: "
        "standard deviations are infinite; intervals are finite, and predict_spread gives half the "
        "width of the central 68 % interval"
    )


def mixed(pairs: Sequence[Moments]) -> Moments:
    """Mean and variance of equal shares of members, each with its own; no variance of a mode."""
    means = np.array([m for m, _ in pairs])
    mean, each = np.asarray(means.mean(axis=0)), [v for _, v in pairs if v is not None]
    return mean, np.mean(each, axis=0) + means.var(axis=0) if each else None


FILES = (".parquet", ".pq", ".csv", ".tsv", ".npy")  # names of files that hold a table
FITS = ("fit", "partial_fit")
PREDICTIONS = (
    "predict", "predict_proba", "_predict_proba", "predict_log_proba", "predict_latent",
    "predict_interval", "predict_with_interval", "predict_spread", "decision_function",
)  # fmt: skip
MAPPED = 0.25  # of the memory: arrays mapped to it that are larger are not read at once


def in_blocks(X: Any) -> bool:
    """Whether X is a table that is read block by block: files, a Dask collection, a BlockTable."""
    kind = type(X)
    if kind is np.ndarray:
        return False
    if isinstance(X, (str, os.PathLike)):
        return True
    if kind in (list, tuple):  # of paths; other texts are rows of a kernel for texts
        return bool(X) and all(
            isinstance(one, os.PathLike) or (isinstance(one, str) and one.lower().endswith(FILES))
            for one in X
        )
    if isinstance(X, np.memmap):
        return bool(X.ndim == 2 and X.nbytes > MAPPED * available_bytes())
    return hasattr(kind, "of_blocks") or kind.__module__.partition(".")[0] in ("dask", "dask_expr")


class ByBlocks:
    """Methods that take rows do so block by block where the rows come in blocks."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in (*FITS, *PREDICTIONS, "score"):
            found = vars(cls).get(name, getattr(cls, name, None) if name == "score" else None)
            if isinstance(found, FunctionType) and not hasattr(found, "by_blocks"):
                setattr(cls, name, _by_blocks(name, found))
            elif hasattr(found, "fn") and not hasattr(found.fn, "by_blocks"):  # of available_if
                found.fn = _by_blocks(name, found.fn)

    def _fit_blocks(self, table: Any) -> Any:
        """Learn from a BlockTable; a child that can says how."""
        raise TypeError(
            f"{type(self).__name__} learns from rows that are in memory, and this table comes in "
            "blocks: of files, Dask collections and mapped arrays learn GPRegressor, GPClassifier, "
            "KernelRegressor, KernelClassifier, LeastSquaresClassifier, SVC and SVR, with "
            "gram=mercer.linalg.Inducing(m=...); or read a sample of the rows into an array"
        )


def _by_blocks(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that is asked block by block where its rows come so."""

    @wraps(method)
    def either(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not in_blocks(X) or (name in FITS and isinstance(X, np.memmap) and _exact(self)):
            return method(self, X, *args, **kwargs)
        home = "fit" if name in FITS else "predict"
        blocks = import_module(f"mercer.estimators.blocks.{home}")
        return blocks.asked(self, name, X, *args, **kwargs)

    either.by_blocks = True  # type: ignore[attr-defined]  # a mark on the function
    return either


def _exact(machine: Any) -> bool:
    """Whether a machine wants all rows at once: what is mapped is then read, as ever."""
    from mercer.estimators.shared.parts import inducing_of  # not for those who only predict

    return inducing_of(getattr(machine, "gram", None)) is None


class Classifies(ClassifierMixin, ByBlocks):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier that decides by a score: a child states ``decision_function``."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Array:
        """Return (q,) for two classes, positive for the second; (q, k) for more, largest wins."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d): shape (q,)."""
        scores = self.decision_function(X)
        return decided(self.classes_, scores)


class Predicts(ByBlocks):
    """An estimator with posteriors in its own units."""

    units_: Units
    flat_: bool

    def _inputs(self, X: Any) -> Array:
        """Validate inputs of a prediction and return them in the units of the fit."""
        check_is_fitted(self, "posteriors_")
        return self.units_.standardised(read_inputs(self, X))

    def _shaped(self, values: Array) -> Array:
        """Return values (q, m) as the targets came: (q,) if these were a vector."""
        return np.asarray(values[:, 0] if self.flat_ else values)


class ClassProbabilities(Classifies, Predicts):
    """Probabilities from the posteriors of a classifier: means and variances of f, averaged.

    Its scores are log odds, unless a child states another ``decision_function``.
    """

    posteriors_: list[Process]
    losses_: list[Loss]

    def _latents(self, X: Any, noise: bool) -> list[Moments]:
        """Return mean and variance of f at X for each posterior; see :func:`latent`."""
        inside = self._inputs(X)
        found: list[Moments] = []
        for posterior, loss in zip(self.posteriors_, self.losses_, strict=True):
            if posterior.follows:
                found.append((posterior.mean(inside), found[-1][1]))
            else:
                found.append(latent(posterior, loss, inside, noise))
        return found

    def predict_latent(self, X: Any) -> Moments:
        """Return mean and standard deviation of f at X: (q,), or (q, k) for several classes.

        Noise parts of the kernel are left out. The deviation is None for a mode, which has none.
        Of a committee these are mean and deviation of the mixture.
        """
        pairs = self._latents(X, noise=False)
        own = [v if v is None or v.ndim < 3 else np.diagonal(v, 0, 1, 2) for _, v in pairs]
        mean, variance = mixed([(m, v) for (m, _), v in zip(pairs, own, strict=True)])
        return self._shaped(mean), None if variance is None else self._shaped(np.sqrt(variance))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`; finite."""
        pairs = self._latents(X, noise=True)
        each = [log_probabilities(g, *pair) for g, pair in zip(self.losses_, pairs, strict=True)]
        return np.asarray(np.logaddexp.reduce(each, axis=0) - np.log(len(each)))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``.

        Averaged over the posterior of f: for two classes by a closed form or quadrature to 1e-10,
        for a softmax by a fixed quasi-random rule (see :meth:`mercer.losses.Softmax.predict`), and
        over the members of a committee.
        """
        p = np.exp(self.predict_log_proba(X))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (q,); for several classes the log probabilities.

        Zero, or a tie, exactly where the probabilities tie.
        """
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X: (q,).

        With ``kernel="precomputed"`` X is (q, n), the kernel values of new rows with the training
        rows. They do not say how f varies at the new rows, so that there are no probabilities; of
        two classes the more probable one is known all the same.
        """
        inside = self._inputs(X)
        sides = sides_of_means(self.posteriors_, self.losses_, inside)
        if sides is None:
            return decided(self.classes_, self.predict_proba(X))
        return np.asarray(self.classes_[sides])
