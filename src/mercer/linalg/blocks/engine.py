"""One pass over the blocks of a table: each answers with sums, which are added in a fixed order.

A task sees one block and what was broadcast, and nothing else; it is pure, so that a block may be
computed again wherever and whenever that is needed. What the blocks answer is merged in a binary
tree over their numbers (see :class:`Tree`): the result has the same bits for any number of workers,
in whatever order they end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from mercer.core.arrays import Array, blas_libraries

Part: TypeAlias = dict[str, Any]  # what a block answers, by name: arrays and numbers


class RowBlock(NamedTuple):
    """Some rows of a table, in their order."""

    number: int  # of the block, from 0
    X: Array  # (b, d)
    y: Any  # (b,) or (b, m) as it was given; None where there are no targets
    w: Array  # (b,) how much each row counts


class Answer(NamedTuple):
    """What one block, or several that were merged, have to say."""

    rows: int
    part: Part


Read: TypeAlias = Callable[[], RowBlock]  # what returns a block, anew each time
Task: TypeAlias = Callable[[RowBlock, Part], Part]  # of a block, and of what was broadcast
# of what stands to the left, which it may write over, and to the right
Merge: TypeAlias = Callable[[Part, Part], Part]


def add(left: Part, right: Part) -> Part:
    """Add what two blocks answered, name by name; arrays of the left one are written over."""
    if left.keys() != right.keys():
        raise ValueError(f"blocks answer {sorted(left)} and {sorted(right)}: one task, one answer")
    for name, value in right.items():
        if isinstance(left[name], np.ndarray):
            left[name] += value
        else:
            left[name] = left[name] + value
    return left


class Tree:
    """Merge answers that come in the order of the blocks, level by level, left with right.

    An answer without a neighbour moves up as it is. At most log2 of the number of blocks are held.

    Examples
    --------
    >>> tree = Tree(lambda left, right: {"order": f"({left['order']}{right['order']})"})
    >>> for i in range(5):
    ...     tree.take(Answer(1, {"order": str(i)}))
    >>> tree.top()
    Answer(rows=5, part={'order': '(((01)(23))4)'})
    """

    def __init__(self, merge: Merge) -> None:
        self.merge = merge
        self.waiting: list[tuple[int, Answer]] = []  # level, and what stands there

    def take(self, answer: Answer) -> None:
        """Take in the answer of the next block."""
        level = 0
        while self.waiting and self.waiting[-1][0] == level:
            answer = joined(self.merge, self.waiting.pop()[1], answer)
            level += 1
        self.waiting.append((level, answer))

    def top(self) -> Answer:
        """Return what all answers are together."""
        answer = self.waiting.pop()[1]
        while self.waiting:
            answer = joined(self.merge, self.waiting.pop()[1], answer)
        return answer


def joined(merge: Merge, left: Answer, right: Answer) -> Answer:
    """Return two answers as one."""
    with single_threaded():
        return Answer(left.rows + right.rows, merge(left.part, right.part))


def answered(read: Read, number: int, task: Task, broadcast: Part) -> Answer:
    """Return what ``task`` answers for one block; an error names the block."""
    try:
        with single_threaded():
            block = read()
            return Answer(len(block.X), task(block, broadcast))
    except Exception as error:
        in_block(error, number)
        raise


def in_block(error: Exception, number: int) -> Exception:
    """Return the same error, with the number of its block in the sentence.

    Examples
    --------
    >>> in_block(ValueError("noise must be positive"), 3)
    ValueError('noise must be positive (in block 3)')
    """
    where = f"block {number}"
    if where not in str(error) and len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]} (in {where})",)
    if where not in str(error):  # a class with a sentence of its own
        error.add_note(f"in {where} of the table")
    return error


class Engine(ABC):
    """Where the blocks are, and who computes on them; a child states both.

    Attributes
    ----------
    rows : how many rows the table has; None before the first pass, which counts them. A later pass
        that counts others is refused: the table has changed.
    passes : how many passes were made.
    watch : called with (blocks that have answered, blocks of the table) while a pass runs, for
        whoever shows the progress; None: nobody does.
    """

    rows: int | None = None
    passes: int = 0
    watch: Callable[[int, int], None] | None = None

    @property
    @abstractmethod
    def blocks(self) -> int:
        """How many blocks there are."""

    @abstractmethod
    def _merged(self, task: Task, broadcast: Part, merge: Merge) -> Answer:
        """Return the answers of all blocks, merged as a :class:`Tree` does."""

    @abstractmethod
    def each(self, task: Task, broadcast: Part) -> Iterator[Part]:
        """Yield the answers of the blocks in their order, each when it is asked for."""

    def close(self) -> None:
        """Let go of what the engine holds elsewhere; nobody watches any more."""
        self.watch = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def map_sum(self, task: Task, broadcast: Part) -> Part:
        """Return the sums of what ``task`` answers for each block."""
        return self.map_merge(task, broadcast, add)

    def map_merge(self, task: Task, broadcast: Part, merge: Merge) -> Part:
        """Return what ``task`` answers for each block, merged in the fixed order."""
        if not self.blocks:
            raise ValueError("Found array with 0 sample(s): the table has no rows")
        rows, part = self._merged(task, broadcast, merge)
        self.passes += 1
        if self.rows is None:
            self.rows = rows
        elif rows != self.rows:
            raise ValueError(
                f"the table had {self.rows} rows and has {rows} now: it changed while it was read; "
                "fit again once nobody writes to it"
            )
        return part

    def _done(self, count: int) -> None:
        """Tell whoever watches that ``count`` blocks have answered in this pass."""
        if self.watch is not None:
            self.watch(count, self.blocks)


def merged(answers: Iterable[Answer], merge: Merge) -> Answer:
    """Return answers that come in the order of their blocks as one."""
    tree = Tree(merge)
    for answer in answers:
        tree.take(answer)
    return tree.top()


class _Busy:
    """How many tasks run in this process, and how many threads its BLAS had before."""

    lock, tasks, allowed = Lock(), 0, list[int]()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let the BLAS use one thread while any task runs here, whatever number of them at a time.

    Its sums depend on the number of threads, and the bits of a result may not. That number is one
    for the whole process: the first task to begin sets it, the last to end gives it back.
    """
    libraries = blas_libraries()
    with _Busy.lock:
        if _Busy.tasks == 0:
            _Busy.allowed = [library.num_threads for library in libraries]
            _set([1] * len(libraries))
        _Busy.tasks += 1
    try:
        yield
    finally:
        with _Busy.lock:
            _Busy.tasks -= 1
            if _Busy.tasks == 0:
                _set(_Busy.allowed)


def _set(counts: list[int]) -> None:
    for library, count in zip(blas_libraries(), counts, strict=True):
        library.set_num_threads(count)
