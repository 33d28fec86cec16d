"""Ctrl-C: every long piece of work ends within a second of CPU time, compiled code included.

A search, a sampler and ``mercer.fit`` keep the best they have; all else leaves by
KeyboardInterrupt, and an estimator is then as it was before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mercer._native import core, markov, sequential, waves
from mercer.linalg.spline import unit_cholesky

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

LIMIT = 1.0  # seconds of CPU time after the signal: what else runs on the machine does not count
START = """
import numpy as np, mercer
from mercer.search import HMC
from mercer.linalg import Inducing, Iterative
rng = np.random.default_rng(0)
def plane(n, d=3):
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
"""
# what is done, and what comes out of it: "kept" (the best so far) or "left" (KeyboardInterrupt)
WORK = {
    "search": (
        "X, y = plane(1500); from mercer.search import Optimize;"
        "model = mercer.GPRegressor(search=Optimize(restarts=50))",
        "kept",
    ),
    "ep": (
        "X, f = plane(800); y = f > 0; model = mercer.GPClassifier(inference='ep')",
        "kept",
    ),
    "laplace": (
        "X, f = plane(300); y = np.digitize(f, [-1, 0, 1]);"
        "model = mercer.GPClassifier(inference='laplace')",
        "kept",
    ),
    "variational": (
        "X, f = plane(800); y = f; model = mercer.GPRegressor(loss='student_t')",
        "kept",
    ),
    "hmc": (
        "X, y = plane(300); model = mercer.GPRegressor(search=HMC(samples=2000, chains=1))",
        "kept",
    ),
    "rvm": ("X, y = plane(3000); model = mercer.RVRegressor()", "left"),
    "rvm classes": ("X, f = plane(3000); y = f > 0; model = mercer.RVClassifier()", "left"),
    "lapmed": ("X, f = plane(2000); y = (f > 0).astype(int); y[200:] = -1;"
               "model = mercer.LapMEDClassifier()", "left"),
    "med": ("X, f = plane(4000); y = f > 0; model = mercer.MEDClassifier()", "left"),
    "spline": (
        "X = np.sort(rng.uniform(0, 9, 1_000_000))[:, None];"
        "y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X));"
        "model = mercer.SmoothingSpline(order=4)",
        "left",
    ),
    "online": (
        "X, f = plane(5000); y = f > 0; model = mercer.OnlineLogisticClassifier()",
        "left",
    ),
    "inducing": (
        "X, y = plane(6000); gram = Inducing(m=150, rows=300, max_iter=2000);"
        "model = mercer.GPRegressor(gram=gram)",
        "kept",
    ),
    "inducing classes": (
        "X, f = plane(4000); y = f > 0; gram = Inducing(m=60, rows=100, max_iter=2000);"
        "model = mercer.GPClassifier(inference='variational', gram=gram)",
        "kept",
    ),
    "iterative": (
        "X, y = plane(40_000, 8);"
        "model = mercer.GPRegressor(search=None, gram=Iterative(rank=300, tol=1e-9))",
        "left",
    ),
    "search of an iterative one": (
        "X, y = plane(20_000, 8); model = mercer.GPRegressor(gram=Iterative(rank=300))",
        "left",
    ),
    "additive": (
        "X, y = plane(300_000, 6); model = mercer.AdditiveRegressor(search=None, gram='iterative',"
        " tol=1e-12, rank=20)",
        "left",
    ),
    "landmarks": (
        "X, f = plane(200_000, 8); y = f > 0;"
        "model = mercer.SVC(gram=Inducing(m=300), tol=1e-9, C=100.0)",
        "left",
    ),
}  # fmt: skip
END = """
print("ready", flush=True)
try:
    model.fit(X, y)
    print("kept" if "interrupted" in str(model.report_) else "finished", flush=True)
except KeyboardInterrupt:
    print("left", len([k for k in vars(model) if k.endswith("_") and not k.startswith("_")]))
"""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupt(
    arguments: list[str], delay: float, cwd: Path | None = None
) -> tuple[int, str, str, float]:
    """Start Python, interrupt it ``delay`` seconds of its CPU time after it says that it is ready.

    Return its exit code, stdout, stderr and the CPU seconds that it took to end.
    """
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | threads | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", line + process.stderr.read()
        began = cpu_seconds(process.pid)
        while process.poll() is None and cpu_seconds(process.pid) - began < delay:
            time.sleep(0.01)
        assert process.returncode is None, f"it ended before it was interrupted: {line}"
        began = last = cpu_seconds(process.pid)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            try:
                last = cpu_seconds(process.pid)
            except (OSError, IndexError):  # it has just gone
                break
            if last - began > 10 * LIMIT:
                process.kill()
            time.sleep(0.01)
        out, err = process.communicate()
    return process.returncode, out, err, last - began


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.3, 1.7])
@pytest.mark.parametrize("name", WORK)
def test_fits(name: str, delay: float) -> None:
    work, outcome = WORK[name]
    code, out, err, seconds = interrupt(["-c", START + work + END], delay)
    assert code == 0, err
    assert seconds < LIMIT, f"{name} went on for {seconds:.1f} s of CPU time"
    said = out.split()
    # before a search has anything, there is nothing to keep
    assert said == ["left", "0"] or (outcome == "kept" and said == ["kept"]), out


COMMAND = """
import contextlib, sys
from mercer.app import fit
from mercer.app.main import main
said = []
def advance(event):
    if event["stage"] == WAIT and not said:
        said.append(1)
        print("ready", flush=True)
