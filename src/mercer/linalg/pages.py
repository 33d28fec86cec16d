"""Fresh pages cost more than the arithmetic on small matrices."""

from __future__ import annotations

from functools import cache

import numpy as np

BYTES = 1 << 24


@cache
def keep_pages() -> None:
    """Free one block of 16 MiB, once in a process, before matrices of some MiB come and go.

    glibc's allocator takes it as a sign that blocks up to this size are used again, and no longer
    gives their pages back to the system after each step, only to ask for them, and have them
    cleared, in the next: a sixth of the time of a batch with a budget of 300. The process may keep
    up to 32 MiB more than it needs. Other allocators take no notice.
    """
    np.empty(BYTES // 8)  # never touched: it costs an address range, no memory
