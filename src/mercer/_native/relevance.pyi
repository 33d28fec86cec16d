from numpy import float64
from numpy.typing import NDArray

Array = NDArray[float64]

def settle(
    gram: Array,
    right: Array,
    alpha: Array,
    beta: float,
    square: float,
    total: float,
    learns: bool,
    cap: float,
    tol: float,
    limit: int,
) -> tuple[float, list[float], int, int, int]: ...
def exchanges(
    T: Array, v: Array, mu: Array, S: Array, Q: Array, least: Array, best: Array, ratio: Array
) -> None: ...
