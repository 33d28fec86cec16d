"""Numbered equations on the pages: the number stands first, where a narrow page shows it, too.

In the source "(G1)" is at the right margin of a plain text formula, beyond what most screens show.
"""

from __future__ import annotations

import re

from docutils import nodes

NUMBERED = re.compile(r"^(.*?) +(\([A-Z]\d+\))$")
ROOM = 7


def moved(text: str) -> str:
    r"""Return a formula with its numbers before the lines that they stand behind.

    Examples
    --------
    >>> print(moved("a = b     (G1)\n    + c"))
    (G1)   a = b
               + c
    """
    lines = []
    for line in text.split("\n"):
        found = NUMBERED.match(line)
        lines.append(f"{found[2]:<{ROOM}}{found[1]}" if found else f"{'':<{ROOM}}{line}".rstrip())
    return "\n".join(lines)


def numbers_first(app, doctree):
    """Sphinx hook: doctree-read. Moves the numbers in the literal blocks that have some."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if block.get("language") in ("python", "pycon", "bash", "text"):
            continue  # code may cite an equation at the end of a line
        if any(NUMBERED.match(line) for line in text.split("\n")):
            new = moved(text)
            block.rawsource = new
            block.children = []
            block += nodes.Text(new)
