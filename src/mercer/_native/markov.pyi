from numpy import float64
from numpy.typing import NDArray

Array = NDArray[float64]

HIGHEST: int

def room(order: int) -> int: ...
def sweep(
    L1: Array,
    gaps: Array,
    W: Array,
    y: Array,
    sf: Array,
    logdet: Array,
    rss: Array,
    slope: Array | None = None,
) -> None: ...
def smooth(
    L1: Array,
    gaps: Array,
    W: Array,
    y: Array,
    sf: float,
    mean: Array,
    cov: Array,
    root: Array,
    back: Array,
    pulls: Array | None = None,
) -> tuple[float, float]: ...
def others(
    L1: Array, gaps: Array, W: Array, y: Array, sf: float, mean: Array, variance: Array
) -> None: ...
def draws(root: Array, back: Array, z: Array) -> None: ...
def matmul(L1: Array, gaps: Array, v: Array, Kv: Array) -> None: ...
def at(
    x: Array,
    unit: float,
    variance: float,
    mean: Array,
    cov: Array,
    back: Array,
    order: int,
    weights: Array,
    bridge: Array,
    outside: float,
    queries: Array,
    value: Array,
    spread: Array | None = None,
) -> None: ...
