"""Several machines as one: the mixture of their predictive distributions, by fixed weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, Record, Texts
from mercer.core.record import Each, Recorded
from mercer.core.words import shown
from mercer.estimators.shared.labels import decided, split_labels
from mercer.estimators.shared.machine import generator
from mercer.estimators.shared.summary import Rows, Summary
from mercer.estimators.shared.table import check_weights
from mercer.losses.base import ONE
from mercer.losses.numbers.defaults import increasing_root
from mercer.persist.pipelines import Step
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import by_folds, own_left_out
from mercer.tables.data.weights import fitted
from mercer.tables.stack.mixture import densities
from mercer.tables.stack.weights import free

OWN: dict[str, type] = {"SigmoidClassifier": SigmoidClassifier}
Machines = Sequence[tuple[str, Any]]


class Combination(Recorded, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What the combinations of regressors and of classifiers share; a child states predictions."""

    names_: list[str]
    members_: list[Any]
    weights_: Array

    def __init__(self, machines: Machines = (), weights: Any = None) -> None:
        self.machines, self.weights = machines, weights

    @classmethod
    def of(cls, names: Sequence[str], members: Sequence[Any], weights: Array) -> Self:
        """Return the combination of fitted machines, greatest weight first."""
        order = np.argsort(-np.asarray(weights), kind="stable").tolist()
        machines = [(names[i], clone(members[i])) for i in order]
        made = cls(machines)
        made.names_ = [names[i] for i in order]
        made.members_ = [members[i] for i in order]
        made.weights_ = np.asarray(weights, dtype=np.float64)[order]
        made._restored()
        made._check_fitted()
        return made

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit every machine to X (n, d) and y (n,), and the weights to their rows left out.

        Weights that are given are kept. Of classes y may be None where there is no label: machines
        that cannot use such rows are fitted to the others.
        """
        X = np.asarray(X, dtype=np.float64)
        if not self.machines:
            raise ValueError("a combination needs machines: [(name, machine), ...]")
        counts = None if sample_weight is None else check_weights(sample_weight, len(X))
        known, target, codes, k = self._read(y, len(X))
        part = None if counts is None else counts[known]
        members, lefts = [], []
        for _, machine in self.machines:
            every = hasattr(machine, "held_out_proba")
            rows = np.ones(len(X), dtype=bool) if every else known
            given = target if every else target[known]
            some = None if counts is None else counts[rows]
            members.append(fitted(clone(machine), X[rows], given, some))
            if self.weights is None and len(self.machines) > 1:
                left = own_left_out(members[-1], X[known], codes, k, part)
                if left is None:
                    made = (X[known], target[known], codes, k, 0)
                    left = by_folds(clone(machine), *made, weights=part)
                lefts.append(left)
        if self.weights is not None:
            weights = _simplex(self.weights, len(members))
        else:
            weights = free(densities(lefts), part) if lefts else np.ones(1)
        self.names_ = [name for name, _ in self.machines]
        self.members_, self.weights_ = members, weights
        self._restored()
        return self

    def _read(self, y: Any, n: int) -> tuple[NDArray[np.bool_], Any, Array, int]:
        """Return which rows have a target, all targets, those known as numbers, and k."""
        raise NotImplementedError

    def again(self, make: Callable[[Any], Any]) -> Self:
        """Return an unfitted combination of the machines that ``make`` makes of the fitted ones."""
        return type(self)([(n, make(m)) for n, m in zip(self.names_, self.members_, strict=True)])

    def _used(self) -> list[tuple[float, Any]]:
        check_is_fitted(self, "weights_")
        pairs = zip(self.weights_.tolist(), self.members_, strict=True)
        return [(weight, member) for weight, member in pairs if weight > 0.0]

    @property
    def words(self) -> str:
        """The members and their weights, in words: "0.62 of smooth and 0.38 of rough"."""
        return in_words(self.names_, self.weights_)

    def summary(self) -> Summary:
        """Return the weights and, member by member, what was fitted."""
        check_is_fitted(self, "weights_")
        rows: Rows = []
        for name, weight in zip(self.names_, self.weights_.tolist(), strict=True):
            rows.append(("Combination", name, f"weight {weight:.3f}"))
        for name, member in zip(self.names_, self.members_, strict=True):
            own = shown(name, 60).replace("{", "{{").replace("}", "}}")  # a section is a format
            rows += [(f"{own}: {s}", label, v) for s, label, v in member.summary().entries]
        return Summary(type(self).__name__, tuple(rows))

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {
            "weights_": Numbers("k", 0.0),
            "names_": Texts("k"),
            "members_": Each(Step(OWN), "k", least=1),
        }

    def _stored_params(self) -> dict[str, Any]:
        return {}

    def _restored(self) -> None:
        if not all(hasattr(member, name) for member in self.members_ for name in self._needs):
            raise ValueError("a member of the combination cannot predict")
        self.n_features_in_ = int(self.members_[0].n_features_in_)
        self.report_: dict[str, Any] = {"members": len(self.members_)}
        for member in self.members_:
            said = (getattr(member, "report_", None) or {}).get("variance")
            self.report_ |= {} if said is None else {"variance": said}  # it is infinite
        if not self.machines:
            pairs = zip(self.names_, self.members_, strict=True)
            self.machines = [(name, clone(member)) for name, member in pairs]

    def _check_fitted(self) -> None:
        _simplex(self.weights_, len(self.members_))
        for member in self.members_:
            if isinstance(member, Combination) or member.n_features_in_ != self.n_features_in_:
                raise ValueError("the members of a combination differ in their columns")

    _needs: tuple[str, ...] = ("predict", "summary")


class StackedRegressor(RegressorMixin, Combination):  # type: ignore[misc]  # scikit-learn ships no types
    """A mixture of predictive distributions, p(y | x) = sum_k w_k p_k(y | x).

    The weights maximise the log density of rows left out; see :mod:`mercer.tables.stack.weights`.

    Parameters
    ----------
    machines : list of (name, machine), regressors with ``predictive_log_density``.
    weights : (k,) to be kept; None: found by rows left out.

    Attributes
    ----------
    names_, members_, weights_ : the fitted machines and their weights, which add up to one.
    n_features_in_

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> machines = [("smooth", GPRegressor("rbf")), ("line", GPRegressor("linear"))]
    >>> StackedRegressor(machines).fit(X, y).weights_.round(2)
    array([1., 0.])
    """

    _needs = ("predict", "summary", "predictive_log_density", "predict_interval", "distribution_at")

    def _read(self, y: Any, n: int) -> tuple[NDArray[np.bool_], Any, Array, int]:
        values = np.asarray(y, dtype=np.float64)
        return np.ones(n, dtype=bool), values, values, 0

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean (q,) of the mixture, with ``return_std`` its standard deviation too.

        The variance is that within the members, on average, plus that between their means.
        """
        used = self._used()
        if not return_std:
            return np.asarray(sum(w * member.predict(X) for w, member in used))
        pairs = [(w, *member.predict(X, return_std=True)) for w, member in used]
        mean = np.asarray(sum(w * m for w, m, _ in pairs))
        variance = sum(w * (np.square(s) + np.square(m - mean)) for w, m, s in pairs)
        return mean, np.sqrt(variance)

    def predict_latent(self, X: Any) -> tuple[Array, Array | None]:
        """Return mean and standard deviation (q,) of the function, noise left out, of the mixture.

        The function of a member that is not the mean of its observations is left as ``predict``.
        """
        pairs = [(w, member.predict(X), _sure(member, X)) for w, member in self._used()]
        mean = np.asarray(sum(w * m for w, m, _ in pairs))
        variance = sum(w * (np.square(s) + np.square(m - mean)) for w, m, s in pairs)
        return mean, np.sqrt(variance)

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log sum_k w_k p_k(y_i | x_i), (q,)."""
        each = [np.log(w) + member.predictive_log_density(X, y) for w, member in self._used()]
        return np.asarray(np.logaddexp.reduce(each, axis=0))

    def distribution_at(self, X: Any) -> Callable[[Array], Array]:
        """Return the function that gives P(Y <= y), (q,), for y (q,) at the rows of X (q, d)."""
        parts = [(w, member.distribution_at(X)) for w, member in self._used()]
        return lambda y: np.asarray(sum(w * below(y) for w, below in parts))

    def predictive_cdf(self, X: Any, y: Any) -> Array:
        """Return P(Y <= y_i | x_i), (q,)."""
        return self.distribution_at(X)(np.asarray(y, dtype=np.float64))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return (low, high), (q,) each, with a new observation inside with ``coverage``.

        What is left of it lies half below and half above: quantiles of the mixture, each between
        those of the members.
        """
        ends = [member.predict_interval(X, coverage=coverage) for _, member in self._used()]
        if len(ends) == 1:
            low, high = ends[0]
            return low, high
        below = self.distribution_at(X)
        levels = (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage))
        low, high = (
            _between(below, level, np.array(each))
            for level, each in zip(levels, zip(*ends, strict=True), strict=True)
        )
        return low, high

    def predict_with_interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[Array, Array, Array, Array]:
        """Return mean, standard deviation, low and high of a new observation, (q,) each."""
        return *self.predict(X, return_std=True), *self.predict_interval(X, coverage)

    def predict_spread(self, X: Any) -> Array:
        """Return half the width of the central 68.27 % interval of a new observation, (q,)."""
        low, high = self.predict_interval(X, ONE)
        return np.asarray(0.5 * (high - low))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw functions at X (q, d), each of a member drawn by its weight: (q, n_samples)."""
        rng, used = generator(random_state), self._used()
        counts = rng.multinomial(n_samples, [w for w, _ in used]).tolist()
        parts = [m.sample_y(X, c, rng) for c, (_, m) in zip(counts, used, strict=True) if c]
        return np.asarray(np.concatenate(parts, axis=1)[:, rng.permutation(n_samples)])


class StackedClassifier(ClassifierMixin, Combination):  # type: ignore[misc]  # scikit-learn ships no types
    """Averaged probabilities of several classifiers, p(c | x) = sum_k w_k p_k(c | x).

    The weights maximise the log probability of labels left out; rows without a label are used by
    the machines that can. See :class:`StackedRegressor` for parameters and attributes; ``classes_``
    are the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier, KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(40, 1))
    >>> y = np.where(np.abs(X[:, 0]) < 0.7, "in", "out")
    >>> line = KernelClassifier("linear", loss="logistic")
    >>> machines = [("process", GPClassifier()), ("line", line)]
    >>> model = StackedClassifier(machines, weights=[0.9, 0.1]).fit(X, y)
    >>> model.predict([[0.0], [3.0]])
    array(['in', 'out'], dtype='<U3')
    """

    classes_: NDArray[Any]
    _needs = ("predict_proba", "summary", "classes_")

    def _read(self, y: Any, n: int) -> tuple[NDArray[np.bool_], Any, Array, int]:
        known, labels = split_labels(y, n)
        classes, found = np.unique(labels, return_inverse=True)
        codes = found.astype(np.float64)
        if known.all():
            return known, labels, codes, len(classes)
        every = np.empty(n, dtype=object)
        every[known] = labels
        return known, every, codes, len(classes)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``."""
        return np.asarray(sum(w * np.asarray(m.predict_proba(X)) for w, m in self._used()))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, (q,)."""
        return decided(self.classes_, self.predict_proba(X))

    def _restored(self) -> None:
        super()._restored()
        self.classes_ = self.members_[0].classes_

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if not all(np.array_equal(m.classes_, self.classes_) for m in self.members_):
            raise ValueError("the members of a combination differ in their classes")


def members_of(machine: Any) -> list[tuple[float, Any]]:
    """Return (weight, machine) of a combination, or the machine with weight one."""
    return machine._used() if isinstance(machine, Combination) else [(1.0, machine)]


def in_words(names: Sequence[str], weights: Array) -> str:
    """Return the weights in words, the greatest first.

    Examples
    --------
    >>> in_words(["rough", "smooth"], np.array([0.4, 0.6]))
    '60 % smooth, 40 % rough'
    """
    order = np.argsort(-weights, kind="stable").tolist()
    return ", ".join(f"{100 * weights[i]:.0f} % {shown(names[i], 60)}" for i in order)


def _simplex(weights: Any, k: int) -> Array:
    """Return weights (k,) that add up to one, or refuse them."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (k,) or not np.all(w >= 0.0) or not abs(float(w.sum()) - 1.0) < 1e-6:
        raise ValueError(f"weights must be {k} numbers from 0 on that add up to one")
    return w


def _sure(member: Any, X: Any) -> Any:
    """Return the deviation of a member's function; zero of a mode, which has none."""
    std = member.predict_latent(X)[1]
    return 0.0 if std is None else std


def _between(below: Callable[[Array], Array], level: float, ends: Array) -> Array:
    """Return y with P(Y <= y) = level, between the quantiles (k, q) of the members."""
    low, high = ends.min(axis=0), ends.max(axis=0)
    step = np.maximum(0.5 * (high - low), 1e-12 * (1.0 + np.abs(low)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the slope of a step may be infinite
        return increasing_root(lambda y: below(y) - level, 0.5 * (low + high), step)
