"""Memory: predict the bytes of an allocation and refuse it in time; reuse large arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np

LITTLE = 1 << 20  # bytes that are there without asking, which takes a third of a millisecond


def available_bytes() -> int:
    """Return memory that a new array may take: the machine's, or the container's limit if less."""
    free = 1024 * _entry(Path("/proc/meminfo"), "MemAvailable:")
    if not free:
        try:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError, AttributeError):
            free = 1 << 62  # the system does not say: let the allocation itself decide
    group = Path("/sys/fs/cgroup")
    for limit_file, used_file in (
        (group / "memory.max", group / "memory.current"),
        (group / "memory/memory.limit_in_bytes", group / "memory/memory.usage_in_bytes"),
    ):
        try:
            limit, used = limit_file.read_text(), used_file.read_text()
        except OSError:
            continue
        if limit.strip().isdigit():
            # file cache is given up when memory is needed
            cache = _entry(
                used_file.parent / "memory.stat", "inactive_file ", "total_inactive_file "
            )
            free = min(free, max(int(limit) - int(used) + cache, 0))
    return free


def _entry(file: Path, *names: str) -> int:
    """Return the number behind one of the names in a file of the system, 0 if there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(names)), 0)


def require_memory(
    n: int,
    arrays: int,
    task: str = "an exact fit",
    remedy: str = "fit",
    beyond: Sequence[str] = (),
) -> None:
    """Refuse if ``arrays`` dense n x n float64 matrices do not fit.

    The sentence says that ``task`` of n rows does not fit, and to ``remedy`` a sample of them.
    ``beyond`` names the values of ``gram`` that would serve instead: it says what they take.

    Examples
    --------
    >>> require_memory(1_000_000_000, arrays=3)
    Traceback (most recent call last):
        ...
    MemoryError: an exact fit of 1000000000 rows needs ...
    """
    need = arrays * 8 * n * n
    if need > LITTLE and need > (limit := available_bytes()):
        largest = int((limit / (8 * arrays)) ** 0.5)
        rate = dgemm_rate() if beyond else 1.0
        others = [ALTERNATIVES[name](n, rate) for name in beyond]
        remedies = [*others, f"{remedy} a random sample of at most {largest} rows"]
        exact = ", which is exact" if others else ""
        raise MemoryError(
            f"{task} of {n} rows needs {_size(need)} ({arrays} matrices of {n} x {n} "
            f"doubles) and {_size(limit)} are available; {', or '.join(remedies)}{exact}"
        )


def dgemm_rate(seconds: float = 0.05, clock: Callable[[], float] = perf_counter) -> float:
    """Return the double-precision operations a second of matrix products, measured by a clock."""
    A, done, begun = np.ones((384, 384)), 0, clock()
    while (took := clock() - begun) < seconds or not done:
        A @ A
        done += 1
    return 2.0 * done * float(len(A)) ** 3 / took


def _by_inducing(n: int, rate: float, m: int = 1000) -> str:
    """Say what 100 bounds with gradients take, after the evidence of 2000 rows."""
    work = 5.0 * n * m**2 * 100 + 2.0 * 2000.0**3 * 60
    return (
        f"gram='inducing' approximates it with m = {m} points in about {spoken(work / rate)} "
        f"({_size(_beside(n, m))})"
    )


def _by_iterative(n: int, rate: float, rank: int = 2000) -> str:
    """Say what 150 products of n^2 kernel values with nine columns take, after 4000 rows."""
    work = 40.0 * float(n) ** 2 * 150 + 4.0 * n * rank**2 + 2.0 * 4000.0**3 * 40
    return (
        f"gram='iterative' solves the same model in about {spoken(work / rate)} "
        f"({_size(_beside(n, rank))})"
    )


ALTERNATIVES = {"iterative": _by_iterative, "inducing": _by_inducing}


def _beside(n: int, m: int) -> int:
    """Return the bytes of some m x m arrays, blocks of rows and columns of n."""
    return 8 * (6 * m**2 + 2 * 2048 * m + 30 * n)


def spoken(seconds: float) -> str:
    """Return a time as one would say it.

    Examples
    --------
    >>> spoken(12.3), spoken(200.0), spoken(9000.0)
    ('12 s', '3 min', '2.5 h')
    """
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


def fits(n: int, arrays: int) -> bool:
    """Whether ``arrays`` dense n x n float64 matrices fit into the memory that is available."""
    need = arrays * 8 * n * n
    return need <= LITTLE or need <= available_bytes()


def require_bytes(need: int, task: str, remedy: str) -> None:
    """Refuse if ``need`` bytes are not there: "``task`` needs ...; ``remedy``".

    Examples
    --------
    >>> require_bytes(1 << 60, "this batch", "give fewer rows at a time")
    Traceback (most recent call last):
        ...
    MemoryError: this batch needs 1073741824.0 GiB and ... give fewer rows at a time
    """
    limit = available_bytes()
    if need > limit:
        raise MemoryError(f"{task} needs {_size(need)} and {_size(limit)} are available; {remedy}")


def require_points(m: int, name: str = "m") -> None:
    """Refuse if some m x m arrays do not fit; ``name`` is the parameter to lower.

    Examples
    --------
    >>> require_points(10**9)
    Traceback (most recent call last):
        ...
    MemoryError: a fit with 1000000000 inducing points needs ... are available; choose a smaller m
    """
    require_bytes(8 * 6 * m**2, f"a fit with {m} inducing points", f"choose a smaller {name}")


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


BYTES = 1 << 24


@cache
def keep_pages() -> None:
    """Free one block of 16 MiB, once in a process, before matrices of some MiB come and go.

    glibc's allocator then keeps the pages of blocks up to this size, rather than give them back and
    have others cleared at each step: a sixth of the time of a batch with a budget of 300. The
    process may keep up to 32 MiB more than it needs. Other allocators take no notice.
    """
    np.empty(BYTES // 8)  # never touched: it costs an address range, no memory
