"""DeviceArray: an array of Torch that NumPy's functions and the dense algebra take as theirs.

A formula written for NumPy (the profile of a kernel, say) is evaluated where its arguments are. No
array leaves a device by itself: what asks for an ndarray is refused, and ``fetched`` is the only
way back, which the rest of mercer calls as :func:`mercer.core.arrays.host`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mercer.core.device import panels

# NumPy's and SciPy's functions that Torch has under another name
NAMES = {
    "conjugate": "conj_physical",
    "divide": "true_divide",
    "equal": "eq",
    "expit": "sigmoid",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "rint": "round",
}
# ... and under the same one
SAME = set(
    """absolute add arccos arcsin arctan arctan2 ceil cos cosh erf erfc exp exp2 expm1 fabs floor
    fmod hypot isfinite isinf isnan log log10 log1p log2 logaddexp logical_and logical_not
    logical_or matmul maximum minimum multiply reciprocal sign sin sinc sinh sqrt square subtract
    tan tanh
    """.split()  # noqa: SIM905  # a list of forty strings is forty lines
)
SPECIAL = {"gammaln", "log_ndtr", "ndtr", "ndtri", "psi", "xlogy", "i0", "i1", "i0e", "i1e"}
ROWS = 1 << 25  # entries of a matrix that are multiplied and summed at a time


class DeviceArray(NDArrayOperatorsMixin):
    """Doubles (or truth values) on a device; arrays and numbers that meet them are put there.

    Parameters
    ----------
    data : torch.Tensor.
    """

    __hash__ = None  # type: ignore[assignment]  # == compares elementwise, as for arrays

    def __init__(self, data: Any) -> None:
        self.data = data

    # ------------------------------------------------------------------ what an array has
    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return int(self.data.ndim)

    @property
    def size(self) -> int:
        """How many entries it has."""
        return int(self.data.numel())

    @property
    def T(self) -> DeviceArray:
        """The transpose of a matrix, a view."""
        return DeviceArray(self.data.mT)

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def __float__(self) -> float:
        return float(self.data)

    def __repr__(self) -> str:
        return f"DeviceArray of shape {self.shape} on {self.data.device}"

    def __bool__(self) -> NoReturn:
        raise TypeError("a formula that decides by the value of its argument (if, while)")

    def __getitem__(self, key: Any) -> DeviceArray:
        return DeviceArray(self.data[_key(key, self)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[_key(key, self)] = raw(value, self)

    def sum(self, axis: int | None = None, **options: Any) -> DeviceArray:
        """Return the sum along an axis, or of all."""
        return DeviceArray(self.data.sum() if axis is None else self.data.sum(dim=axis, **options))

    def max(self, axis: int | None = None, initial: float | None = None) -> DeviceArray:
        """Return the largest along an axis, or of all; ``initial`` if there is nothing."""
        if initial is not None and not self.size:
            return DeviceArray(self.data.new_full((), initial))
        top = self.data.max() if axis is None else self.data.amax(dim=axis)
        return DeviceArray(top if initial is None else top.clamp(min=initial))

    def mean(self, axis: int | None = None) -> DeviceArray:
        """Return the mean along an axis, or of all."""
        return DeviceArray(self.data.mean() if axis is None else self.data.mean(dim=axis))

    def copy(self) -> DeviceArray:
        """Return a copy on the same device."""
        return DeviceArray(self.data.clone())

    def fetched(self) -> Any:
        """Return the array in the memory of the CPU."""
        return self.data.cpu().numpy().copy()

    def zeros(self, n: int, m: int) -> Any:
        """Return zeros (n, m) on the same device."""
        return DeviceArray(self.data.new_zeros((n, m)))

    def reshape(self, *shape: int) -> DeviceArray:
        """Return the entries in another shape."""
        return DeviceArray(self.data.reshape(*shape))

    # ------------------------------------------------------------------ NumPy's protocols
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if dtype is not None and np.dtype(dtype) != np.dtype(object):
            raise TypeError("something asks for an array in the memory of the CPU")
        box = np.empty((), dtype=object)  # numpy.asarray of a formula: the formula
        box[()] = self
        return box

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        chosen, (out,) = options.pop("where", True), options.pop("out", (None,))
        if options:
            raise TypeError(f"the function {name} with the option {', '.join(options)}")
        function = _torch(name)
        if name == "power" and isinstance(inputs[1], (int, float)):
            operands = [raw(inputs[0], self), inputs[1]]
        else:
            operands = [raw(each, self) for each in inputs]
        into = unboxed(out)
        if isinstance(into, DeviceArray) and chosen is True:
            function(*operands, out=into.data)
            return out
        result = function(*operands)
        if chosen is not True:
            where = _torch("where", listed=False)
            result = where(raw(chosen, self), result, raw(out, self))
        if out is None:
            return DeviceArray(result)
        if isinstance(into, DeviceArray):
            into.data.copy_(result)
        elif isinstance(out, np.ndarray) and out.dtype == object:
            out[()] = DeviceArray(result)
        else:
            raise TypeError(f"the function {name}, which would write to the memory of the CPU")
        return out

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        name = function.__name__
        if name not in FUNCTIONS:
            raise TypeError(f"the function {name}")
        called: Any = FUNCTIONS[name]
        return called(*map(unboxed, inputs), **options)

    # ------------------------------------------------------------------ copies
    def __deepcopy__(self, memo: Any) -> DeviceArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # a model that was fitted on a device is read where there is none, and without Torch
        return np.asarray, (self.fetched(),)

    # ------------------------------------------------------------------ the dense algebra
    # Each is the function of the same name in mercer.core.arrays or mercer.linalg.dense.factor.
    def cholesky(self) -> int:
        """Factor in place; 0, or the order of the first minor that is not positive."""
        return panels.cholesky(self.data)

    def half_inverse(self) -> None:
        """L^-1 over the factor: its transpose is the upper triangle."""
        panels.inverse(self.data)

    def inverse_of_half(self) -> None:
        """(L L')^-1 over the half inverse; the upper triangle is meant."""
        panels.square(self.data)

    def inverse_diag(self) -> Any:
        """Return the sum of squares (n,) of each row of the upper triangle."""
        return DeviceArray(panels.row_squares(self.data)).fetched()

    def solved(self, how: str, B: Any) -> Any:
        """Return L^-1 B ("half_solve") or L^-T B ("back_solve"); None if B is not an array."""
        B = unboxed(B)
        if not isinstance(B, (np.ndarray, DeviceArray)):
            return None
        return self._beside(panels.solve(self.data, raw(B, self), back=how == "back_solve"), B)

    def half_product(self, B: Any) -> Any:
        """L^-1 B for a half inverse."""
        return self._beside(panels.product(self.data, raw(B, self), transposed=True), B)

    def back_product(self, B: Any) -> Any:
        """L^-T B for a half inverse."""
        return self._beside(panels.product(self.data, raw(B, self)), B)

    def mirror(self) -> DeviceArray:
        """Copy the upper triangle to the lower one."""
        panels.mirror(self.data)
        return self

    def swap_triangles(self) -> None:
        """Exchange the strictly upper and the strictly lower triangle."""
        panels.transpose(self.data)

    def diagonal(self) -> Any:
        """Return a copy of the diagonal (n,) in the memory of the CPU."""
        return DeviceArray(self.data.diagonal()).fetched()

    def set_diagonal(self, values: Any) -> None:
        """Write the diagonal (n,)."""
        self.data.diagonal().copy_(raw(values, self))

    def scale_upper(self, scale: Any, diagonal: float, out: DeviceArray) -> None:
        """Write s_i s_j A_ij and this diagonal to ``out``, of which the upper triangle is meant."""
        s = raw(scale, self)
        _torch("mul", listed=False)(self.data, s, out=out.data)
        out.data.mul_(s[:, None])
        out.data.diagonal().fill_(diagonal)

    def add_scaled_upper(self, scale: Any, M: DeviceArray) -> None:
        """Add s_i s_j A_ij to the upper triangle of M."""
        panels.add_scaled(self.data, raw(scale, self), M.data)

    def gradient_weights(self, scale: Any, a: Any, count: float) -> None:
        """(a a' - count S A S) / 2 over A, of which the upper triangle counts; symmetric."""
        s, columns = raw(scale, self), raw(a, self)
        panels.mirror(self.data)
        self.data.mul_(s)
        self.data.mul_((-0.5 * count) * s[:, None])
        self.data.addmm_(columns, columns.mT, alpha=0.5)

    def add_product(self, left: Any, right: Any) -> None:
        """Add left (n, r) right (r, n)."""
        self.data.addmm_(raw(left, self), raw(right, self))

    def smallest_eigenvalue(self) -> float:
        """Of a symmetric matrix."""
        import torch

        return float(torch.linalg.eigvalsh(self.data)[0])

    # ------------------------------------------------------------------ distances
    def squares(self, Z: DeviceArray) -> DeviceArray:
        """Return the squared distances (n, m) of rows, from differences, column by column."""
        X, Y = self.data, Z.data
        s = X.new_zeros((len(X), len(Y)))
        for x, z in zip(X.mT, Y.mT, strict=True):
            difference = x[:, None] - z
            s.addcmul_(difference, difference)
        return DeviceArray(s)

    def weighted_spread(self, Z: DeviceArray, M: DeviceArray) -> Any:
        """Return sum_ij M_ij (x_id - z_jd)^2 for each column d: (d,)."""
        X, Y = self.data, Z.data
        sums = X.new_empty(X.shape[1])
        for d, (x, z) in enumerate(zip(X.mT, Y.mT, strict=True)):
            difference = x[:, None] - z
            sums[d] = difference.square_().mul_(M.data).sum()
        return DeviceArray(sums).fetched()

    def _beside(self, result: Any, B: Any) -> Any:
        """Return a result as its argument was: in the memory of the CPU, or on the device."""
        return (
            DeviceArray(result)
            if isinstance(unboxed(B), DeviceArray)
            else DeviceArray(result).fetched()
        )


# ``A.__class__ is Distant`` asks for it in a tenth of the time of isinstance, which small fits
# notice, and a type checker, which knows that no ndarray is one, need not know what it asks.
Distant: Any = DeviceArray


def unboxed(A: Any) -> Any:
    """Return the argument, or what is in an array of one that numpy.asarray has made of it."""
    boxed = isinstance(A, np.ndarray) and A.dtype == object and A.size == 1
    return A.item() if boxed else A


def raw(A: Any, like: DeviceArray) -> Any:
    """Return a DeviceArray, an array or a number as Torch's, on the device of another."""
    A = unboxed(A)
    if isinstance(A, DeviceArray):
        return A.data
    import torch

    to = like.data.device
    array = np.asarray(A)
    if array.ndim == 0:
        kind = torch.bool if array.dtype == bool else _floats(like.data)
        return torch.full((), array.item(), dtype=kind, device=to)
    array = array if array.dtype == bool else array.astype(np.float64, copy=False)
    if not array.flags.writeable or min(array.strides) < 0:
        array = array.copy()  # Torch shares memory that may be written, in one direction
    kind = torch.bool if array.dtype == bool else _floats(like.data)
    return torch.as_tensor(array, dtype=kind, device=to)


def _floats(data: Any) -> Any:
    """Return the kind of numbers that meet others: those of single precision stay so."""
    import torch

    return data.dtype if data.dtype.is_floating_point else torch.float64


def together(X: Any, Z: Any) -> tuple[Any, Any]:
    """Return two arrays on one device, that of the one which is on any."""
    if isinstance(X, DeviceArray):
        return X, Z if isinstance(Z, DeviceArray) else DeviceArray(raw(Z, X))
    return DeviceArray(raw(X, Z)), Z


def _key(key: Any, like: DeviceArray) -> Any:
    """Return an index as Torch takes it."""
    if isinstance(key, tuple):
        return tuple(_key(each, like) for each in key)
    if isinstance(key, DeviceArray):
        return key.data
    if isinstance(key, (list, np.ndarray)):
        import torch

        return torch.as_tensor(np.asarray(key), device=like.data.device)
    return key if key is None or key is ... or isinstance(key, slice) else operator.index(key)


def _torch(name: str, listed: bool = True) -> Any:
    """Return Torch's function for a function of NumPy or SciPy."""
    import torch

    if name in SPECIAL:
        return getattr(torch.special, name)
    if name in NAMES or name in SAME or not listed:
        return getattr(torch, NAMES.get(name, name))
    raise TypeError(f"the function {name}")


def inner(Q: Any, K: Any) -> float:
    """Return <Q, K> of two matrices, some rows at a time."""
    Q, K = unboxed(Q), unboxed(K)
    first = Q if isinstance(Q, DeviceArray) else K
    A, B = raw(Q, first), raw(K, first)
    rows, total = max(1, ROWS // max(1, A.shape[1])), A.new_zeros(())
    for i in range(0, len(A), rows):
        total += (A[i : i + rows] * B[i : i + rows]).sum()
    return float(total)


def _einsum(formula: str, *arrays: Any) -> Any:
    if formula == "ij,ij->":
        return inner(*arrays)
    import torch

    like = next(A for A in arrays if isinstance(A, DeviceArray))
    return DeviceArray(torch.einsum(formula, *(raw(A, like) for A in arrays)))


def _where(condition: Any, yes: Any, no: Any) -> DeviceArray:
    like = next(each for each in (condition, yes, no) if isinstance(each, DeviceArray))
    return DeviceArray(
        _torch("where", listed=False)(*(raw(each, like) for each in (condition, yes, no)))
    )


def _concatenate(arrays: Sequence[Any], axis: int = 0) -> DeviceArray:
    like = next(A for A in arrays if isinstance(A, DeviceArray))
    return DeviceArray(_torch("cat", listed=False)([raw(A, like) for A in arrays], dim=axis))


FUNCTIONS = {
    "concatenate": _concatenate,
    "einsum": _einsum,
    "ones_like": lambda A: DeviceArray(A.data.new_ones(A.shape)),
    "sum": lambda A, axis=None: A.sum(axis),
    "where": _where,
    "zeros_like": lambda A: DeviceArray(A.data.new_zeros(A.shape)),
}
