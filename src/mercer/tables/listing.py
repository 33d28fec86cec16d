"""Listing: the ranking as a table of text, and of HTML in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from mercer.tables.ranking import HEAD, Row


class Listing:
    """The ranking of a :class:`TableModel`, best first; ``rows()`` gives plain dictionaries."""

    def __init__(self, ranking: list[Row], kind: str) -> None:
        self.ranking = ranking
        self.kind = kind

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, e.g. for a data frame."""
        return [row.plain() for row in self.ranking]

    def head(self) -> list[str]:
        """Return the column names; the error is named by what it is."""
        names = list(HEAD)
        names[2] = "RMSE" if self.kind == "regression" else "error"
        names[1] = "log density" if self.kind == "regression" else "log probability"
        return names

    def cells(self) -> list[list[str]]:
        """Return the rows as text."""
        return [row.cells() for row in self.ranking]

    def __str__(self) -> str:
        cells = [self.head(), *self.cells()]
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        lines = [
            "  ".join(
                c.ljust(w) if j in (0, len(widths) - 1) else c.rjust(w)
                for j, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join(["ranked by the log density of rows left out, per row", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        top = "".join(f"<th>{escape(c)}</th>" for c in self.head())
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.cells()
        )
        caption = "ranked by the log density of rows left out, per row"
        return f"<table><caption>{caption}</caption><tr>{top}</tr>{body}</table>"
