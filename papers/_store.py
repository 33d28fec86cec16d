"""Results of a script on disk: JSON lines that the next run continues, or one JSON file.

A line has the fields of its key and what was found for it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel

Key = tuple[Any, ...]
Row = dict[str, Any]


def load(path: str | Path | None, fields: Sequence[str]) -> dict[Key, Row]:
    """The rows of a store by their keys; a line cut short by an interrupt is passed over."""
    found: dict[Key, Row] = {}
    if path is None or not Path(path).exists():
        return found
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[tuple(row.pop(name) for name in fields)] = row
    return found


def extend(
    path: str | Path | None, fields: Sequence[str], tasks: Iterable[Any], jobs: int
) -> Iterator[tuple[Key, Row, float]]:
    """Do the tasks (of ``joblib.delayed``), each of which gives a key, its row and the seconds.

    Every row goes to the store, if there is one, as it ends.
    """
    for key, row, seconds in Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks):
        if path is not None:
            _append(Path(path), json.dumps(dict(zip(fields, key, strict=True)) | row))
        yield tuple(key), row, seconds


def _append(path: Path, line: str) -> None:
    """Add a line; one that was cut short ends first, or it would spoil this one, too."""
    cut = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut + line + "\n")


def write(path: str | Path, figures: Any) -> None:
    """Store the figures of a whole run as one JSON file."""
    Path(path).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def publish(
    title: str,
    figures: Callable[[], Any],
    page: Callable[[Any], str],
    draw: Callable[[str], None],
    arguments: list[str] | None,
) -> int:
    """The command of a script: print the figures; store them, write page and picture if asked."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--out", help="where to save the picture")
    parser.add_argument("--json", help="where to store the figures")
    parser.add_argument("--page", help="write the page of the documentation")
    given = parser.parse_args(arguments)
    found = figures()
    print(json.dumps(found, indent=1))
    if given.json:
        write(given.json, found)
    if given.page:
        Path(given.page).write_text(page(found), encoding="utf-8")
    if given.out:
        draw(given.out)
    return 0
