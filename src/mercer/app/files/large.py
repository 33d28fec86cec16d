"""``mercer fit`` in blocks: one Gaussian process on inducing points learns from all rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import mercer
from mercer.app import terminal as console
from mercer.app.predict import rows_of
from mercer.app.terminal import AppError, progress, require, shown
from mercer.linalg import Inducing
from mercer.search import Optimize
from mercer.tables.files import FileOptions, batches, frame_of

POINTS = 500  # inducing points, unless the user says how many
FIRST = 10_000  # rows by which the kind of the target is told
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>mercer: {title}</title>
<style>body{{font-family:sans-serif;margin:2em}} td,th{{padding:.2em 1em .2em 0}}
caption{{font-weight:bold;text-align:left}}</style></head>
<body><h1>{title}</h1>{table}<p>{made}</p></body></html>
"""


def fit_large(
    paths: list[str],
    *,
    table: str,
    target: str,
    output: str,
    report: str | None,
    features: list[str] | None,
    weights: str | None,
    kernel: str | None,
    kind: str | None,
    points: int | None,
    engine: str | None,
    scheduler: str | None,
    checkpoint: str | None,
    seed: int,
    made: str,
    why: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Learn from files block by block, write the model and say what was found; ``why`` so."""
    from mercer.persist import replacing

    loud = not (quiet or as_json)
    if loud and why is not None:
        console.say(why)
    classes = kind == "classification" or (kind is None and _are_classes(paths, target))
    machine = mercer.GPClassifier if classes else mercer.GPRegressor
    if points is None:
        points = min(POINTS, max(1, sum(rows_of(path) or 0 for path in paths) // 4))
    # every evaluation of a classifier takes many steps
    gram: Any = Inducing(m=points, move=False, max_iter=20) if classes else Inducing(m=points)
    with progress(not loud) as advance, _engine(engine, scheduler) as where:
        model = machine(
            kernel,
            search=Optimize(progress=lambda event: advance({"stage": "sample", **event})),
            gram=gram,
            random_state=seed,
        ).fit(
            mercer.BlockTable(
                paths,
                target,
                weights,
                columns=features,
                engine=where,
                checkpoint=checkpoint,
                progress=advance,
            )
        )
    model.search = "evidence"  # a bar is no part of a model
    mercer.save(model, output)
    summary = model.summary()
    if report is not None:
        text = PAGE.format(title=os.path.basename(table), table=summary._repr_html_(), made=made)
        with replacing(report) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
    if as_json:
        console.print_json(_plain(model, target) | {"model": output, "report": report})
    elif not quiet:
        console.print_summary(summary.rows())
        console.say(f"model written to {output}" + (f", report to {report}" if report else ""))


def _plain(model: Any, target: str) -> dict[str, Any]:
    """Return what was learned as plain values."""
    names = ("rows", "blocks", "inducing", "inference", "search")
    classes = getattr(model, "classes_", None)
    return {
        "estimator": type(model).__name__,
        "target": target,
        "classes": None if classes is None else classes.tolist(),
        "features": [str(name) for name in model.feature_names_in_],
        "kernel": repr(model.kernel_),
        "loss": repr(model.loss_),
        "log_evidence": model.log_evidence_,
        **{name: model.report_[name] for name in names},
    }


def _are_classes(paths: list[str], target: str) -> bool:
    """Say whether a target is text, or one of two numbers, by its first values."""
    data = next(iter(batches(paths[:1], FileOptions(delimiter=_delimiter(paths[0])), FIRST)), None)
    if data is None:
        raise AppError(f"{paths[0]} has no rows")
    data.check([target], "the target")
    frame = frame_of(data, [target])
    if frame.kind(target) != "number":
        return True
    values = np.unique(data.numbers([target]))
    return len(values[np.isfinite(values)]) <= 2


def _delimiter(path: str) -> str:
    return "\t" if path.lower().endswith(".tsv") else ","


@contextlib.contextmanager
def _engine(name: str | None, scheduler: str | None) -> Iterator[Any]:
    """Yield who computes: this process, a cluster by its address, or processes started here."""
    if name == "local" or (name is None and scheduler is None):
        if scheduler is not None:
            raise AppError("--scheduler is the address of a Dask cluster: use --engine dask")
        yield "local"
        return
    distributed = require("distributed", "--engine dask")
    if scheduler is not None:
        try:
            with distributed.Client(scheduler, timeout="10s", set_as_default=False) as client:
                yield client
        except (OSError, ValueError) as error:
            raise AppError(f"{shown(scheduler)}: {shown(str(error), 200)}") from None
        return
    dask = require("dask", "--engine dask")
    # nobody looks at the profile of workers that end with the command
    quiet = dask.config.set({"distributed.worker.profile.enabled": False})
    given = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with quiet, distributed.Client(**given) as here:
        yield here
