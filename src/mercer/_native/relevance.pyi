from collections.abc import Callable

from numpy import float64, intp
from numpy.typing import NDArray

Array = NDArray[float64]
Index = NDArray[intp]

COLLINEAR: float
SHARE: float
FEW: int
SETTLED: float
FINE: float
EXCHANGE: float

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
    T: Array,
    v: Array,
    mu: Array,
    alpha: Array,
    S: Array,
    Q: Array,
    least: Array,
    tol: float,
    floor: float,
) -> list[tuple[int, int, float, float]]: ...

class Candidates:
    def __init__(
        self,
        Phi: Array,
        inner: Array | None,
        inverse: Array,
        weights: Array,
        t: Array,
        flat: Array,
        flat_products: Array,
        targets: Array,
        spread: float,
        every: Callable[[], Array] | None,
    ) -> None: ...
    def given(self, active: Index, gram: Array, right: Array) -> None: ...
    def evaluate(
        self,
        active: Index,
        prior: Array,
        beta: float,
        least: float,
        R: Array,
        mu: Array,
        rest: Array,
    ) -> tuple[float, float] | None: ...
    def seen(
        self, active: Index, R: Array, mu: Array, beta: float, V: Array, S: Array, Q: Array
    ) -> None: ...
    def ascend(
        self,
        usable: Array,
        beta: float,
        square: float,
        cap: float,
        learns: bool,
        held: bool,
        tol: float,
        limit: int,
        pivot: float,
        hard: Callable[[list[int], Array, float], tuple[Array, Array, float]],
        wide: Callable[[list[int], Array, Array, float], tuple[Array, ...]],
        back: Callable[[Array, Array], Array],
    ) -> tuple[list[int], list[float], float, list[float], list[int], bool]: ...
    def products(self, active: Index, out: Array) -> None: ...
    def functions(self, active: Index, out: Array) -> None: ...

def weighted_squares(A: Array, b: Array, sums: Array) -> None: ...
def additions(
    source: Candidates | Callable[[int], Array],
    scale: float,
    S: Array,
    Q: Array,
    least: Array,
    V: Array,
    p: int,
    tol: float,
    part: float,
    limit: int,
    floor: float,
) -> tuple[list[int], list[float], float]: ...
