"""Errors of the five sources: the printed form, the corrected form, and the truth, as numbers.

    MERCER_DATA=<folder> python papers/errata.py --json papers/errata.json
    python papers/errata.py --no-run --page docs/papers/errata.md

The words are in docs/papers/errata_words.json. Every figure is computed in a moment: by quadrature,
simulation, finite differences, refitting, or from what another script of this folder has stored.
Without the folder of data one of them (T33) has no truth.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import _store

HERE = Path(__file__).parent
WORDS = HERE.parent / "docs" / "papers" / "errata_words.json"
STORED = HERE / "errata.json"
KINDS = ("typo", "error", "ambiguity")
INTRO = """\
# Errata of the sources

What was found wrong, unclear or misprinted in the five texts that mercer grew from, with the
equations as they are used here. *Typo*: the text around it is right. *Error*: computing with the
printed form gives something else, or the statement does not hold. *Ambiguity*: there are several
readings, and one is named. Equations of mercer are those of the [theory pages](../theory/index.md).

The evidence is one quantity in three ways: by the printed form, by the corrected one (by mercer's
own code, where it has it), and the truth by quadrature, simulation, finite differences or
refitting. `papers/errata.py` computes it, and a test compares them:

    MERCER_DATA=<folder> python papers/errata.py --json papers/errata.json
    python papers/errata.py --no-run --page <this page>

{count} entries, {kinds}; {checked} with figures.
"""


def checks() -> dict[str, dict[str, Any]]:
    """Compute all the evidence, by the name of the entry."""
    import _errata_gpml  # noqa: F401  # registers its evidence
    import _errata_sequences  # noqa: F401  # the same
    import _errata_slides  # noqa: F401  # the same
    import _errata_thesis  # noqa: F401  # the same
    from _errata_check import EVIDENCE

    return {name: _plain(compute()._asdict()) for name, compute in EVIDENCE.items()}


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value if value is None or isinstance(value, str) else float(value)
        for key, value in found.items()
    }


def sources() -> list[dict[str, Any]]:
    """The words of all entries, by source."""
    return json.loads(WORDS.read_text(encoding="utf-8"))["sources"]


def evidence(found: dict[str, Any]) -> str:
    """One cell of the table: the quantity, its truth, and what the two forms give."""
    text = f"{found['what']}: {found['truth']:.5g}"
    forms = [f"{k} {found[k]:.5g}" for k in ("printed", "corrected") if found[k] is not None]
    return "; ".join([text, *forms])


def page(stored: dict[str, dict[str, Any]]) -> str:
    """The page of the documentation."""
    entries = [entry for source in sources() for entry in source["entries"]]
    counts = [sum(entry["kind"] == kind for entry in entries) for kind in KINDS]
    kinds = "{} typos, {} errors, {} ambiguities".format(*counts)
    parts = [INTRO.format(count=len(entries), kinds=kinds, checked=len(stored))]
    for source in sources():
        lines = [f"## {source['title']}", "", f"{source['reference']}.", ""]
        head = ("", "where", "kind", "printed", "corrected", "in mercer", "evidence")
        lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for entry in source["entries"]:
            shown = evidence(stored[entry["id"]]) if entry["id"] in stored else ""
            cells = [
                entry[key] for key in ("id", "where", "kind", "printed", "corrected", "mercer")
            ]
            lines.append("| " + " | ".join(_cell(text) for text in [*cells, shown]) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    text = text.replace("|", r"\|")
    quoted = text.split("`")  # odd parts are code, where nothing but the bar is special
    return "`".join(p if i % 2 else p.replace("<", r"\<") for i, p in enumerate(quoted))


def main(arguments: list[str] | None = None) -> int:
    """Print all the evidence, store it, write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", help="where to store the figures")
    parser.add_argument("--page", help="write the page of the documentation")
    parser.add_argument("--no-run", action="store_true", help="take the stored figures")
    given = parser.parse_args(arguments)
    stored = json.loads(STORED.read_text(encoding="utf-8")) if given.no_run else checks()
    for name, found in stored.items():
        print(f"{name:<4} {evidence(found)}")
    if given.json:
        _store.write(given.json, stored)
    if given.page:
        Path(given.page).write_text(page(stored), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
