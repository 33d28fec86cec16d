from numpy import float32, float64, int64, uint8
from numpy.typing import NDArray

Array = NDArray[float64]
Single = NDArray[float32]
Index = NDArray[int64]

def rbf_rows(X: Single, columns: Single, slots: Index, out: Single, threads: int = 1) -> None: ...
def rbf_expand(X: Single, columns: Single, alpha: Array, out: Array, threads: int = 1) -> None: ...
def compact(memory: Single | Array, width: int, slots: Index, columns: Index) -> None: ...
def climb(
    cache: Single | Array,
    slot_of: Index,
    row_in: Index,
    used: Index,
    seen: NDArray[uint8],
    next_free: int,
    spare: int,
    single: Single,
    columns: Single,
    variance: float,
    segments: Index,
    F: Array,
    beta: Array,
    low: Array,
    high: Array,
    eps: Array,
    diagonal: Single,
    bias: bool,
    tol: float,
    limit: int,
    clock: int,
    threads: int = 1,
) -> tuple[int, float, int, int, int, int, int, float]: ...
def joint_block(box: bool, v: Array, q: float, c: float, out: Array) -> None: ...
def climb_joint(
    cache: Single | Array,
    slot_of: Index,
    used: Index,
    codes: Index,
    bound: Array,
    q: Array,
    a: Array,
    f: Array,
    bias: float,
    box: bool,
    tol: float,
    limit: int,
    clock: int,
) -> tuple[int, float, int, int, float]: ...
