"""The fields of a docstring are prose: their words link to nothing.

Sphinx takes what stands behind the colon of "value, unit : the figure" for a type, and looks for a
class of each word's name. It may find several, such as the ``value`` of every loss, and warns.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.addnodes import pending_xref


def unlinked(app, doctree):
    """Sphinx hook: doctree-read. Replaces the links that no role asked for by their text."""
    for node in list(doctree.findall(pending_xref)):
        # set for the types of fields; of a role only by a dot before its name
        if node.get("refspecific") and _in_field(node):
            node.replace_self(node.children)


def _in_field(node: nodes.Node) -> bool:
    while node is not None:
        if isinstance(node, nodes.field):
            return True
        node = node.parent
    return False
