"""Numbered equations: literal blocks with a number at the margin become mathematics."""

from __future__ import annotations

import typeset
from docutils import nodes

CODE = ("python", "pycon", "bash", "sh", "text")  # may cite an equation at the end of a line


def set_as_mathematics(app, doctree):
    """Sphinx hook: doctree-read. Sets the literal blocks that have equation numbers."""
    for block in list(doctree.findall(nodes.literal_block)):
        text = block.astext()
        if block.get("language") not in CODE and typeset.numbered(text):
            block.replace_self(nodes.raw("", typeset.formula(text), format="html"))
