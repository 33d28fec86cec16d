"""``mercer compare``: the ranking of the machines, from a model file or for a table."""

from __future__ import annotations

from typing import Any

from mercer.app import terminal as console
from mercer.app.fit import fit_frame
from mercer.app.results import show_columns, show_ranking, table_model
from mercer.app.terminal import AppError, progress, require
from mercer.tables.files import FileOptions, read_file


def run(*, model: str, asked: FileOptions, quiet: bool, as_json: bool, **options: Any) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    if options["target"] is not None:
        data = read_file(model, asked)
        with progress(quiet or as_json) as advance:
            fitted = fit_frame(data, progress=advance, **options)
            if fitted.interrupted_:
                raise KeyboardInterrupt
    elif lost := [n for n in ("weights", "group", "time") if options[n] is not None]:
        raise AppError(f"--{lost[0]} is for a table: pass --target as well")
    else:
        fitted = table_model(
            model,
            ", fitted without a ranking; compare the machines for its table with: mercer compare "
            "TABLE --target NAME",
        )
    if as_json:
        rows = [row.plain() for row in fitted.ranking_]
        console.print_json(
            {"target": fitted.target_, "kind": fitted.kind_, "ranking": rows,
             "remarks": fitted.notes_}
        )  # fmt: skip
    elif not quiet:
        if options["target"] is not None:
            show_columns(fitted)
        show_ranking(fitted)
        for note in fitted.notes_:
            console.say(f"note: {note}")
