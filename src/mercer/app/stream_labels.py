"""Refusing labels of a batch that the learner cannot have."""

from __future__ import annotations

from mercer.app.errors import AppError, quoted, shown
from mercer.app.stream_rows import Rows


def check_labels(rows: Rows, known: list[str], begun: bool) -> None:
    """Refuse a stream of fewer than two classes, and a label that is none of those known."""
    if len(known) < 2:
        found = f"only the label {quoted(known)}" if known else "no label"
        raise AppError(
            f"{rows.place}: the first batch has {found}: name all classes of the stream with "
            "--classes a,b,..., or make the batches longer with --batch"
        )
    for label, place in zip(rows.labels, rows.places, strict=True):
        if label is not None and label not in known:
            remedy = "begin again with" if begun else "pass"
            raise AppError(
                f"{place}: the label '{shown(label, 40)}' is none of the classes {quoted(known)}; "
                f"mend it, or {remedy} all classes of the stream in --classes a,b,..."
            )
