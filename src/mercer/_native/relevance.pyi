from numpy import float64, intp
from numpy.typing import NDArray

Array = NDArray[float64]
Index = NDArray[intp]

class Room:
    def __init__(self) -> None: ...

def settle(
    room: Room,
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
def posterior(
    room: Room,
    gram: Array,
    right: Array,
    precisions: Array,
    beta: float,
    least: float,
    R: Array,
    mu: Array,
) -> bool: ...
def mix(rows: Array, places: Index, c: Array, out: Array) -> None: ...
def gather(rows: Array, places: Index, columns: Index, out: Array) -> None: ...
def best(S: Array, Q: Array, least: Array) -> tuple[int, float]: ...
def take_in(
    products: Array, V: Array, p: int, i: int, alpha: float, S: Array, Q: Array
) -> None: ...
