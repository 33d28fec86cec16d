from numpy import float64
from numpy.typing import NDArray

Array = NDArray[float64]

def stationary(
    profile: int, X: Array, Z: Array, same: bool, out: Array, factor: float = 1.0, threads: int = 1
) -> None: ...
def stationary_matmul(
    profile: int, X: Array, Z: Array, V: Array, out: Array, factor: float = 1.0, threads: int = 1
) -> None: ...
def stationary_pullback(
    profile: int, X: Array, Z: Array, same: bool, Q: Array, sums: Array, threads: int = 1
) -> float: ...
def separable(
    profile: int,
    X: Array,
    Z: Array,
    same: bool,
    shares: Array,
    out: Array,
    factor: float = 1.0,
    threads: int = 1,
) -> None: ...
def separable_pullback(
    profile: int,
    X: Array,
    Z: Array,
    same: bool,
    shares: Array,
    Q: Array,
    by_scale: Array,
    by_share: Array,
    threads: int = 1,
) -> float: ...
def separable_moves(
    profile: int, X: Array, Z: Array, shares: Array, Q: Array, moved: Array, threads: int = 1
) -> None: ...
def weighted_spread(X: Array, Z: Array, M: Array, sums: Array, threads: int = 1) -> None: ...
def mirror_upper(A: Array) -> None: ...
def swap_triangles(A: Array) -> None: ...
def add_scaled_upper(A: Array, s: Array, M: Array, threads: int = 1) -> None: ...
def scale_upper(A: Array, s: Array, diagonal: float, out: Array, threads: int = 1) -> None: ...
def gradient_weights(A: Array, s: Array, a: Array, count: float, threads: int = 1) -> None: ...
