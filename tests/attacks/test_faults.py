"""Faults of the machine: a full disk, a kill in the middle, threads, too little memory."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import signal
import stat
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.persist import container
from tests.app.streams import table, text
from tests.attacks.test_files import EVERY, known, said

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="limits and signals of POSIX")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))


@cache
def machine(sign):
    return mercer.GPRegressor(search=None).fit(X, sign * np.sin(X[:, 0]))


def save(path, sign):
    mercer.save(machine(sign), path)


def fit(path, sign):
    rows = "\n".join(f"{a},{b},{sign * a}" for a, b in X[:, :2].tolist())
    (path.parent / "table.csv").write_text("a,b,y\n" + rows + "\n")
    words = ["fit", "table.csv", "-t", "y", "-o", path.name, "--candidates", "linear"]
    return main([*words, "--quiet"])


def stream(path, sign):
    """A stream of two batches, or its continuation by a third."""
    X, y = table(120, 3)
    n = 80 if sign > 0 else 120
    (path.parent / "rows.csv").write_text(text(X[:n], y[:n]))
    words = ["stream", "rows.csv", "-t", "y", "--batch", "40", "--budget", "20", "-o", path.name]
    return main([*words, "--every", "1", "--quiet", *["--resume"] * path.exists()])


WRITERS = {"save": save, "fit": fit, "stream": stream}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "model.mercer"


def child(task):
    """Run a task in a copy of this process and return how it ended, as of ``os.waitstatus``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has a thread of its own
        pid = os.fork()
    if not pid:
        code = 1
        try:
            sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # the process ends below
            code = task() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def parts(folder):
    return [name for name in os.listdir(folder) if name.endswith(".part")]


