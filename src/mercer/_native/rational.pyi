from numpy import float64, int32
from numpy.typing import NDArray

Array = NDArray[float64]
Sizes = NDArray[int32]

LARGEST: int

def logdet(sizes: Sizes, F: Array, N: Array, P: Array, gaps: Array, W: Array) -> float: ...
def smooth(
    sizes: Sizes,
    F: Array,
    N: Array,
    P: Array,
    gaps: Array,
    W: Array,
    Z: Array,
    solved: Array,
    inverse: Array,
    variance: Array,
) -> float: ...
def times(
    sizes: Sizes, F: Array, N: Array, P: Array, gaps: Array, V: Array, out: Array
) -> None: ...
def gradient(
    sizes: Sizes,
    F: Array,
    N: Array,
    P: Array,
    gaps: Array,
    W: Array,
    U: Array,
    V: Array,
    share: float,
    dF: Array,
    dP: Array,
) -> None: ...
