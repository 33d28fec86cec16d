"""Counts and figures in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.serve.models.shelf import Shelf

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meter:
    """What was asked and how long it took, since the start."""

    def __init__(self) -> None:
        self.started = time.time()
        self._counts: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}
        self._times: dict[str, list[int]] = {}

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count one request of a route."""
        self._counts[path, status] += 1
        times = self._times.setdefault(path, [0] * (len(BUCKETS) + 1))
        self._seconds[path] = self._seconds.get(path, 0.0) + seconds
        times[next((i for i, most in enumerate(BUCKETS) if seconds <= most), len(BUCKETS))] += 1

    def text(self, shelf: Shelf) -> str:
        """Return all of it; names of models and routes need no escapes."""
        lines = ["# TYPE mercer_requests_total counter"]
        lines += [
            f'mercer_requests_total{{route="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self._counts.items())
        ]
        lines.append("# TYPE mercer_request_seconds histogram")
        for path, times in sorted(self._times.items()):
            total = 0
            for most, count in zip((*BUCKETS, "+Inf"), times, strict=True):
                total += count
                lines.append(f'mercer_request_seconds_bucket{{route="{path}",le="{most}"}} {total}')
            lines.append(f'mercer_request_seconds_sum{{route="{path}"}} {self._seconds[path]:.6f}')
            lines.append(f'mercer_request_seconds_count{{route="{path}"}} {total}')
        lines += self._models(shelf)
        lines += ["# TYPE mercer_resident_bytes gauge", f"mercer_resident_bytes {resident()}"]
        lines += ["# TYPE mercer_damaged_models gauge"]
        lines += [f"mercer_damaged_models {len(shelf.damaged)}"]
        lines += ["# TYPE mercer_start_time_seconds gauge"]
        lines += [f"mercer_start_time_seconds {self.started:.3f}", ""]
        return "\n".join(lines)

    def _models(self, shelf: Shelf) -> list[str]:
        keepers = sorted(shelf.models.values(), key=lambda keeper: keeper.name)
        figures: dict[str, tuple[str, dict[str, float | None]]] = {}
        for name, kind in (
            ("version", "gauge"), ("learned_rows_total", "counter"), ("waiting_batches", "gauge"),
            ("refused_batches_total", "counter"), ("predicted_rows_total", "counter"),
            ("points", "gauge"), ("trouble", "gauge"), ("prequential_log_loss", "gauge"),
            ("prequential_accuracy", "gauge"), ("prequential_rmse", "gauge"),
            ("prequential_log_density", "gauge"),
        ):  # fmt: skip
            figures[name] = (kind, {})
        for keeper in keepers:
            state = keeper.state
            scores = state.sums.scores(state.quantity)
            given: dict[str, float | None] = {
                "version": keeper.version,
                "learned_rows_total": keeper.learned_rows,
                "waiting_batches": keeper.waiting,
                "refused_batches_total": keeper.refused,
                "predicted_rows_total": keeper.predicted,
                "points": None if state.model is None else state.points,
                "trouble": float(keeper.trouble is not None),
                "prequential_log_loss": scores.log_loss,
                "prequential_accuracy": scores.accuracy,
                "prequential_rmse": scores.rmse,
                "prequential_log_density": scores.log_density,
            }
            for name, value in given.items():
                figures[name][1][keeper.name] = value
        lines = []
        for name, (kind, values) in figures.items():
            lines.append(f"# TYPE mercer_{name} {kind}")
            lines += [
                f'mercer_{name}{{model="{model}"}} {value!r}'
                for model, value in values.items()
                if value is not None
            ]
        return lines


def resident() -> int:
    """Return the bytes of memory that the process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
