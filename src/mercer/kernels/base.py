"""Kernel: what is smooth. The contract every kernel fulfils, and the checks that they share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from mercer._native import machines
from mercer.core.arrays import Array, Index, Matrix, as_matrix, host, is_sparse, one_thread, threads
from mercer.core.component import Component, Mark
from mercer.core.device import array as arrays_there
from mercer.core.device.array import Distant, together, unboxed
from mercer.core.device.tiles import tiled_matmul

if TYPE_CHECKING:
    from mercer.kernels.markov import MarkovProcess, Slopes, StateSpace

Gradient: TypeAlias = dict[str, float | Array]
# Most bytes of kernel values that a product k(X, Z) V holds at a time.
BATCH_BYTES = 1 << 27
FEW = 16  # columns of a product that reading the matrix, not multiplication, takes the time of
DIAGONAL = 64  # rows of a block whose diagonal alone is differentiated
FAR = 1e15  # scaled coordinates whose squares single precision still holds
KEEP = "without which hyperparameters cannot be learned (search=None keeps those given)"


class Kernel(Component):
    """A positive semidefinite function k(x, z).

    A child states ``__call__``, ``diag`` and, if it has differentiable parameters, ``pullback``.
    Inputs X (n, d) and Z (m, d) are float64 matrices; ``Z=None`` means the n points themselves, and
    only then parts that stand for noise (:class:`~mercer.kernels.Noise`) contribute. A class that
    only serves others to be built on is declared ``class Name(Kernel, abstract=True)``.
    """

    abstract: ClassVar[bool] = True
    # whether it and its parts treat all columns alike, but for parameters that have one of each
    alike: ClassVar[bool] = False
    by_scale: ClassVar[bool] = False  # whether it is of distances over ``length_scale``, by columns
    separate: ClassVar[bool] = False  # whether it is one for each of several latent functions

    def __init_subclass__(cls, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.abstract = abstract

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Return the fresh matrix k(X, Z) (n, m), which the caller may overwrite."""
        raise self._unstated("__call__(X, Z=None)", "the matrix k(X, Z), k(X, X) if Z is None")

    def multiple(self, X: Array, Z: Array | None, factor: float) -> Array:
        """Return factor * k(X, Z) (n, p), fresh."""
        K = self(X, Z)
        K *= factor
        return K

    def written(self, X: Array, out: Array, factor: float = 1.0, Z: Array | None = None) -> Array:
        """Return factor * k(X, Z) (n, m), written to ``out`` by kernels that can, else fresh."""
        return self(X, Z) if factor == 1.0 else self.multiple(X, Z, factor)

    def diag(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n,): the diagonal of ``k(X)``, noise parts included."""
        raise self._unstated("diag(X)", "k(x, x) of every row")

    def pullback(self, X: Array, Z: Array | None, Q: Array) -> Gradient:
        """Return d<Q, k(X, Z)>/d name for every differentiable parameter, by path, in its shape.

        Q is (n, m), symmetric if Z is None. No array of size n x m x p is formed.
        """
        return self._value_and_pullback(X, Z, Q)[1]

    def diag_pullback(self, X: Array, q: Array, *, noise: bool = True) -> Gradient:
        """Return d<q, k(x_i, x_i)>/d name for q (n,); without ``noise`` of the signal alone.

        By blocks of rows; children that know their diagonal state it.
        """
        gradient = zero_gradient(self)
        for i in range(0, len(X), DIAGONAL):
            part = X[i : i + DIAGONAL]
            Q = np.diag(q[i : i + DIAGONAL])
            gradient = added(gradient, self.pullback(part, None if noise else part.copy(), Q))
        return gradient

    def pullback_points(self, X: Array, Z: Array, Q: Array) -> Array:
        """Return d<Q, k(X, Z)>/dZ (m, d) for Q (n, m): stated by kernels whose points can move."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say how it changes with its points, so that inducing "
            "points cannot be moved: use move=False"
        )

    def matmul(self, X: Any, Z: Any, V: Array, *, precision: str = "double") -> Array:
        """Return k(X, Z) @ V (n, r) without holding the (n, m) matrix.

        A child that knows a shorter way states :meth:`_matmul`; others are evaluated in blocks.

        Parameters
        ----------
        X, Z : (n, d) and (m, d), both sparse where :attr:`takes_sparse` says so.
        V : (m, r).
        precision : "double"; "single": an RBF (:meth:`as_rbf`) has compiled values to 4e-7, on
            a device any kernel is evaluated so.

        Examples
        --------
        >>> from mercer.kernels import RBF
        >>> RBF().matmul(np.zeros((1, 1)), np.array([[0.0], [1.0]]), np.ones((2, 1))).round(4)
        array([[1.6065]])
        """
        V = np.asarray(V, dtype=np.float64)
        if precision not in ("single", "double"):
            raise ValueError(f"precision must be 'single' or 'double', got {precision!r}")
        if V.ndim != 2 or V.shape[0] != Z.shape[0]:
            raise ValueError(f"V has shape {V.shape}, expected ({Z.shape[0]}, r): a row for each z")
        if not V.size:
            return np.zeros((X.shape[0], V.shape[1]))
        if X.__class__ is Distant or Z.__class__ is Distant:
            return tiled_matmul(self, *together(X, Z), V, single=precision == "single")
        if precision == "single":
            return self._matmul_single(X, Z, V)
        if stated_below(type(self), "__call__", "_matmul"):
            return blocked_matmul(self, X, Z, V)
        return self._matmul(X, Z, V)

    def _matmul(self, X: Any, Z: Any, V: Array) -> Array:
        """Return k(X, Z) @ V in double precision: by features if they are few, else by blocks."""
        F = unboxed(self.features(Z))
        if F is None or (not is_sparse(F) and F.shape[1] > F.shape[0]):
            return blocked_matmul(self, X, Z, V)
        weights = F.T @ V
        size = max(1, BATCH_BYTES // (8 * max(1, F.shape[1])))
        starts = range(0, X.shape[0], size)
        parts = [host(unboxed(self.features(X[i : i + size])) @ weights) for i in starts]
        return np.concatenate([np.zeros((0, V.shape[1])), *parts])

    def _matmul_single(self, X: Array, Z: Array, V: Array) -> Array:
        centre = Z.mean(axis=0)
        form = self.single_form(Z, centre)
        if form is None:
            return blocked_matmul(self, X, Z, V)
        columns, rows = np.ascontiguousarray(form[0].T, dtype=np.float32), np.ascontiguousarray(V.T)
        result = np.empty((len(X), V.shape[1]))
        size = max(1, BATCH_BYTES // (8 * max(1, X.shape[1])))
        for i in range(0, len(X), size):
            moved = self.as_rbf(X[i : i + size], centre)
            assert moved is not None
            if np.abs(moved[0]).max(initial=0.0) > FAR:
                far = blocked_matmul(self, X[i : i + size], Z, V)
                result[i : i + size] = far / form[1]
                continue
            coordinates = np.ascontiguousarray(moved[0], dtype=np.float32)
            part = result[i : i + size]
            machines.rbf_expand(coordinates, columns, rows, part, threads(len(part) * len(Z)))
        result *= form[1]
        return result

    def _unstated(self, method: str, what: str) -> NotImplementedError:
        """Return the sentence for a method that a child was to state, to be raised."""
        return NotImplementedError(f"{type(self).__name__} does not state {method}: {what}")

    # ------------------------------------------------------------------ for composites
    def _value_and_pullback(self, X: Array, Z: Array | None, Q: Array) -> tuple[float, Gradient]:
        """Return <Q, k(X, Z)> and the pullback of Q: stated by kernels that get both at once."""
        if type(self).pullback is not Kernel.pullback:
            return inner(Q, self(X, Z)), self.pullback(X, Z, Q)
        if any(True for _ in self.differentiable()):
            raise self._unstated("pullback(X, Z, Q)", f"the gradient of <Q, k(X, Z)>, {KEEP}")
        return inner(Q, self(X, Z)), {}

    def _add_to(self, K: Array, X: Array, Z: Array | None) -> None:
        """Add k(X, Z) to K (n, m) in place."""
        K += self(X, Z)

    # ------------------------------------------------------------------ offered to the layers above
    @property
    def expects(self) -> str:
        """What functions the kernel expects, in words for a report: empty if it does not say."""
        return ""

    def noise_free(self) -> Kernel | None:
        """Return the kernel of the signal alone: without its noise parts, None if nothing stays."""
        return self

    def signal(self) -> Kernel:
        """Return :meth:`noise_free`; refuse a kernel that consists of noise parts only."""
        found = self.noise_free()
        if found is None:
            raise ValueError("the kernel consists of noise parts only: add a part for the signal")
        return found

    def terms(self) -> list[Kernel]:
        """Return kernels whose sum this is, of independent functions: itself, if not a sum."""
        return [self]

    @property
    def positional(self) -> bool:
        """Whether k depends on which rows are compared, not only on what is in them."""
        return any(part.positional for part in self._parts().values())

    @property
    def pairwise(self) -> bool:
        """Whether the inputs are kernel values with the training points: they have no variance."""
        return any(part.pairwise for part in self._parts().values())

    @property
    def spatial(self) -> bool:
        """Whether inputs are coordinates: the mean of two rows is an input as well."""
        return all(part.spatial for part in self._parts().values())

    def as_rbf(self, X: Array, centre: Array) -> tuple[Array, float] | None:
        """Return Z (n, d), from ``centre`` (d,), and v: k = v exp(-|z_i - z_j|^2 / 2), or None."""
        return None

    def single_form(self, X: Array, centre: Array) -> tuple[Array, float] | None:
        """Return :meth:`as_rbf` where single precision holds it: rounding far below a length scale.

        A coordinate of more than 256 length scales is rounded to more than 1e-5 of one.
        """
        form = self.as_rbf(X, centre)
        return None if form is None or np.abs(form[0]).max(initial=0.0) > 256.0 else form

    def features(self, X: Any) -> Any:
        """Return phi(X) (n, m), sparse if X is, with k(x, z) = phi(x)'phi(z); None if infinite."""
        return None

    def width(self, X: Array) -> int | None:
        """Return how many columns :meth:`explicit` has at X (n, d), before it is frozen as well."""
        return None

    def explicit(self, X: Array) -> Any:
        """Return phi(X) (n, m) for weight space: the features, or what pays for many rows only."""
        return self.features(X)

    def explicit_pullback(self, X: Array, F: Array, D: Array) -> Gradient:
        """Return d<G, F F'>/d name for F = phi(X) (n, m), D = 2 G F and any symmetric G (n, n)."""
        return zero_gradient(self)

    @property
    def takes_sparse(self) -> bool:
        """Whether :meth:`features` and :meth:`frozen` also take a sparse X (CSR)."""
        return False

    def state_space(self) -> StateSpace | None:
        """Return the kernel as a Markov process on a line, if it is one: then all is O(n)."""
        return None

    def state_space_pullback(self, rates: Array, variances: Array) -> Gradient:
        """Return the gradient by path, given those in log rate and log variance (c,) each."""
        raise NotImplementedError(f"{type(self).__name__} is no Markov process")

    def markov_process(self) -> MarkovProcess | None:
        """Return the kernel as a linear process on a line, if its spectrum is rational."""
        return None

    def markov_pullback(self, slopes: Slopes) -> Gradient:
        """Return the gradient by path, given those by F and P of each block of the process."""
        raise NotImplementedError(f"{type(self).__name__} is no Markov process")

    def workspace(self) -> int:
        """Return how many n x n arrays ``pullback`` needs at most, besides its argument Q."""
        return 3

    def resolve(self, names: Sequence[str] | None, n_features: int) -> Kernel:
        """Return the kernel with column names turned into positions and checked."""
        parts = self._parts()
        if not parts:
            return self
        return self._rebuilt({k: v.resolve(names, n_features) for k, v in parts.items()})

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        """Return the kernel with what it takes from data taken from X (n, d), weights (n,)."""
        parts = self._parts()
        news = {k: v.frozen(X, weights) for k, v in parts.items()}
        return self if all(news[k] is parts[k] for k in parts) else self._rebuilt(news)

    def reordered(self, order: Index) -> Kernel | None:
        """Return the same function of X[:, order]; None where which column it is matters otherwise.

        Examples
        --------
        >>> from mercer.kernels import RBF
        >>> (2.0 * RBF([1.0, 3.0])).reordered(np.array([1, 0]))
        Scale(kernel=RBF(length_scale=[3., 1.]), variance=2.0)
        """
        if not self.alike:
            return None
        parts = {name: part.reordered(order) for name, part in self._parts().items()}
        if parts:
            known = {name: part for name, part in parts.items() if part is not None}
            return self._rebuilt(known) if len(known) == len(parts) else None
        values = self.get_params(deep=False)
        each = {k: np.asarray(v) for k, v in values.items() if np.shape(v) == np.shape(order)}
        return self.replaced({name: value[order] for name, value in each.items()})

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        """Return k((x - shift) / scale, (z - shift) / scale) as a kernel of x; both are (d,)."""
        from mercer.kernels.inputs.columns import Standardized

        return Standardized(self, np.asarray(shift, dtype=float), np.asarray(scale, dtype=float))

    def read(self, X: Any) -> Any:
        """Return inputs of another kind (strings, say) as rows of numbers, if a part knows how."""
        for part in self._parts().values():
            found = part.read(X)
            if found is not X:
                return found
        return X

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        """Return n rows on which this kernel is defined: for contract tests and examples."""
        return rng.standard_normal((n, 3))

    # ------------------------------------------------------------------ copies
    def _parts(self) -> dict[str, Kernel]:
        return {k: v for k, v in self.children().items() if isinstance(v, Kernel)}

    def _rebuilt(self, news: dict[str, Kernel]) -> Kernel:
        """Return a copy in which the child kernels are replaced by ``news``."""
        clone = copy.copy(self)
        for name in self.parameter_names():
            value = getattr(self, name)
            if name in news:
                setattr(clone, name, news[name])
            elif isinstance(value, (list, tuple)) and any(isinstance(v, Kernel) for v in value):
                setattr(clone, name, [news.get(str(i), v) for i, v in enumerate(value)])
        return clone

    def _restated(self, **values: Any) -> Self:
        """Return a copy with parameters in other units: their bounds and priors are left off."""
        clone = copy.copy(self)
        marks = dict(getattr(self, "_marks", {}))
        for name, value in values.items():
            setattr(clone, name, value)
            if name in marks:
                marks[name] = Mark(fixed=marks[name].fixed)
        if marks:
            clone._marks = marks
        return clone

    # ------------------------------------------------------------------ algebra
    def on(self, columns: Sequence[int | str] | int | str) -> Kernel:
        """Return this kernel acting on the given columns only, by position or by name."""
        from mercer.kernels.inputs.columns import Columns

        chosen = [columns] if isinstance(columns, (int, str, np.integer)) else list(columns)
        return Columns(self, chosen)

    def __add__(self, other: Kernel | float) -> Kernel:
        from mercer.kernels.convert import add

        return add(self, other)

    def __radd__(self, other: Kernel | float) -> Kernel:
        from mercer.kernels.convert import add

        return add(other, self)

    def __mul__(self, other: Kernel | float) -> Kernel:
        from mercer.kernels.convert import multiply

        return multiply(self, other)

    def __rmul__(self, other: Kernel | float) -> Kernel:
        from mercer.kernels.convert import multiply

        return multiply(other, self)

    def __pow__(self, exponent: int) -> Kernel:
        from mercer.kernels.compose import Power

        return Power(self, exponent)


def other_points(X: Array, Z: Array | None) -> tuple[Array, Array, bool]:
    """Return (X, Z or X, whether they are the same points) as float64 matrices of equal width."""
    X = as_matrix(X)
    if Z is None:
        return X, X, True
    Z = as_matrix(Z)
    if type(X) is not type(Z):  # one of them on a device
        X, Z = together(X, Z)
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but Z has {Z.shape[1]}")
    return X, Z, False


def blocks(n: int, m: int, same: bool, size: int = 128) -> Iterator[tuple[slice, slice, float]]:
    """Yield (rows, columns, weight) that cover n x m; for the same points the upper part, twice."""
    for i in range(0, n, size):
        rows = slice(i, min(i + size, n))
        if not same:
            yield rows, slice(0, m), 1.0
            continue
        yield rows, rows, 1.0
        if rows.stop < n:
            yield rows, slice(rows.stop, n), 2.0


def blocked_matmul(k: Callable[[Array, Array], Array], X: Array, Z: Array, V: Array) -> Array:
    """Return k(X, Z) @ V (n, r), by as many rows of X at a time as :data:`BATCH_BYTES` allows."""
    if not len(Z):
        return np.zeros((len(X), V.shape[1]))
    size = max(1, BATCH_BYTES // (8 * len(Z)))
    parts = [_product(k(X[i : i + size], Z), V) for i in range(0, max(1, len(X)), size)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _product(K: Matrix, V: Array) -> Array:
    """K @ V; with few columns, which take no longer on one thread, the same for any number."""
    if K.__class__ is Distant or not K.ndim:  # numpy.asarray of one on a device has no axes
        return host(unboxed(K) @ V)
    if V.shape[1] > FEW:
        return np.asarray(K @ V)
    with one_thread():
        return np.asarray(K @ V)


def stated_below(kind: type, method: str, other: str) -> bool:
    """Whether a child states ``method`` anew and inherits an ``other`` that knows nothing of it."""
    first, second = (
        next(parent for parent in kind.__mro__ if name in vars(parent)) for name in (method, other)
    )
    return second is not Kernel and first is not second and issubclass(first, second)


def inner(Q: Matrix, K: Array) -> float:
    """<Q, K> = sum_ij Q_ij K_ij without a temporary."""
    if Q.__class__ is Distant:
        return arrays_there.inner(Q, K)
    return float(np.einsum("ij,ij->", Q, K))


def zero_gradient(kernel: Kernel) -> Gradient:
    """Return a gradient of zeros: one entry per differentiable parameter, in its shape."""
    zeros: Gradient = {}
    for path, owner, name in kernel.differentiable():
        value = getattr(owner, name)
        zeros[path] = np.zeros(np.shape(value)) if np.ndim(value) else 0.0
    return zeros


def added(first: Gradient, second: Gradient) -> Gradient:
    """Return the sum of two gradients."""
    return {path: first[path] + second[path] for path in first}


def scaled(gradient: Gradient, factor: float) -> Gradient:
    """Return the gradient times ``factor``."""
    return {path: factor * value for path, value in gradient.items()}


def prefixed(name: str, gradient: Gradient) -> Gradient:
    """Return the gradient of child ``name`` under the paths its parent uses."""
    return {f"{name}__{path}": value for path, value in gradient.items()}


def positive(owner: object, name: str, d: int | None = None) -> Array:
    """Return parameter ``name`` as :func:`finite` does, checked > 0."""
    given = getattr(owner, name)
    if type(given) is float and 0.0 < given < np.inf:  # a tenth of the time of what follows
        return np.asarray(given)
    value = finite(owner, name, d)
    if not (value > 0.0).all():
        raise ValueError(
            f"{type(owner).__name__}: {name} must be positive, got {getattr(owner, name)!r}"
        )
    return value


def finite(owner: object, name: str, d: int | None = None) -> Array:
    """Return parameter ``name`` as a finite float64 array, () or, for d input columns, (d,)."""
    given, who = getattr(owner, name), type(owner).__name__
    try:
        value = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{who}: {name} must be a number, got {given!r}") from None
    if value.ndim > (0 if d is None else 1):
        allowed = "a single number" if d is None else "a number or one number per column"
        raise ValueError(f"{who}: {name} must be {allowed}, got an array of shape {value.shape}")
    if value.ndim == 1 and value.shape[0] != d:
        raise ValueError(
            f"{who}: {name} has {value.shape[0]} entries but the inputs have {d} columns"
        )
    if not np.isfinite(value).all():
        raise ValueError(f"{who}: {name} must be finite, got {given!r}")
    return value


def like(value: Any, total: Array) -> float | Array:
    """Return the sums ``total`` (d,) in the shape of ``value``: a shared one receives their sum."""
    return total if np.ndim(value) else float(np.sum(total))


def rescaled(value: float | Array, scale: Array) -> float | Array:
    """Return value * scale; a shared value stays shared if all columns have the same scale."""
    scale = np.asarray(scale, dtype=float)
    if np.ndim(value) == 0 and (scale == scale[0]).all():
        return float(value) * float(scale[0])
    return np.asarray(value, dtype=float) * scale
