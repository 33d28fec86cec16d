"""The directive ``picture``: draws the picture of the page it stands on, see ``pictures/``."""

from __future__ import annotations

from pathlib import Path

import pictures
from docutils import nodes
from sphinx.directives.patches import Figure
from sphinx.util.docutils import SphinxDirective

DRAWN = "pictures/drawn"


class Picture(Figure, SphinxDirective):
    """A figure that is drawn by mercer; the content is the caption."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        """Draw the picture, and put it on the page."""
        page = self.env.docname
        path = Path(self.env.srcdir) / DRAWN / f"{page.replace('/', '-')}.svg"
        self.options["alt"] = pictures.draw(page, path)
        room = page.partition("/")[0]
        self.env.note_dependency(str(Path(pictures.__file__).with_name(f"{room}.py")))
        self.arguments = [f"/{DRAWN}/{path.name}"]
        return super().run()
