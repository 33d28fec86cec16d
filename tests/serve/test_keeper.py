"""One model's writer: bounded waiting, one answer for a key, an orderly end, the same bits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mercer.serve.limits import Limits, RefusedError
from mercer.serve.messages import Creation, RowsSent
from mercer.serve.models import keeper as keepers
from mercer.serve.models import origin
from mercer.serve.models.keeper import Keeper
from mercer.serve.models.learner import LoggedBatch
from mercer.serve.models.shelf import Shelf
from mercer.serve.rows.read import of_table

LIMITS = Limits(waiting=3)


def about(learner: str = "logistic", **options: Any) -> Creation:
    return msgspec.convert({"learner": learner, "target": "y", "options": options}, Creation)


def batch(keeper: Keeper, i: int, n: int = 12) -> LoggedBatch:
    rng = np.random.default_rng(i)
    X = rng.normal(size=(n, 2))
    y = X[:, 0].tolist() if keeper.state.quantity else ["u", "v"] * (n // 2)
    sent = RowsSent(X=X.tolist(), y=y)
    state = keeper.state
    return state.batch(of_table(sent, state.inputs, state.target, LIMITS))


def with_model(folder: Path, made: Creation, work: Callable[[Shelf, Keeper], Any]) -> Any:
    async def inside() -> Any:
        shelf = Shelf(folder, LIMITS, 2)
        shelf.open()
        shelf.start()
        keeper = shelf.models.get("m")
        if keeper is None:
            keeper = await shelf.create("m", origin.begun(made), made)
        try:
            return await work(shelf, keeper)
        finally:
            await shelf.stop()

    return asyncio.run(inside())


def test_waiting_is_bounded_and_the_end_is_orderly(tmp_path: Path) -> None:
    """While the disk is slow: old predictions, one future for a key, 429, and nothing is lost."""

    async def work(shelf: Shelf, keeper: Keeper) -> list[int]:
        await keeper.learn(batch(keeper, 0), "first")
        before, slow = keeper.state, threading.Event()
        append = keeper._store.append

        def late(*given: Any) -> None:
            assert slow.wait(30)
            append(*given)

        keeper._store.append = late  # type: ignore[method-assign]
        working = keeper.learn(batch(keeper, 1), "1")
        await asyncio.sleep(0.05)  # the writer has taken it
        waiting = [keeper.learn(batch(keeper, i), str(i)) for i in (2, 3, 4)]
        with pytest.raises(RefusedError) as busy:
            keeper.learn(batch(keeper, 5), "5")
        assert busy.value.status == 429
        assert busy.value.retry is not None
        assert busy.value.retry >= 1
        assert keeper.learn(batch(keeper, 1), "1") is working
        with pytest.raises(RefusedError, match="another batch"):
            keeper.learn(batch(keeper, 9), "1")
        assert keeper.state is before
        assert keeper.version == 1
        ended = asyncio.ensure_future(keeper.stop())
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="stopping"):
            keeper.learn(batch(keeper, 6), "6")
        slow.set()
        await ended
        return [(await each).version for each in (working, *waiting)]

    assert with_model(tmp_path, about(), work) == [2, 3, 4, 5]

    async def look(shelf: Shelf, keeper: Keeper) -> tuple[int, list[int]]:
        assert keeper.learn(batch(keeper, 3), "3").result().repeated
        return keeper.version, keeper._checkpoints

    assert with_model(tmp_path, about(), look) == (5, [5])  # the checkpoint of an orderly end


def test_of_two_first_batches_with_other_columns_one_is_sent_again(tmp_path: Path) -> None:
    async def work(shelf: Shelf, keeper: Keeper) -> tuple[int, int]:
        state, sent = keeper.state, batch(keeper, 1)
        turned = {"b": [1.0, 2.0], "a": [0.0, 1.0], "y": ["u", "v"]}
        other = state.batch(of_table(RowsSent(columns=turned), None, "y", LIMITS))
        one, two = keeper.learn(sent, "1"), keeper.learn(other, "2")
        with pytest.raises(RefusedError, match="send it again") as refused:
            await two
        return (await one).version, refused.value.status

    assert with_model(tmp_path, about(), work) == (1, 409)


@pytest.mark.parametrize("learner", ["logistic", "quantity", "med", "lapmed"])
def test_checkpoints_and_the_log_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: str
) -> None:
    """Opened again after every batch, with checkpoints between, as if it had never been closed."""
    monkeypatch.setattr(keepers, "EVERY", 3)
    made = about(learner, **({"budget": 15} if learner in ("logistic", "quantity") else {}))

    async def learn(shelf: Shelf, keeper: Keeper, *which: int) -> bytes:
        for i in which:
            await keeper.learn(batch(keeper, i), str(i))
        keeper._since.batches = 0  # as if killed: no checkpoint at the end
        return keeper.state.kept()

    whole = with_model(tmp_path / "whole", made, lambda s, k: learn(s, k, *range(8)))
    for i in range(8):
        parts = with_model(tmp_path / "parts", made, lambda s, k, i=i: learn(s, k, i))
    assert parts == whole

    async def back(shelf: Shelf, keeper: Keeper) -> tuple[int, int, list[int]]:
        await keeper.rollback(keeper.oldest, "back")
        return keeper.oldest, keeper.version, keeper._checkpoints

    _, version, checkpoints = with_model(tmp_path / "parts", made, back)
    assert version == 9
    assert checkpoints[-1] == 9
    assert len(checkpoints) == 2  # older ones are let go
