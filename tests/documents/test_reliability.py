"""The page of promises: what it names exists."""

from __future__ import annotations

import re

import pytest

from tests.documents.test_documents import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|benchmarks)/[\w/.]+)[ `]", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_is_there(name: str) -> None:
    assert (ROOT / name).exists()
