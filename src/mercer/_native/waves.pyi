from numpy import float64, int32
from numpy.typing import NDArray

Array = NDArray[float64]
Orders = NDArray[int32]

LARGEST: int

def logdet(
    orders: Orders, rates: Array, variances: Array, gaps: Array, W: Array, gradient: Array
) -> float: ...
def smooth(
    orders: Orders,
    rates: Array,
    variances: Array,
    gaps: Array,
    W: Array,
    Z: Array,
    solved: Array,
    inverse: Array,
    variance: Array,
) -> float: ...
def times(
    orders: Orders, rates: Array, variances: Array, gaps: Array, V: Array, out: Array
) -> None: ...
def slope(
    orders: Orders,
    rates: Array,
    variances: Array,
    gaps: Array,
    U: Array,
    V: Array,
    gradient: Array,
) -> None: ...
