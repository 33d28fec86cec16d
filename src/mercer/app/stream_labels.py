"""Refusing labels of a batch that the learner cannot have."""

from __future__ import annotations

from mercer.app.csvfile import parse_number
from mercer.app.errors import AppError, quoted, shown
from mercer.app.stream_rows import Rows

MOST = 30  # labels of a first batch, from which more than half of its rows is no class


def check_labels(rows: Rows, known: list[str], begun: bool, named: bool = False) -> None:
    """Refuse a stream of fewer than two classes, and a label that is none of those known.

    Unless the classes were ``named``, a first batch whose labels are a quantity is refused, too.
    """
    if len(known) < 2:
        found = f"only the label {quoted(known)}" if known else "no label"
        raise AppError(
            f"{rows.place}: the first batch has {found}: name all classes of the stream with "
            "--classes a,b,..., or make the batches longer with --batch"
        )
    if not begun and not named and _quantity(known, len(rows.labels)):
        raise AppError(
            f"{rows.place}: the target has {len(known)} different labels in {len(rows.labels)} "
            f"rows, such as '{shown(known[0], 40)}': a stream learns classes, and a quantity is "
            "for `mercer fit`; if they are classes, name them with --classes a,b,..."
        )
    for label, place in zip(rows.labels, rows.places, strict=True):
        if label is not None and label not in known:
            remedy = "begin again with" if begun else "pass"
            raise AppError(
                f"{place}: the label '{shown(label, 40)}' is none of the classes {quoted(known)}; "
                f"mend it, or {remedy} all classes of the stream in --classes a,b,..."
            )


def _quantity(known: list[str], rows: int) -> bool:
    """Whether labels are fractions, almost every row one of its own, or too many in any case."""
    numbers = [parse_number(label) for label in known]
    fractions = all(v is not None and not v.is_integer() for v in numbers)
    return 2 * len(known) > rows + 2 and (fractions or len(known) > MOST)