# ---------------------------------------------------------------------- the disk is full
@contextlib.contextmanager
def full_disk(bytes_left=2000):
    """No file of this process may become longer: the system itself fails the write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 100, 2000, 20_000])
def test_a_full_disk_leaves_the_old_file(path, size):
    save(path, 1.0)
    before = path.read_bytes()
    with full_disk(size), pytest.raises(OSError, match=r"model\.mercer"):
        save(path, -1.0)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    with full_disk(size), pytest.raises(OSError, match=r"new\.mercer"):
        save(path.with_name("new.mercer"), 1.0)
    assert os.listdir(path.parent) == [path.name]


CALLS = [("save", "fsync"), ("save", "replace"), ("save", "chmod"), ("fit", "fsync")]


@pytest.mark.parametrize(("writer", "call"), [*CALLS, ("stream", "replace")])
def test_errors_of_the_system_leave_the_old_file(path, monkeypatch, capsys, writer, call):
    WRITERS[writer](path, 1.0)
    before = path.read_bytes()

    def failing(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        if writer == "save":
            with pytest.raises(OSError, match="No space"):
                save(path, -1.0)
        else:
            capsys.readouterr()
            assert WRITERS[writer](path, -1.0) != 0
            assert "No space" in "".join(capsys.readouterr())
    assert path.read_bytes() == before
    assert parts(path.parent) == []


# ---------------------------------------------------------------------- kill -9
STAGES = {
    "before writing": (container, "write"),
    "before the digest": (container, "digest_of"),
    "before it is on the disk": (os, "fsync"),
    "before it has its name": (os, "replace"),
}


WHEN = [*(("save", stage) for stage in STAGES), ("fit", "before it is on the disk")]


@pytest.mark.parametrize(("writer", "stage"), [*WHEN, ("stream", "before it is on the disk")])
def test_a_kill_leaves_the_old_file_or_none(path, monkeypatch, writer, stage):
    write = WRITERS[writer]
    with monkeypatch.context() as patch:
        patch.setattr(*STAGES[stage], killed)
        assert child(lambda: write(path, 1.0)) == -signal.SIGKILL
        assert not path.exists()
    write(path, 1.0)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(*STAGES[stage], killed)
        assert child(lambda: write(path, -1.0)) == -signal.SIGKILL
    assert path.read_bytes() == before
    write(path, -1.0)  # what the dead left behind is in nobody's way
    assert path.read_bytes() != before
    mercer.load(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_kill_after_the_name_leaves_the_new_file(path, monkeypatch, writer):
    WRITERS[writer](path, 1.0)
    before, replace = path.read_bytes(), os.replace

    def replaced(*names):
        replace(*names)
        killed()

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replaced)
        assert child(lambda: WRITERS[writer](path, -1.0)) == -signal.SIGKILL
    assert path.read_bytes() != before
    assert parts(path.parent) == []
    mercer.load(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_file_and_folder_reach_the_disk(path, monkeypatch, writer):
    """The contents before the new name, and the name after it."""
    done, fsync, replace = [], os.fsync, os.replace

    def synced(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def named(*names):
        done.append("name")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    WRITERS[writer](path, 1.0)
    assert done
    assert done == ["file", "name", "folder"] * (len(done) // 3)


# ---------------------------------------------------------------------- threads
THREADED = ["GP basis", "GPC EP", "SVC", "RVC", "spline", "LapSVC", "table"]
THREADED += ["GP inducing", "GP iterative", "additive", "kernel landmarks"]


@pytest.mark.parametrize("name", THREADED)
def test_eight_threads_load_and_predict_the_same_bits(name, path):
    model, rows = EVERY[name]()
    mercer.save(model, path)
    methods = known(model, rows)

    def bits(one):
        with warnings.catch_warnings():
            return [
                np.concatenate([a.ravel() for a in answer]).tolist()
                for answer in (
                    a for a in said(one, rows, methods).values() if not isinstance(a, str)
                )
            ]

    truth = bits(model)
    assert truth
    shared = mercer.load(path)  # asked by all at once, for the first time

    def work(i):
        return [bits(shared if (i + j) % 2 else mercer.load(path)) for j in range(4)]

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(8)):
            assert found == [truth] * 4


# ---------------------------------------------------------------------- too little memory
def _labelled(n):
    A = np.random.default_rng(0).normal(size=(n, 3))
    return A, A[:, 0] > 0.0


def _predict(n):
    return machine(1.0).predict(np.zeros((n, 3)), return_std=True)


def _load(n):
    state = {"params": {}, "a": np.zeros(2000 * n)}
    container.write("large.mercer", *mercer.persist.laid_out("GPRegressor", state))
    with contextlib.suppress(mercer.persist.ModelFileError):  # once it is read it is no machine
        mercer.load("large.mercer")


TASKS = {  # of n rows; what they need besides them is more than LEFT bytes at the larger n
    "GP": lambda n: mercer.GPRegressor(search=None).fit(*_labelled(n)),
    "GPC": lambda n: mercer.GPClassifier(search=None).fit(*_labelled(n)),
    "SVC": lambda n: mercer.SVC().fit(*_labelled(4 * n)),
    "NuSVC": lambda n: mercer.NuSVC().fit(*_labelled(4 * n)),
    "RVC": lambda n: mercer.RVClassifier().fit(*_labelled(n)),
    "MED": lambda n: mercer.MEDClassifier().fit(*_labelled(n)),
    "LapLS": lambda n: mercer.LapLSClassifier().fit(*_labelled(n)),
    "thin plate": lambda n: mercer.ThinPlateSpline().fit(_labelled(n)[0][:, :2], _labelled(n)[1]),
    "spline": lambda n: mercer.SmoothingSpline().fit(_labelled(20 * n)[0][:, :1], np.ones(20 * n)),
    "predict": lambda n: _predict(100 * n),
    "load": _load,
}
LEFT = 2 << 20


@pytest.mark.parametrize("name", TASKS)
def test_too_little_memory_is_a_memory_error(name, path):
    """Never an abort and no other error; a machine that needs no more than is left is fitted."""

    def task():
        warnings.simplefilter("ignore")  # thirty rows do not always converge
        TASKS[name](30)  # what is imported and allocated once is there
        gc.collect()  # what tests before this one left would be memory, too
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + LEFT,) * 2)
        try:
            TASKS[name](3000)
        except MemoryError:
            return 17
        except Exception as error:  # noqa: BLE001  # any other error is the finding
            path.with_name("error.txt").write_text(repr(error))
        return 0

    assert child(task) in (0, 17)
    assert not path.with_name("error.txt").exists(), path.with_name("error.txt").read_text()
