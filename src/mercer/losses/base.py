"""Loss: what is observed, and what a latent value predicts. The contract every loss fulfils.

:func:`absent` marks a method that a loss may leave out, :func:`needs` a default built on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Component
from mercer.losses.numbers import defaults as numeric
from mercer.losses.numbers import quadrature
from mercer.losses.numbers.special import exp

F = TypeVar("F", bound=Callable[..., Any])


def absent(reason: str) -> Callable[[F], F]:
    """Mark a method of the base class as missing; calling it refuses with ``reason``."""
    return _marked((), reason)


def needs(*names: str) -> Callable[[F], F]:
    """Mark a default that works only if every attribute in ``names`` is true, or offered."""
    return _marked(names, "")


def _marked(needed: tuple[str, ...], reason: str) -> Callable[[F], F]:
    def mark(method: F) -> F:
        @wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            if why := _refusal(type(self), guarded):
                raise NotImplementedError(f"{type(self).__name__} has no {method.__name__}: {why}")
            return method(self, *args, **kwargs)

        guarded.needed, guarded.reason = needed, reason  # type: ignore[attr-defined]  # read below
        return guarded  # type: ignore[return-value]  # same signature, by functools.wraps

    return mark


def _refusal(cls: type, method: Any) -> str:
    """Say why ``cls`` cannot do what the method stands for; empty if it can."""
    missing = (_REASONS[n] for n in getattr(method, "needed", ()) if not offered(cls, n))
    return getattr(method, "reason", "") or next(missing, "")


def offered(cls: type, name: str) -> bool:
    """Whether ``cls`` has a true attribute ``name``, or a method that is not absent."""
    own = getattr(cls, name, None)
    return bool(own) and not _refusal(cls, own)


def missing_because(cls: type, name: str) -> str:
    """Say why ``cls`` does not offer the method ``name``, and what to use in its place."""
    return _refusal(cls, getattr(cls, name, None)) or f"it is not a method of {cls.__name__}"


_REASONS = {
    "normalised": "exp(-loss) is not a probability of y; choose a normalised loss "
    "(NormalizedHinge for Hinge, Logistic for Exponential), or calibrate the decision values",
    "convex": "the loss is not convex in f; use an inference that works without the dual "
    "(Laplace, EP or a variational Gaussian)",
    "conditional_cdf": "write conditional_cdf(y, f), the distribution function of y given f",
    "units": "if it is a loss of y - f, state units = {name: power of the unit of y in it}",
    "moments": "write moments(f), the mean and variance of y given f",
}
QUADRATIC = (
    "only the Gaussian loss is a quadratic in f, and inference with others is not exact; use "
    "Laplace, EP or Variational inference, or Newton or Dual for the mode"
)
ONE = 0.6826894921370859  # the probability of a Gaussian within one deviation


class Loss(Component):
    """A loss g(y, f) to be minimised; a normalised one is -log p(y | f), constants included.

    A subclass implements ``value``. Everything else has a default (by quadrature, search or
    differences) or is refused: ask :meth:`offers`. All methods work elementwise on arrays that
    broadcast: y (n,), f, m (latent mean) and v (latent variance > 0) of shape (n,) or scalars.

    Attributes
    ----------
    response : what y is: "real", "count", "positive", "ordinal", "binary" (y = -1 or +1) or
        "multiclass" (y = 0 .. c-1, f and m are (n, c)).
    normalised : True if exp(-g) is a density or probability of y for every f.
    convex : True if g is convex in f.
    latent_is_mean : True if the mean of y given f is f, so that a mean needs no variance.
    latent_is_answer : True if f is what is asked for, a quantile for one: machines predict f and
        not the mean of y.
    units : of a loss of y - f, the power of the unit of y in each parameter that has one (1 for a
        scale, 2 for a variance, -1 for a slope): a fit standardises the target and moves them.
    reach : multiples of :meth:`width` at which the quadrature cuts the line.
    latents : names of the functions where a target has several, :class:`SeveralLatents`.
    abstract : True for a base class that is not itself a loss; not inherited.

    Examples
    --------
    A new loss is one method; the rest follows:

    >>> class LogCosh(Loss):
    ...     def value(self, y, f):
    ...         return np.logaddexp(y - f, f - y)
    >>> LogCosh().derivatives(0.0, 1.0)[0].round(6)
    np.float64(0.761594)
    >>> LogCosh.offers("expected"), LogCosh.offers("predict")
    (True, False)
    """

    response: ClassVar[str] = "real"
    normalised: ClassVar[bool] = False
    convex: ClassVar[bool] = True
    latent_is_mean: ClassVar[bool] = False
    latent_is_answer: ClassVar[bool] = False
    units: ClassVar[Mapping[str, float]] = {}
    reach: ClassVar[tuple[float, ...]] = (1.5, 5.0, 14.0, 36.0)
    latents: ClassVar[tuple[str, ...]] = ()
    joint: ClassVar[bool] = False  # several functions for one target, or for its classes: f (n, m)
    abstract: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.abstract = bool(cls.__dict__.get("abstract", False))
        cls.joint = cls.response == "multiclass" or bool(cls.latents)

    @classmethod
    def offers(cls, method: str) -> bool:
        """Whether the loss can do ``method`` (an inference asks before any work)."""
        return offered(cls, method)

    # ------------------------------------------------------------------ the loss and its shape
    def value(self, y: Array, f: Array) -> Array:
        """Return g(y, f)."""
        raise NotImplementedError

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return dg/df, d2g/df2, d3g/df3.

        Default: :func:`mercer.losses.numbers.defaults.differences` of ``value``. At a kink the
        first is the mean of the slopes on its two sides, the others those of the smooth part.
        """
        return numeric.differences(self, y, f)

    def kinks(self, y: Array) -> Array:
        """Return where, in f, a derivative of g jumps: shape (k, n), sorted along k."""
        return np.empty((0, np.size(y)))

    def width(self, y: Array) -> Array | float:
        """Return the distance in f over which g changes its shape, shape (n,) or a scalar."""
        return 1.0

    def centers(self, y: Array) -> Array:
        """Return the places in f about which g changes its shape, (k, n): y if it is real, or 0."""
        y = np.asarray(y, dtype=np.float64)
        return (y if self.response == "real" else np.zeros_like(y))[None]

    # ------------------------------------------------------------------ Gaussian averages
    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return log Z, d log Z/dm, d2 log Z/dm2 with Z = int exp(-g(y, f)) N(f | m, v) df."""
        log_z, first, second = quadrature.by_rows(partial(quadrature.tilted, self), y, m, v)
        return log_z, first, second

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return E[g(y, f)], dE/dm and dE/dv under f ~ N(m, v); default: within 8.6 deviations."""
        mean, dm, dv = quadrature.by_rows(partial(quadrature.expected, self), y, m, v)
        return mean, dm, dv

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        """Return d3 E[g]/dm3 and d4 E[g]/dm4 under f ~ N(m, v)."""
        third, fourth = quadrature.by_rows(partial(quadrature.higher, self), y, m, v)
        return third, fourth

    # ------------------------------------------------------------------ duals and bounds
    @needs("convex")
    def conjugate(self, y: Array, u: Array) -> Array:
        """Return g*(y, u) = sup_f u f - g(y, f), +inf outside its domain.

        g(y, f) + g*(y, u) >= u f, with equality at u = dg/df. Default: a search for the maximum.
        Theory (K10), (K11) has the formulas.
        """
        return numeric.conjugate(self, y, u)

    @absent(QUADRATIC)
    def quadratic(self, y: Array) -> tuple[Array, Array]:
        """Return z and W (n,) with g = W (z - f)^2 / 2 + constant."""
        raise NotImplementedError

    @absent(QUADRATIC)
    def quadratic_pullback(self, y: Array, dW: Array) -> dict[str, float | Array]:
        """Return {name: sum_i dW_i dW_i/d name} for the parameters behind ``quadratic``."""
        raise NotImplementedError

    @absent(
        "the Jaakkola bound exists for the Logistic loss only; use Laplace, EP or Variational "
        "inference"
    )
    def quadratic_bound(self, y: Array, xi: Array) -> tuple[Array, Array, Array]:
        """Return lam, z, c with g(y, f) <= lam (f - z)^2 + c, touching at f = +-xi."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what y will be
    @absent("write moments(f), the mean and variance of y given f")
    def moments(self, f: Array) -> tuple[Array, Array]:
        """Return the mean and the variance of y given f."""
        raise NotImplementedError

    @absent("y has no order, or the loss no distribution function; use predict")
    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Return P(Y <= y | f)."""
        raise NotImplementedError

    @needs("normalised", "moments")
    def predict(self, m: Array, v: Array) -> Any:
        """Return mean and variance of a new y for f ~ N(m, v).

        Binary losses return P(y = +1) (n,), multiclass ones the probabilities (n, c).
        """

        def parts(_: Array, f: Array) -> tuple[Array, ...]:
            mean, variance = self.moments(f)
            return mean, variance + np.square(mean)

        mean, second = self._average(parts, np.asarray(m), m, v)
        return mean, second - np.square(mean)

    @needs("normalised", "conditional_cdf")
    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        """Return P(Y <= y) for a new Y whose latent value is N(m, v)."""
        return self._average(lambda yy, f: (self.conditional_cdf(yy, f),), y, m, v)[0]

    def _average(
        self, parts: Callable[[Array, Array], tuple[Array, ...]], y: Array, m: Array, v: Array
    ) -> tuple[Array, ...]:
        return quadrature.by_rows(partial(quadrature.average, self, parts), y, m, v)

    @needs("normalised", "conditional_cdf")
    def quantile(self, q: Array, m: Array, v: Array) -> Array:
        """Return the q-quantile of a new y; of counts the smallest k with P(Y <= k) >= q."""
        q, m, v = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (q, m, v)))
        check_levels(q)
        if self.response in ("count", "ordinal"):
            return numeric.smallest_integer(lambda k: self.cdf(k, m, v), q)
        if self.response == "positive":
            step = 1.0 + np.sqrt(v)
            return exp(numeric.increasing_root(lambda t: self.cdf(exp(t), m, v) - q, m, step))
        step = np.sqrt(v) + self.width(m)
        return numeric.increasing_root(lambda y: self.cdf(y, m, v) - q, m, step)

    @needs("normalised", "conditional_cdf")
    def spread(self, m: Array, v: Array) -> Array:
        """Return half the width of the central 68.27 % of a new y, finite: a Gaussian s.d."""
        low, high = (self.quantile(np.asarray(0.5 * (1.0 + s * ONE)), m, v) for s in (-1.0, 1.0))
        return np.asarray(0.5 * (high - low))

    def observed(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Return mean and variance of a new y; the square of ``spread`` where that is infinite."""
        mean, variance = self.predict(m, v)
        if np.all(np.isfinite(variance)) or not self.offers("spread"):
            return mean, variance
        return mean, np.where(np.isfinite(variance), variance, np.square(self.spread(m, v)))

    @needs("normalised")
    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        """Return log p(y) of a new y whose latent value is N(m, v)."""
        return self.tilted(y, m, v)[0]

    @absent("the loss is not a distribution that can be sampled, or lacks sample(f, rng)")
    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return a draw of y given f."""
        raise NotImplementedError

    @property
    def of_rows(self) -> bool:
        """Whether a parameter has one value for each training row: rows are not merged then."""
        return bool(np.ndim(getattr(self, "noise", 0.0)))

    def for_new(self) -> Loss:
        """Return the loss of observations to come (without what is known of training rows only)."""
        return self

    @needs("units")
    def in_units(self, scale: float) -> Self:
        """Return that of scale * y, scale * f (f, if y is positive): by ``units``, with bounds."""
        restated, marks = self.__sklearn_clone__(), dict(getattr(self, "_marks", {}))
        for name, power in self.units.items():
            factor, mark = scale**power, self.mark(name)
            setattr(restated, name, getattr(self, name) * factor)
            if mark.prior is not None and scale != 1.0:
                what = f"a prior on the {name} is stated in units of y and cannot be moved"
                raise ValueError(f"{what} to a standardised target; set standardize=False")
            if mark.bounds is not None:
                low, high = mark.bounds
                marks[name] = replace(mark, bounds=(low * factor, high * factor))
        if marks:
            restated._marks = marks
        return restated

    # ------------------------------------------------------------------ targets
    def check_targets(self, y: Any) -> Array:
        """Return y as a float64 array that the loss can use, or refuse it with a sentence."""
        return checked(y, self.response, type(self).__name__)

    def check_new_targets(self, y: Any) -> Array:
        """Return y of new rows, to be scored, as ``check_targets`` does.

        A loss that says what the density is outside of the targets it learns from takes those too.
        """
        return self.check_targets(y)

    def example_targets(self, rng: np.random.Generator, n: int) -> Array:
        """Return n targets that the loss can use, for tests and documentation."""
        return examples(self.response, rng, n)


def check_levels(q: Array) -> None:
    """Refuse quantile levels outside (0, 1)."""
    if np.any(~((q > 0.0) & (q < 1.0))):
        raise ValueError("quantile levels must lie strictly between 0 and 1")


def is_number(value: Any, low: float, high: float) -> bool:
    """Whether ``value`` is one real number strictly between low and high."""
    return isinstance(value, (int, float, np.integer, np.floating)) and low < float(value) < high


def check_positive(who: str, **values: Any) -> None:
    """Refuse constructor arguments that are not positive finite numbers."""
    for name, value in values.items():
        if not is_number(value, 0.0, np.inf):
            raise ValueError(f"{who} needs a positive {name}, not {value!r}")


def _natural(y: Array) -> Any:
    return (y >= 0) & (y == np.floor(y))


# response: (which entries are right, what they should be, the remedy)
RULES: dict[str, tuple[Callable[[Array], Any], str, str]] = {
    "real": (np.isfinite, "a finite number", "drop or impute that row"),
    "count": (
        _natural,
        "a count 0, 1, 2, ...",
        "use Gamma for positive or Gaussian for real targets",
    ),
    "positive": (
        lambda y: y > 0,
        "a positive number",
        "use Gaussian for targets of any sign, or Poisson for counts with zeros",
    ),
    "ordinal": (_natural, "a category 0, 1, 2, ...", "number the ordered categories from 0"),
    "binary": (
        lambda y: np.abs(y) == 1,
        "-1 or +1",
        "encode the two classes as -1 and +1 (a classifier does it by itself)",
    ),
    "multiclass": (
        _natural,
        "a class number 0, 1, 2, ...",
        "number the classes from 0 (a classifier does it by itself)",
    ),
}


def checked(y: Any, response: str, who: str) -> Array:
    """Return y as a float64 array (n,), for real responses also (n, m), or refuse it."""
    try:
        values = np.array(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{who} needs numeric targets: {error}") from error
    most = 2 if response == "real" else 1
    if values.ndim == 2 and values.shape[1] == 1 and most == 1:
        values = values[:, 0]
    if not 1 <= values.ndim <= most:
        got = f"and they have shape {values.shape}; pass one column"
        raise ValueError(f"{who} needs targets of shape (n,), {got}")
    allowed, what, remedy = RULES[response]
    right = np.isfinite(values)
    right[right] = allowed(values[right])
    refuse_rows(values, right, who, what, remedy)
    return values


def refuse_rows(values: Array, right: Any, who: str, what: str, remedy: str) -> None:
    """Raise a ValueError that names the first row of ``values`` where ``right`` is false."""
    if not np.all(right):
        where = tuple(int(i) for i in np.argwhere(~right)[0])
        got = f"row {where[0]} is {float(values[where]):g}"
        raise ValueError(f"{who} needs every target to be {what}; {got}; {remedy}")


def examples(response: str, rng: np.random.Generator, n: int, classes: int = 3) -> Array:
    """Return n valid targets of the given response; ``classes`` bounds category numbers."""
    draws: dict[str, Callable[[], Any]] = {
        "real": lambda: rng.normal(size=n),
        "count": lambda: rng.poisson(3.0, size=n),
        "positive": lambda: rng.gamma(2.0, 0.7, size=n),
        "ordinal": lambda: rng.integers(0, classes, size=n),
        "binary": lambda: rng.choice([-1.0, 1.0], size=n),
        "multiclass": lambda: rng.integers(0, classes, size=n),
    }
    return np.asarray(draws[response](), dtype=np.float64)
