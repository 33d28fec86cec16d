"""BlockTable: a table that no memory has to hold, and who computes on its blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import threads
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.blocks.lazy import LazyArrays, LazyFrame
from mercer.linalg.blocks.sources import ROWS

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class BlockTable:
    """A table in blocks of rows, to be given as X: files, mapped arrays, or a Dask collection.

    Paths and Dask collections can be given to ``fit`` as they are; this says more about them.

    Parameters
    ----------
    X : path, pattern ("part-*.parquet") or list of paths of parquet, CSV or npy files; an array,
        also one that is mapped to memory; a dask.array or dask.dataframe.
    y : the name of the column with the targets (a list of names for several), or an array.
    sample_weight : the name of a column that says how much each row counts, or an array.
    columns : names of the input columns; None: all others.
    engine : "local" (threads of this process), "dask" (the current ``distributed.Client``), a
        Client, or the address of a scheduler. None: the current Client if there is one, else local.
    workers : threads of a local engine; None: as many as the BLAS may use.
    block_rows : rows of a block, where the files do not say it (parquet: row groups).
    sample : rows drawn to learn hyperparameters and points from; None: 20 000, 5 000 where every
        evaluation takes many steps, and never less than ten for each point.
    checkpoint : a folder in which the result of every pass is kept. The same fit, begun again after
        a breakdown, goes on from there and ends with the same bits.
    progress : True for a line on stderr for each pass, or a function that is given a dictionary
        with "stage", "step" (blocks done), "steps" (blocks) and "left" (seconds for this pass).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import BlockTable, GPRegressor
    >>> from mercer.linalg import Inducing
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (300, 1))
    >>> table = BlockTable(X, np.sin(X[:, 0]), block_rows=100)
    >>> model = GPRegressor(gram=Inducing(m=15, move=False, max_iter=5)).fit(table)
    >>> bool(abs(model.predict([[5.0]])[0] - np.sin(5.0)) < 0.01)
    True
    """

    of_blocks: ClassVar[bool] = True

    X: Any
    y: Any = None
    sample_weight: Any = None
    columns: Sequence[str] | None = None
    engine: Any = None
    workers: int | None = None
    block_rows: int | None = None
    sample: int | None = None
    checkpoint: Any = None
    progress: bool | Progress = False

    @classmethod
    def of(cls, X: Any, y: Any = None, sample_weight: Any = None) -> BlockTable:
        """Return what a method was given as one table."""
        if not isinstance(X, cls):
            return cls(X, y, sample_weight)
        if (y is not None and X.y is not None) or (
            sample_weight is not None and X.sample_weight is not None
        ):
            raise ValueError(
                "targets and weights of a BlockTable are stated there: leave y and sample_weight "
                "out of the call, or out of the table"
            )
        return replace(
            X,
            y=X.y if y is None else y,
            sample_weight=X.sample_weight if sample_weight is None else sample_weight,
        )

    def opened(self, columns: Sequence[str] | None = None) -> tuple[Engine, Any]:
        """Return who computes on the blocks, and the source, of which the data is not yet read."""
        from mercer.linalg.blocks.opened import engine_of, has_client, source_of

        wanted = self.columns if columns is None else columns
        source = source_of(
            self.X, self.y, self.sample_weight, features=wanted, size=self.block_rows or ROWS
        )
        where = self.engine
        if where is None and not isinstance(self.X, np.ndarray) and has_client():
            where = "dask"
        engine = engine_of(source, where, self.workers or threads(1 << 62))
        if self.progress:
            engine.watch = Told(self.progress if callable(self.progress) else to_stderr, engine)
        return engine, source

    def kept(self, engine: Engine, source: Any, machine: Any) -> Engine:
        """Return the engine, with a checkpoint if one is wanted, for the fit of a machine."""
        if self.checkpoint is None:
            return engine
        from mercer.linalg.blocks.checkpoint import Checkpointed, contents_of, digest

        lazy = isinstance(source, (LazyArrays, LazyFrame))  # which say little of what they hold
        rows = contents_of(engine) if lazy else digest(source.identity())
        named = [
            one if isinstance(one, (str, list)) else None for one in (self.y, self.sample_weight)
        ]
        task = {
            "table": digest([rows, named, source.names]),
            "sample": self.sample,
            "estimator": type(machine).__name__,
            "parameters": digest(machine.get_params(deep=False)),
        }
        kept = Checkpointed(engine, self.checkpoint, task)
        kept.watch = engine.watch
        return kept


class Told:
    """Tells of every pass how far it is, and how long it will take."""

    def __init__(self, tell: Progress, engine: Engine) -> None:
        self.tell, self.engine, self.began = tell, engine, monotonic()

    def __call__(self, done: int, blocks: int) -> None:
        """So many of the blocks are done."""
        now = monotonic()
        if done <= 1:
            self.began = now
        left = (now - self.began) / (done - 1) * (blocks - done) if done > 1 else None
        stage = f"pass {self.engine.passes + 1}"
        self.tell({"stage": stage, "step": done, "steps": blocks, "left": left})


def to_stderr(event: dict[str, Any]) -> None:
    """Write a line that is written over by the next."""
    left = "" if event["left"] is None else f", {event['left']:.0f} s left"
    end = "\n" if event["step"] == event["steps"] else ""
    with suppress(OSError):
        sys.stderr.write(
            f"\r{event['stage']}: block {event['step']} of {event['steps']}{left}   {end}"
        )
        sys.stderr.flush()
