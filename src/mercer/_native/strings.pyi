from numpy import float64, int64
from numpy.typing import NDArray

Array = NDArray[float64]
Codes = NDArray[int64]

def subsequences(
    X: Codes, Z: Codes, order: int, decay: float, pairs: int, K: Array, slope: Array
) -> None: ...
