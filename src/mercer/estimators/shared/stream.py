"""What estimators with ``partial_fit`` share: checks, frozen parameters, prequential figures."""

from __future__ import annotations

import copy
import numbers
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.core.arrays import Array, Index
from mercer.core.component import Component
from mercer.core.record import Recorded
from mercer.kernels.base import Kernel

POWERS = np.exp2(np.arange(-2.0, 5.25, 0.25))  # 1/4 ... 32
WINDOW = 300.0  # rows after which a row counts 1/e: what is needed changes as more is learned
PRICE = 0.5 * np.abs(np.log2(POWERS))  # nats, half of one for each doubling
LARGEST = 1e18  # prior variance of f of which double precision still has a posterior one


def is_plain(machine: Any, X: Any, y: Any, *, values: bool = False) -> bool:
    """Return whether X (n, d) are finite doubles without names, and y (n,) labels, or ``values``.

    scikit-learn's validation of a batch takes a tenth of the time of learning it.
    """
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.dtype == np.float64
        and X.shape == (len(y), machine.n_features_in_)
        and y.ndim == 1
        and len(y) > 0
        and (y.dtype == np.float64 if values else y.dtype.kind in "biuU")
        and (not values or bool(np.isfinite(y).all()))
        and not hasattr(machine, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def require_moderate(kernel: Kernel, X: Array, most: float = LARGEST) -> None:
    """Refuse rows X (b, d) at which the prior variance v of f is too large, or not finite.

    A posterior variance is the difference of two numbers of the size of v. It falls to the order of
    sqrt(v), since a bound at xi has a variance of 2 xi or more: beyond 1e18 rounding reaches it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(kernel.diag(X).max())
    if not largest <= most:
        raise ValueError(
            f"the prior variance of f reaches {largest:.3g} on these rows, where a posterior is "
            "nothing but rounding errors: scale the columns, choose a smaller amplitude, or use a "
            "kernel that is bounded"
        )


def check_stream(
    rho: Any, drift: Any, budget: Any, name: str = "rho"
) -> tuple[float, float | None, int | None]:
    """Return the forgetting, the drift (None for "auto") and the points to keep (None: all)."""

    def real(value: Any) -> bool:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)

    if not real(rho) or not 0.0 < float(rho) <= 1.0:
        raise ValueError(f"{name} must be a number in (0, 1], 1 to forget nothing, not {rho!r}")
    auto = isinstance(drift, str) and drift == "auto"
    if not auto and (not real(drift) or not 0.0 <= float(drift) < 1.0):
        raise ValueError(
            f'drift must be a number in [0, 1), where 0 is no drift, or "auto", not {drift!r}'
        )
    if isinstance(budget, float) and budget == np.inf:
        budget = None
    whole = isinstance(budget, numbers.Integral) and not isinstance(budget, bool)
    if budget is not None and not (whole and budget >= 1):
        raise ValueError(f"budget must be a number of points, at least 1, or None, not {budget!r}")
    return float(rho), None if auto else float(drift), None if budget is None else int(budget)


def first_classes(y: Any, classes: Any, known: NDArray[Any] | None, least: int = 2) -> NDArray[Any]:
    """Return the sorted classes of a stream: those ``known``, those given, or those of y.

    ``known`` are those of a stream already begun, with which ``classes`` must agree.

    Examples
    --------
    >>> first_classes(["b"], ["b", "a"], None)
    array(['a', 'b'], dtype='<U1')
    """
    if known is not None:
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes={list(classes)!r} differ from those of the first call, "
                f"{known.tolist()}; start another learner for them"
            )
        return known
    values = column_or_1d(y, warn=True) if classes is None else column_or_1d(classes)
    gaps = [v for v in values.tolist() if v is None or (isinstance(v, float) and v != v)]
    if gaps:
        raise ValueError(f"{gaps[0]!r} is not a label: it cannot be one of the classes of a stream")
    try:
        found = np.unique(values)
    except TypeError:
        raise TypeError(
            "some labels are strings and others are numbers, which cannot be sorted: make them all "
            "strings or all numbers"
        ) from None
    if classes is None:
        check_classification_targets(values)
    if len(found) < least and classes is not None:
        raise ValueError("classes must name at least two labels")
    if len(found) < least:
        raise ValueError(
            f"the first batch has only one class, {found.tolist()[0]!r}: give all labels of the "
            "stream as classes=[...] at the first call of partial_fit"
        )
    return np.asarray(found)


def known_codes(y: Any, classes: NDArray[Any]) -> Index:
    """Return the class of each label of y (b,) as 0 .. k-1; refuse one that is not in classes.

    Examples
    --------
    >>> import numpy as np
    >>> known_codes(["b", "a"], np.array(["a", "b"]))
    array([1, 0])
    """
    mixed = classes.dtype == object  # such labels need not have an order among themselves
    if isinstance(y, np.ndarray) and y.dtype == classes.dtype and y.ndim == 1 and not mixed:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        if (classes[codes] == y).all():
            return codes
    number = {label: i for i, label in enumerate(classes.tolist())}
    values = column_or_1d(y, warn=True).tolist()
    for value in values:
        if isinstance(value, (dict, list, set)):
            raise TypeError(f"y has the entry {value!r}, which is no label: give texts or numbers")
    odd = [value for value in values if value not in number]
    if odd:
        raise ValueError(
            f"y has the label {odd[0]!r}, which is not one of the classes {classes.tolist()} of "
            "the first call; give all labels of the stream as classes=[...] at the first call of "
            "partial_fit"
        )
    return np.array([number[value] for value in values], dtype=np.intp)


def new_classes(y: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of y (b,) that are none of the classes, sorted; refuse what is no label.

    Examples
    --------
    >>> import numpy as np
    >>> new_classes(["b", "c"], np.array(["a", "b"]))
    array(['c'], dtype='<U1')
    """
    found = first_classes(y, None, None, least=1)
    if found.dtype.kind != classes.dtype.kind and (found.dtype.kind in "US") != (
        classes.dtype.kind in "US"
    ):
        return found[:0]  # refused as labels of another type
    return np.setdiff1d(found, classes)


class Freezes(Recorded):
    """An estimator whose parameters ``_freezes`` stay as they are from the first batch on.

    Copies are kept: ``set_params(kernel__length_scale=...)`` changes a kernel in place.
    """

    _freezes: ClassVar[tuple[str, ...]] = ()
    _frozen: dict[str, Any] | None = None

    def _freeze(self) -> None:
        """Remember the parameters, at the start of a stream or in ``fit``."""
        if self._freezes:
            self._frozen = {name: _copied(getattr(self, name)) for name in self._freezes}

    def _require_frozen(self) -> None:
        """Refuse to continue a stream after one of its frozen parameters was changed."""
        for name, kept in (self._frozen or {}).items():
            now = getattr(self, name)
            # the first is ten times as fast, and a stream may come row by row
            if not _alike(now, kept) and now != kept:
                raise ValueError(
                    f"{name} was changed in the middle of a stream, from {kept!r} to {now!r}, but "
                    f"what was learned so far depends on it. Start a new model with the new {name},"
                    f" or call fit, which starts from scratch; to continue, set {name} back"
                )

    def _stored_params(self) -> dict[str, Any]:
        return super()._stored_params() | (self._frozen or {})

    def _restored(self) -> None:
        self._freeze()


def _copied(value: Any) -> Any:
    """Return a copy that equals the value; a function equals no copy and is kept itself."""
    if isinstance(value, Component):
        twin = copy.copy(value)
        vars(twin).update({name: _copied(part) for name, part in vars(value).items()})
        return twin
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if callable(value) and not hasattr(value, "get_params"):
        return value
    twin = copy.deepcopy(value)
    return twin if _alike(twin, value) else value


def _alike(a: Any, b: Any) -> bool:
    """Whether two values are the same to the last attribute: enough for being equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Component):
        mine, theirs = vars(a), vars(b)
        return mine.keys() == theirs.keys() and all(_alike(mine[k], theirs[k]) for k in mine)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    return a is b or bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)


@dataclass(frozen=True)
class Prequential:
    """Running sums over a stream whose examples are predicted before they are learned."""

    weight: float = 0.0  # of the examples so far
    log_loss_sum: float = 0.0  # of -log P(label)
    right: float = 0.0  # weight of those whose label was the most probable one

    @property
    def log_loss(self) -> float:
        """Mean log loss before each update; NaN before the first."""
        return self.log_loss_sum / self.weight if self.weight else float("nan")

    @property
    def accuracy(self) -> float:
        """Share of labels predicted correctly before each update; NaN before the first."""
        return self.right / self.weight if self.weight else float("nan")

    def add(self, log_p: Array, codes: Index, w: Array) -> Prequential:
        """Return the figures with b further examples: log probabilities (b, k), classes, weights.

        Examples
        --------
        >>> import numpy as np
        >>> p = np.log([[0.5, 0.5], [0.2, 0.8]])
        >>> Prequential().add(p, np.array([0, 1]), np.ones(2)).accuracy
        1.0
        """
        seen = self.log_loss_sum - float(w @ log_p[np.arange(len(codes)), codes])
        right = self.right + float(w @ (log_p.argmax(axis=1) == codes))
        return Prequential(self.weight + float(w.sum()), seen, right)


@dataclass(frozen=True, eq=False)
class Sharpening:
    """How sure several classes may be, learned from the rows that were predicted; theory (O24).

    Functions that are each one class against the rest say probabilities whose normalised form is
    too cautious, the more so the more classes there are. The power that would have foreseen the
    labels so far best makes them as sure as they have earned to be. ``sums`` is the log loss that
    each power would have had, over the latest rows foreseen.
    """

    sums: Array = field(default_factory=lambda: np.zeros(len(POWERS)))  # (p,) nats

    @property
    def power(self) -> float:
        """The power of the least loss; one before any row."""
        return float(POWERS[int(np.argmin(self.sums + PRICE))])

    def applied(self, log_p: Array) -> Array:
        """Return log probabilities (q, k) raised to the power, and normalised."""
        power = self.power
        return log_p if power == 1.0 else _normalised(power * log_p)

    def given(self, log_p: Array, codes: Index, w: Array) -> Sharpening:
        """Return it given the classes of rows with log probabilities (b, k), not yet sharpened.

        Examples
        --------
        >>> import numpy as np
        >>> cautious = np.log(np.tile([0.4, 0.3, 0.3], (50, 1)))
        >>> Sharpening().given(cautious, np.zeros(50, dtype=int), np.ones(50)).power > 8.0
        True
        """
        rows = np.arange(len(codes))
        lost = [-float(w @ _normalised(power * log_p)[rows, codes]) for power in POWERS]
        return Sharpening(np.exp(-float(w.sum()) / WINDOW) * self.sums + np.array(lost))


def _normalised(log_p: Array) -> Array:
    return np.asarray(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
