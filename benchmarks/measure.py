"""How the benchmarks measure: CPU seconds, interleaved, median; memory in a fresh process."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


@dataclass
class Row:
    """One line of the table: a measured figure, its bar, and what shows that the work was equal.

    Attributes
    ----------
    what, who : the task, and who did it.
    value, unit : the figure the bar is about (a ratio, milliseconds, n^2 doubles); or None.
    bar : "<= 1.2" or ">= 7"; empty where nothing is demanded.
    seconds : CPU seconds, median; None where time is not the subject.
    quality : figures that must agree between rows of the same task.
    """

    what: str
    who: str
    value: float | None = None
    unit: str = ""
    bar: str = ""
    seconds: float | None = None
    quality: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def verdict(self) -> str:
        """PASS, FAIL, or nothing where there is no bar or no figure."""
        if not self.bar or self.value is None:
            return ""
        sign, bound = self.bar.split()
        fine = self.value >= float(bound) if sign == ">=" else self.value <= float(bound)
        return "PASS" if fine else "FAIL"

    def cells(self) -> list[str]:
        """The row as text, for the table."""
        value = "" if self.value is None else f"{self.value:.3g} {self.unit}"
        seconds = "" if self.seconds is None else f"{self.seconds:.4g}"
        quality = ", ".join(
            f"{k} {v:.8g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.quality.items()
        )
        notes = "; ".join(part for part in (quality, self.note) if part)
        return [self.what, self.who, seconds, value, self.bar, self.verdict, notes]


def table(rows: list[Row]) -> str:
    """Rows as aligned text."""
    head = ["task", "who", "CPU s", "figure", "bar", "", "quality and notes"]
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    text.insert(1, "-" * min(max(len(line) for line in text), 150))
    return "\n".join(text)


def json_lines(rows: list[Row]) -> str:
    """One JSON object per row."""
    return "\n".join(json.dumps(asdict(row) | {"verdict": row.verdict}) for row in rows)


def publish(rows: list[Row], path: Path | None) -> int:
    """Print the table and the JSON lines, write these to ``path``; return how many bars missed."""
    print(table(rows))
    print()
    print(json_lines(rows))
    if path:
        path.write_text(json_lines(rows) + "\n")
    return sum(row.verdict == "FAIL" for row in rows)


@contextmanager
def one_thread() -> Iterator[None]:
    """Pin every BLAS and OpenMP pool loaded so far to one thread."""
    from threadpoolctl import threadpool_limits

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with threadpool_limits(limits=1):
        yield


def serve(task: Callable[[int], Any]) -> None:
    """In a worker: run ``task(turn)`` for each turn read from stdin; answer with a line of JSON."""
    with one_thread():
        for line in sys.stdin:
            before = resource.getrusage(resource.RUSAGE_SELF)
            result = task(int(line))
            after = resource.getrusage(resource.RUSAGE_SELF)
            user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
            print(json.dumps({"user": user, "system": system, "result": result}), flush=True)


def interleaved(workers: Mapping[str, list[str]], repeats: int = 3) -> dict[str, dict[str, Any]]:
    """Let workers take turns: one warm-up each, then ``repeats`` measured turns each.

    A worker is ``python <arguments>`` in this folder that calls :func:`serve`: each library has a
    process of its own, as its users run it, and a Python of its own if arguments begin with one.
    Returns by name the median CPU ``seconds``, the median ``system`` part of them, and the
    ``result`` of the warm-up.
    """
    with ExitStack() as stack:
        running = {name: stack.enter_context(_worker(given)) for name, given in workers.items()}
        turns: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
        for turn in range(repeats + 1):
            for name, process in running.items():
                turns[name].append(_ask(name, process, turn))
    return {
        name: {
            "result": answers[0]["result"],
            "seconds": statistics.median(a["user"] + a["system"] for a in answers[1:]),
            "system": statistics.median(a["system"] for a in answers[1:]),
        }
        for name, answers in turns.items()
    }


@contextmanager
def _worker(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    first, *others = arguments if Path(arguments[0]).is_absolute() else [sys.executable, *arguments]
    process = subprocess.Popen(
        [first, "-W", "ignore", *others],
        cwd=HERE,
        env=os.environ | ONE_THREAD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.communicate()


def _ask(name: str, process: subprocess.Popen[str], turn: int) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{turn}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the worker of {name} ended early; its message is above")
    return dict(json.loads(line))


def resident_bytes() -> int:
    """Resident memory of this process now (Linux; elsewhere its peak so far)."""
    return _status("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """Peak resident memory of this process.

    On Linux it is read from the process's own memory map: ``ru_maxrss`` is passed on by a parent.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int | None:
    file = Path("/proc/self/status")
    if not file.exists():
        return None
    line = next(line for line in file.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def peak_growth(task: Callable[[], Any]) -> int:
    """Bytes by which the peak of resident memory exceeds what was resident before ``task``."""
    before = resident_bytes()
    task()
    return peak_bytes() - before


def in_fresh_process(arguments: list[str], threads: int = 1) -> dict[str, Any]:
    """Run ``python <arguments>`` in this folder; return the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=HERE,
        env=os.environ | dict.fromkeys(ONE_THREAD, str(threads)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def children_cpu(command: list[str], repeats: int) -> list[float]:
    """CPU seconds (user + system) of ``command`` in ``repeats`` processes, after a warm-up."""
    spent = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent[1:]
