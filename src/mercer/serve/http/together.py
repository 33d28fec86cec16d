"""Single rows that arrive together are predicted together.

Most of the time of one row is not its arithmetic. Rows whose requests are read in the same turn of
the event loop become one matrix, if there are enough of them; nobody waits for others to come. The
sums of a product of matrices are in another order than those of one row: answers of a busy service
may differ in the last bits from those of an idle one, of the same version.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

from mercer.serve.limits import RefusedError
from mercer.serve.models.keeper import Keeper
from mercer.serve.models.learner import State

FEW, MANY = 4, 64  # rows that are worth it, and rows that are predicted in one go
Found = dict[str, list[Any]]
Row = tuple[Any, asyncio.Future[Found]]


def timed(keeper: Keeper, state: State, X: Any, coverage: float) -> Found:
    """Predict, and learn how long a row of this model takes."""
    begun = time.thread_time()  # not that of others who want the processor
    found = state.predict(X, coverage)
    keeper.pace += 0.2 * ((time.thread_time() - begun) / len(X) - keeper.pace)
    return found


class Together:
    """Rows that wait for the end of this turn."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, float], list[Row]] = {}

    def predict(
        self, keeper: Keeper, state: State, X: Any, coverage: float
    ) -> asyncio.Future[Found]:
        """Return the future prediction of a row X (1, d)."""
        loop, key = asyncio.get_running_loop(), (id(state), coverage)
        rows = self._waiting.get(key)
        if rows is None:
            rows = self._waiting[key] = []
            loop.call_soon(self._turn, keeper, state, coverage)  # which holds the state
        future: asyncio.Future[Found] = loop.create_future()
        rows.append((X, future))
        return future

    def _turn(self, keeper: Keeper, state: State, coverage: float) -> None:
        rows = self._waiting.pop((id(state), coverage))
        for i in range(0, len(rows), MANY):
            part = rows[i : i + MANY]
            if len(part) >= FEW and not state.words:
                try:
                    found = timed(keeper, state, np.concatenate([X for X, _ in part]), coverage)
                    names = list(found)
                    for (_, future), values in zip(
                        part, zip(*found.values(), strict=True), strict=True
                    ):
                        if not future.done():
                            future.set_result({n: [v] for n, v in zip(names, values, strict=True)})
                    continue
                except RefusedError:  # one of them: each on its own
                    pass
            for X, future in part:
                if future.done():
                    continue
                try:
                    future.set_result(timed(keeper, state, X, coverage))
                except Exception as error:  # noqa: BLE001  # whoever asked is told
                    future.set_exception(error)
