"""What every test shares: the data folder, and random numbers that repeat."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mercer.core.deadline import OutOfTime

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would the programs
# that they start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("MERCER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the variable MERCER_DATA does not name a folder with the data sets")
    return Path(folder)


@pytest.fixture
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables without what is said of a chosen machine, which takes longer than to choose it.

    That is the simplest models and trees beside it, and figures that are nested, not charged: as if
    there had been no time for them. The machine is the same.
    """

    def no_time(*given: Any) -> None:
        raise OutOfTime

    monkeypatch.setattr("mercer.tables.learn.judge", no_time)
    monkeypatch.setattr("mercer.tables.choose.honest.nested_left_out", no_time)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Dask cluster of two processes with one thread each; a killed one is started again.

    They are forked from a server that has imported what they need, once for all.
    """
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    needed = ["distributed", "dask.dataframe", "pyarrow.parquet", "mercer.linalg.blocks.cluster"]
    needed += ["mercer.estimators.blocks.fit"]
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context()  # sets what it would import by itself
        multiprocessing.get_context("forkserver").set_forkserver_preload(needed)
        with distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            host="127.0.0.1",
            silence_logs=50,
            memory_limit=None,
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as made:
            yield made


@pytest.fixture(scope="session")
def client(cluster: Any) -> Iterator[Any]:
    """A client of the cluster, which is not the current one."""
    import distributed

    with distributed.Client(cluster, set_as_default=False) as made:
        yield made


# These fit whatever every estimator or the choice of a machine is tried on, small tables and noise
# among it; there a relevance vector machine says that it found nothing, and its own tests ask for
# that. Anywhere else it is an error.
NOISE = ("agreement", "app", "attacks", "benchmarks", "contracts", "documents", "export")
NOISE += ("papers", "persist", "reports", "statistics", "tables", "estimators/test_sklearn.py")


# The longest checks of scikit-learn that repeat one another with read-only rows or other bits: one
# of each is enough for every day.
AGAIN = ("check_classifiers_train(readonly_memmap", "check_regressors_train(readonly_memmap")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage.

    What this makes lives until the end: hundreds of thousands of objects that need no visit, now or
    while the tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mark = pytest.mark.filterwarnings("ignore::mercer.core.errors.FoundNothingWarning")
    for item in items:
        if item.path.as_posix().removeprefix(f"{here.as_posix()}/").startswith(NOISE):
            item.add_marker(mark)
        if any(check in item.name for check in AGAIN):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["torch", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Arrays of Torch, on the CPU and, where there is one, on a GPU: ``make test-gpu``."""
    torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'mercer[gpu]'")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    return str(request.param)
