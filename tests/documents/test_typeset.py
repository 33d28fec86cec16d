"""Formulas of the theory pages as MathML: well formed, and nothing of the text is lost."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import typeset  # noqa: E402  # needs the path set above

FORMULAS = [
    (path.stem, line.strip())
    for path in sorted((DOCS / "theory").glob("*.md"))
    for line in path.read_text(encoding="utf-8").split("\n")
    if line.startswith("    ") and typeset.NUMBERED.match(line)
]


def letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


def plain(text: str) -> str:
    """What is to be seen of a formula: signs become others, Greek letters have their names here."""
    text = re.sub(r"\bintegral of\b", "", text)
    text = re.sub(r"(?<![A-Za-z])(sum|integral|sqrt)(?![A-Za-z])", "", text)
    names = sorted(typeset.GREEK, key=len, reverse=True)
    found = rf"(?<![A-Za-z])(d?)({'|'.join(names)})(?![A-Za-z])"
    return letters(re.sub(found, lambda m: m[1] + typeset.GREEK[m[2]], text))


def test_there_are_formulas():
    assert len(FORMULAS) > 150


@pytest.mark.parametrize("page", sorted({page for page, _ in FORMULAS}))
def test_formulas_are_whole(page):
    for _, line in (pair for pair in FORMULAS if pair[0] == page):
        body, number = typeset.NUMBERED.match(line).groups()
        root = ET.fromstring(typeset.mathml(body))
        # sorted: an exponent that is written before the index is set behind it
        assert sorted(letters("".join(root.itertext()))) == sorted(plain(body)), line
        row = typeset.formula(line)
        assert number in row
        ET.fromstring(row)


def test_indices_exponents_and_signs_stand_in_their_places():
    def inside(text):
        return typeset.mathml(text).partition(">")[2].removesuffix("</math>")

    assert inside("K_y") == "<msub><mi>K</mi><mi>y</mi></msub>"
    assert (
        inside("C_ii^2")
        == "<msubsup><mi>C</mi><mrow><mi>i</mi><mi>i</mi></mrow><mn>2</mn></msubsup>"
    )
    assert inside("1/2") == "<mfrac><mn>1</mn><mn>2</mn></mfrac>"
    assert inside("sqrt(x)") == "<msqrt><mi>x</mi></msqrt>"
    assert "&lt;" in inside("a < b")
    assert inside("<g>").startswith('<mo stretchy="false">⟨')
    assert "munder" in inside("sum_i a_i")
    assert "<mtext>for</mtext>" in inside("a  for m = 2")
    assert "<script>" not in typeset.formula("<script>x</script>   (G1)")