fit.progress = lambda quiet: contextlib.nullcontext(advance)
sys.exit(main(["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--quiet", "--report", "r.html"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "delay"),
    [
        ("linear", 0.0),
        ("Gaussian process", 0.3),
        ("Gaussian process", 1.5),
        ("relevance vectors", 0.5),
    ],
)
def test_the_command_writes_the_best_so_far(tmp_path: Path, stage: str, delay: float) -> None:
    """4 300 rows, in the screening: it went on through the fit to all rows, and wrote nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4300, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", comments="",
               header="a,b,c,d,e,f,y")  # fmt: skip
    code, _, err, seconds = interrupt(
        ["-c", COMMAND.replace("WAIT", repr(stage))], delay, cwd=tmp_path
    )
    assert code == 130, err
    assert seconds < 2 * LIMIT, f"{seconds:.1f} s of CPU time, the file included"
    if stage == "linear":
        assert "interrupted: nothing was written" in err
        assert os.listdir(tmp_path) == ["t.csv"]
        return
    assert "interrupted: the best machine so far" in err
    assert "500 of 4300 rows" in err
    assert "without report" in err
    assert sorted(os.listdir(tmp_path)) == ["m.mercer", "t.csv"]
    import mercer

    model = mercer.load(tmp_path / "m.mercer")
    assert any(note.startswith("interrupted before a fit to all 4300") for note in model.notes_)
    table = dict(zip("abcdef", X.T, strict=True))
    assert np.mean((model.predict(table) - y) ** 2) < np.var(y)


def test_a_model_is_written_though_its_report_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import mercer.tables.report
    from mercer.app.main import main

    def stop(*given: object, **named: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(mercer.tables.report, "table_report", stop)
    x = np.linspace(0, 1, 20)
    table, model, report = (str(tmp_path / name) for name in ("t.csv", "m.mercer", "r.html"))
    np.savetxt(table, np.column_stack([x, 2 * x]), delimiter=",", comments="", header="x,y")
    command = ["fit", table, "-t", "y", "-o", model, "--report", report, "--candidates", "linear"]
    assert main(command) == 130
    assert "was written to" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["m.mercer", "t.csv"]


# ------------------------------------------------------------------------- compiled functions alone
def long_call(name: str) -> Callable[[], object]:
    """Return a call of a compiled function that takes seconds."""
    rng = np.random.default_rng(0)
    if name == "stationary_matmul":
        X, Z = rng.standard_normal((400_000, 2)), rng.standard_normal((4000, 2))
        V, out = rng.standard_normal((1, 4000)), np.empty((400_000, 1))
        return lambda: core.stationary_matmul(0, X, Z, V, out)
    if name == "absorb":
        b = 2000
        cov, ones, R, found = np.eye(b), np.ones(b), np.empty((b, b)), np.empty((4, b))
        return lambda: sequential.absorb(ones, cov, ones, ones, R, found)
    n = 1_000_000 if name == "logdet" else 200_000
    gaps, ones, y = rng.uniform(0.5, 1.5, n - 1), np.ones(n), rng.standard_normal(n)
    if name == "logdet":
        orders, rates = np.array([3, 3], dtype=np.int32), np.array([0.1, 2.0])
        return lambda: waves.logdet(orders, rates, np.ones(2), gaps, ones, np.empty((2, 2)))
    out = np.empty(1), np.empty(1), np.empty((2, 1))
    return lambda: markov.sweep(unit_cholesky(5), gaps, ones, y, np.array([0.1]), *out)


class Rang(Exception):
    """What the alarm raises."""


@pytest.mark.parametrize("name", ["stationary_matmul", "absorb", "sweep", "logdet"])
def test_compiled_loops_answer_signals(name: str) -> None:
    call = long_call(name)

    def ring(number: int, frame: object) -> None:
        raise Rang

    before = signal.signal(signal.SIGVTALRM, ring)
    ended, began = False, time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
        call()
        ended = True
    except Rang:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
    assert not ended, "it came to its end first"
    assert time.process_time() - began < LIMIT
