from numpy import float64
from numpy.typing import NDArray

Array = NDArray[float64]

TERMS: int

def conditional(
    own: float, lean: Array, m: Array, shift: Array, table: Array, rate: float
) -> float: ...
def plain(m: Array, shift: Array, out: Array) -> None: ...
