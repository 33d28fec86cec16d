"""Every parameter of an estimator is described on its own page.

A docstring may say "gram, standardize : see :class:`KernelRegressor`", and what is different here.
In an editor that is enough; the page has the descriptions that are meant behind it.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from sklearn.base import BaseEstimator

import mercer

RULE = re.compile(r"^-{3,}\s*$")
HEAD = re.compile(r"^(\w+(?:, \w+)*)(?: ?:.*)?$")
SEE = re.compile(r"\bsee :class:`~?(?:mercer\.)?(\w+)`", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """The description of one or several parameters: their names, and the lines."""

    names: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def cited(self) -> type | None:
        """The estimator that has the description, if this one only names it."""
        found = SEE.search(" ".join(self.lines))
        return getattr(mercer, found[1], None) if found else None

    def of(self, wanted: set[str]) -> Entry:
        """Return the entry with those of its names that are wanted."""
        names = tuple(name for name in self.names if name in wanted)
        head = self.lines[0].removeprefix(", ".join(self.names))
        return Entry(names, (", ".join(names) + head, *self.lines[1:]))


def section(lines: list[str]) -> tuple[int, int]:
    """Return where the entries of the section "Parameters" begin and end; (0, 0) without one."""
    for i in range(1, len(lines)):
        if RULE.match(lines[i]) and lines[i - 1].strip() == "Parameters":
            rest = range(i + 2, len(lines))
            end = next((k - 1 for k in rest if RULE.match(lines[k])), len(lines))
            prose = (k for k in range(i + 1, end) if not lines[k].strip())
            return i + 1, next(prose, end)
    return 0, 0


def entries(lines: list[str]) -> list[Entry]:
    """Return the entries of the section, in their order."""
    start, end = section(lines)
    heads = [i for i in range(start, end) if lines[i][:1].strip()]
    found = []
    for i, following in zip(heads, [*heads[1:], end], strict=True):
        match = HEAD.match(lines[i])
        names = tuple(match[1].split(", ")) if match else ()
        found.append(Entry(names, tuple(lines[i:following])))
    return found


def described(cls: type) -> list[Entry]:
    """Return the entries of a class; one that cites another is followed by what is meant."""
    found = []
    for entry in entries((inspect.getdoc(cls) or "").split("\n")):
        found.append(entry)
        if entry.cited is not None and entry.cited is not cls:
            wanted = set(entry.names)
            meant = [other for other in described(entry.cited) if wanted & set(other.names)]
            found += [other.of(wanted) for other in meant]
    return found


def process(app, what, name, obj, options, lines):
    """Sphinx hook: autodoc-process-docstring. Adds the descriptions that are cited."""
    if what == "class" and issubclass(obj, BaseEstimator):
        start, end = section(lines)
        lines[start:end] = [line for entry in described(obj) for line in entry.lines]
