"""Passes on a real cluster of two processes: the bits of this process, whatever happens there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mercer.core.arrays import blas_libraries
from mercer.linalg.blocks.checkpoint import Checkpointed, contents_of
from mercer.linalg.blocks.cluster import DaskEngine, client_of
from mercer.linalg.blocks.engine import Engine, Part, RowBlock
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.blocks.opened import engine_of, source_of

distributed = pytest.importorskip("distributed")


@pytest.fixture
def table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(140, 6))
    return X, np.sin(X[:, 0]), rng.uniform(0.5, 2.0, size=140)


def moments(block: RowBlock, broadcast: Part) -> Part:
    """Sums whose bits depend on their order."""
    F = np.exp(block.X @ broadcast["V"])
    return {"F'F": F.T @ (block.w[:, None] * F), "F'y": F.T @ block.y, "n": block.w.sum()}


def same(one: Part, other: Part) -> bool:
    return one.keys() == other.keys() and all(
        np.asarray(one[k]).tobytes() == np.asarray(other[k]).tobytes() for k in one
    )


BROADCAST = {"V": np.linspace(-1, 1, 24).reshape(6, 4)}


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 7])
def test_the_bits_of_this_process(table: Any, client: Any, blocks: int) -> None:
    source = source_of(*table, size=-(-140 // blocks))
    assert len(source) == blocks
    seen: list[tuple[int, int]] = []
    with DaskEngine(source, client) as engine:
        engine.watch = lambda done, of: seen.append((done, of))
        here = LocalEngine(source).map_sum(moments, BROADCAST)
        assert same(engine.map_sum(moments, BROADCAST), here)
        assert same(LocalEngine(source, workers=3).map_sum(moments, BROADCAST), here)
        assert engine.rows == 140
        assert seen == [(i + 1, blocks) for i in range(blocks)]
        parts = list(engine.each(moments, BROADCAST))
        for one, other in zip(parts, LocalEngine(source).each(moments, BROADCAST), strict=True):
            assert same(one, other)


def test_the_tree_of_merges(table: Any, client: Any) -> None:
    source = source_of(*table, size=20)
    order = DaskEngine(source, client).map_merge(name_of, {}, pair)
    assert order == {"order": "(((01)(23))((45)6))"}
    assert order == LocalEngine(source).map_merge(name_of, {}, pair)


def name_of(block: RowBlock, _: Part) -> Part:
    return {"order": str(block.number)}


def pair(left: Part, right: Part) -> Part:
    return {"order": f"({left['order']}{right['order']})"}


def test_files_and_lazy_tables_on_workers(table: Any, client: Any, tmp_path: Path) -> None:
    import dask.array as da
    import dask.dataframe as dd

    X, y, w = table
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=y, w=w)
    frame.to_parquet(tmp_path / "big.parquet", row_group_size=20)
    source = source_of(tmp_path / "big.parquet", "y", "w", size=20)
    here = LocalEngine(source).map_sum(moments, BROADCAST)
    assert same(DaskEngine(source, client).map_sum(moments, BROADCAST), here)
    lazy = dd.from_pandas(frame, npartitions=7)
    assert same(DaskEngine(source_of(lazy, "y", "w"), client).map_sum(moments, BROADCAST), here)
    arrays = source_of(da.from_array(X, chunks=(20, 3)), y, da.from_array(w, chunks=35), size=20)
    engine = DaskEngine(arrays, client)
    assert same(engine.map_sum(moments, BROADCAST), here)
    assert same(engine.map_sum(moments, BROADCAST), here)
    assert same(LocalEngine(arrays).map_sum(moments, BROADCAST), here)


def test_nothing_stays_on_the_workers(table: Any, client: Any) -> None:
    with DaskEngine(source_of(*table, size=20), client) as engine:
        engine.map_sum(moments, BROADCAST)
    assert _soon(lambda: not client.run_on_scheduler(_tasks))


def _tasks(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


def _soon(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def slowly(block: RowBlock, broadcast: Part) -> Part:
    """The same sums, with a sign that the block is being computed, and by whom."""
    Path(broadcast["folder"], f"{block.number}-{os.getpid()}").touch()
    time.sleep(0.05)
    return moments(block, broadcast)


@pytest.mark.parametrize("where", ["arrays", "parquet"])
def test_a_worker_that_is_killed(table: Any, client: Any, tmp_path: Path, where: str) -> None:
    X, y, w = table
    source = source_of(*table, size=10)
    if where == "parquet":
        path = tmp_path / "big.parquet"
        frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=y, w=w)
        frame.to_parquet(path, row_group_size=10)
        source = source_of(path, "y", "w", size=10)
    folder = tmp_path / "signs"
    folder.mkdir()
    killed: list[int] = []

    def kill() -> None:
        while len(found := list(folder.iterdir())) < 4:
            time.sleep(0.005)
        killed.append(int(found[0].name.partition("-")[2]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    engine = DaskEngine(source, client)
    found = engine.map_sum(slowly, BROADCAST | {"folder": str(folder)})
    killer.join()
    assert killed
    assert same(found, LocalEngine(source).map_sum(moments, BROADCAST))
    assert same(engine.map_sum(moments, BROADCAST), found)
    assert engine.rows == 140


def broken(block: RowBlock, broadcast: Part) -> Part:
    if block.number == 3:
        raise ArithmeticError("the noise is not positive")
    return moments(block, broadcast)


@pytest.mark.parametrize("here", [False, True])
def test_a_block_that_raises(table: Any, client: Any, here: bool) -> None:
    source = source_of(*table, size=20)
    engine = LocalEngine(source, workers=2) if here else DaskEngine(source, client, retries=1)
    with pytest.raises(ArithmeticError) as caught:
        engine.map_sum(broken, BROADCAST)
    assert str(caught.value) == "the noise is not positive (in block 3)"
    with pytest.raises(ArithmeticError, match="in block 3"):
        list(engine.each(broken, BROADCAST))
    assert same(engine.map_sum(moments, BROADCAST), LocalEngine(source).map_sum(moments, BROADCAST))


def test_gaps_and_lost_files(table: Any, client: Any, tmp_path: Path) -> None:
    X, y, _ = table
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=y)
    frame.loc[57, "b"] = np.nan
    path = tmp_path / "big.parquet"
    frame.to_parquet(path, row_group_size=20)
    engine = DaskEngine(source_of(path, "y", size=20), client, retries=0)
    with pytest.raises(ValueError, match=r"X contains NaN in column 'b', row 57 \(block 2\)"):
        engine.map_sum(moments, BROADCAST)
    frame.fillna(0.0).to_parquet(path, row_group_size=20)
    with pytest.raises(ValueError, match="fit again once nobody writes to it"):
        engine.map_sum(moments, BROADCAST)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is not found now; put it back"):
        engine.map_sum(moments, BROADCAST)


def test_clients(table: Any, cluster: Any, client: Any) -> None:
    source = source_of(*table, size=50)
    here = LocalEngine(source).map_sum(moments, BROADCAST)
    with engine_of(source, cluster.scheduler_address) as engine:
        assert same(engine.map_sum(moments, BROADCAST), here)
    with pytest.raises(ValueError, match="there is no Dask client: make one"):
        engine_of(source, "dask")
    with client.as_current():
        assert same(engine_of(source, "dask").map_sum(moments, BROADCAST), here)
    assert isinstance(engine_of(source), LocalEngine)
    with pytest.raises(ConnectionError, match=r"there is no Dask scheduler at tcp://127"):
        client_of("tcp://127.0.0.1:9", patience=0.3)


def test_a_scheduler_that_goes_away(table: Any, tmp_path: Path) -> None:
    """No hang: an error that says what to do. Seven workers have the bits of one until then."""
    made = distributed.LocalCluster(
        n_workers=7, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    )
    with made, distributed.Client(made, set_as_default=False, timeout=2) as client:
        source = source_of(*table, size=5)
        engine = DaskEngine(source, client, patience=2.0)
        here = LocalEngine(source).map_sum(moments, BROADCAST)
        assert same(engine.map_sum(moments, BROADCAST), here)
        closing = threading.Timer(0.1, made.close)
        closing.start()
        with pytest.raises(ConnectionError, match=r"at \S+ does not answer: start it again"):
            engine.map_sum(slowly, BROADCAST | {"folder": str(tmp_path)})
        closing.join()
        with pytest.raises(ConnectionError, match="does not answer"):
            engine.map_sum(moments, BROADCAST)


def test_a_checkpoint_goes_from_a_cluster_to_here(table: Any, client: Any, tmp_path: Path) -> None:
    """A scheduler that is gone after two passes leaves a checkpoint that anyone continues."""
    source = source_of(*table, size=20)

    def steps(engine: Engine, count: int) -> np.ndarray:
        V = BROADCAST["V"]
        for _ in range(count):
            sums = engine.map_sum(moments, {"V": V})
            V = V - 1e-3 * np.outer(np.ones(6), sums["F'y"] / sums["n"])
        return V

    task = {"table": contents_of(DaskEngine(source, client))}
    assert task == {"table": contents_of(LocalEngine(source))}
    steps(Checkpointed(DaskEngine(source, client), tmp_path, task), 2)
    here = Checkpointed(LocalEngine(source), tmp_path, task)
    assert steps(here, 4).tobytes() == steps(LocalEngine(source), 4).tobytes()
    assert (here.replayed, here.passes) == (2, 4)


def test_ctrl_c_leaves_at_once(table: Any) -> None:
    """What nobody waits for any more is not computed; the BLAS gets its threads back."""
    started: list[int] = []
    held = threading.Event()

    def hold(block: RowBlock, _: Part) -> Part:
        started.append(block.number)
        if block.number == 1:
            raise KeyboardInterrupt
        if block.number > 1:
            assert held.wait(10)
        return {"n": 1}

    allowed = [library.num_threads for library in blas_libraries()]
    engine = LocalEngine(source_of(*table, size=10), workers=2)
    with pytest.raises(KeyboardInterrupt):
        engine.map_sum(hold, {})
    held.set()
    assert len(started) < 8
    assert _soon(lambda: [library.num_threads for library in blas_libraries()] == allowed)


def test_a_missing_extra(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "mercer\[dask\]"'):
        DaskEngine(source_of(*table))
