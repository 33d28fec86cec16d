"""Docstrings write formulas as plain text; this makes Sphinx read them as such.

Indented paragraphs of the description become literal blocks, and the bars of |x| are escaped.
"""

from __future__ import annotations

import re

BAR = re.compile(r"(``.*?``)|(?<!\\)\|")
RULE = re.compile(r"^(-{3,}|={3,})\s*$")


def escaped(line: str) -> str:
    """Return the line with its bars escaped, those in double backquotes excepted."""
    return BAR.sub(lambda match: match[1] or r"\|", line)


def prepared(lines: list[str]) -> list[str]:
    """Return the lines of a docstring with formulas marked as what they are."""
    result: list[str] = []
    section = literal = example = False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        section = section or bool(RULE.match(following) and line.strip() and line[0] != " ")
        blank = not line.strip()
        indented = line.startswith("    ")
        if literal and not blank and not indented:
            literal = False
        if not section and not literal and indented and result and not result[-1].strip():
            before = next((r for r in reversed(result) if r.strip()), "")
            if not before.rstrip().endswith("::") and not before.lstrip().startswith(("-", "*")):
                result += ["::", ""]
            literal = True
        example = (line.lstrip().startswith(">>>") or example) and not blank
        result.append(line if literal or example else escaped(line))
    return result


def process(app, what, name, obj, options, lines):
    """Sphinx hook: autodoc-process-docstring."""
    lines[:] = prepared(lines)
