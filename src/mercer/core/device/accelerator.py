"""Accelerator: which device a fit may use, what fits there, and the sentence where it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.device.array import DeviceArray
from mercer.core.memory import available_bytes

NAMES = "'cpu', 'cuda' (or 'cuda:1', ...), 'auto' or 'torch'"
FROM = 3000  # rows from which "auto" takes a GPU; by calculation, not measured
TILE = 1 << 25  # entries of a kernel matrix that are formed at a time
TILES = 10  # arrays of that size that a formula may hold on its way
LACKING = "it needs PyTorch, which is not installed: pip install 'mercer[gpu]', or use device='cpu'"


@dataclass(frozen=True)
class Accelerator:
    """A device of Torch: ``place`` is how Torch calls it, ``name`` how a report does."""

    place: str
    name: str

    def put(self, A: Array) -> Any:
        """Return an array as one of the device."""
        torch = import_module("torch")
        return DeviceArray(torch.tensor(np.asarray(A, dtype=np.float64), device=self.place))

    def empty(self, n: int, m: int) -> Any:
        """Return an (n, m) array of doubles to be filled."""
        torch = import_module("torch")
        return DeviceArray(torch.empty((n, m), dtype=torch.float64, device=self.place))

    def available(self) -> int:
        """Return the bytes that new arrays may take, those that Torch keeps for them included."""
        torch = import_module("torch")
        if not self.place.startswith("cuda"):
            return available_bytes()
        free = int(torch.cuda.mem_get_info(self.place)[0])
        kept = torch.cuda.memory_reserved(self.place) - torch.cuda.memory_allocated(self.place)
        return free + int(kept)

    def fits(self, n: int, arrays: int) -> bool:
        """Whether n x n matrices fit, with what forms them."""
        return self._need(n, arrays) <= self.available()

    def require(self, n: int, arrays: int) -> None:
        """Refuse if n x n matrices do not fit."""
        need, limit = self._need(n, arrays), self.available()
        if need > limit:
            largest = int(max(limit - self._need(0, 0), 0) / (8 * arrays)) ** 0.5
            raise MemoryError(
                f"a fit of {n} rows on {self.name} needs {need / 2**30:.1f} GiB there ({arrays} "
                f"matrices of {n} x {n} doubles, and tiles), and {limit / 2**30:.1f} GiB are free; "
                f"fit a random sample of at most {int(largest)} rows, or use device='cpu' with "
                "gram='iterative' or 'inducing'"
            )

    @staticmethod
    def _need(n: int, arrays: int) -> int:
        return 8 * (arrays * n * n + TILES * TILE)

    def rows(self, n: int) -> int:
        """Return how many rows of an (n, n) kernel matrix are formed at a time."""
        return max(1, TILE // max(1, n))


def accelerator(device: Any, n: int = 0, arrays: int = 0) -> Accelerator | None:
    """Return what a user's ``device`` names, for n rows; None is the CPU, by NumPy.

    Examples
    --------
    >>> accelerator("cpu") is None
    True
    >>> accelerator("gpu")
    Traceback (most recent call last):
        ...
    ValueError: unknown device 'gpu'; known are 'cpu', 'cuda' (or 'cuda:1', ...), 'auto' or 'torch'
    """
    kind, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind not in ("cpu", "cuda", "auto", "torch") or (number and kind != "cuda"):
        raise ValueError(f"unknown device {device!r}; known are {NAMES}")
    if kind == "cpu" or (kind == "auto" and n < FROM):
        return None
    try:
        torch = import_module("torch")
    except ImportError:
        if kind == "auto":
            return None
        raise ImportError(f"device={device!r}: {LACKING}") from None
    if kind == "torch":
        return Accelerator("cpu", f"cpu (torch {torch.__version__})")
    count = int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
    wanted = number or "0"
    if not (wanted.isdigit() and int(wanted) < count):
        if kind == "auto":
            return None
        found = f"there are {count}" if count else "PyTorch finds none"
        raise ValueError(
            f"device={device!r}: a GPU is needed, and {found} (torch {torch.__version__}); use "
            "device='cpu', or 'auto', which takes a GPU where there is one"
        )
    place = f"cuda:{int(wanted)}"
    gpu = Accelerator(place, f"{place} ({torch.cuda.get_device_name(place)})")
    return None if kind == "auto" and not gpu.fits(n, arrays) else gpu


def said_of(error: BaseException, device: str) -> Exception:
    """Return an error of Torch as one with a sentence; full memory is the usual one."""
    torch = import_module("torch")
    what = (str(error).splitlines() or [""])[0]
    if isinstance(error, torch.OutOfMemoryError):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return MemoryError(
            f"the memory of device={device!r} ended during the fit ({what}): free what other "
            "programs hold there, fit fewer rows, or use device='cpu'"
        )
    return RuntimeError(
        f"device={device!r} failed during the fit ({what}): the estimator is as it was before; "
        "device='cpu' does without it"
    )
