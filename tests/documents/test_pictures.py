"""Every page of the guide, the how-to pages and the theory shows a picture that mercer draws."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.documents.test_documents import ROOT

ROOMS = ("guide", "howto", "theory")
PAGES = [
    f"{room}/{path.stem}"
    for room in ROOMS
    for path in sorted((ROOT / "docs" / room).glob("*.md"))
    if path.stem != "index"
]
DIRECTIVE = re.compile(r"^```\{picture\}\n(.+?)^```$", re.MULTILINE | re.DOTALL)


def text(page: str) -> str:
    return (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")


DRAWN = [page for page in PAGES if DIRECTIVE.search(text(page))]


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("pictures")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_a_picture_with_a_caption(page: str) -> None:
    found = DIRECTIVE.findall(text(page))
    assert found or "![" in text(page)
    assert all(len(caption.split()) >= 5 for caption in found)


def test_every_picture_has_its_page_and_words_for_those_who_do_not_see_it(
    pictures: ModuleType,
) -> None:
    assert all(len((pictures.drawing(page).__doc__ or "").split()) >= 5 for page in DRAWN)
    for room in ROOMS:
        module = importlib.import_module(f"pictures.{room}")
        own = {
            n
            for n, f in inspect.getmembers(module, inspect.isfunction)
            if f.__module__ == module.__name__
        }
        names = {p.partition("/")[2].replace("-", "_") for p in DRAWN if p.startswith(room)}
        assert {name for name in own if not name.startswith("_")} == names


def test_a_picture_is_the_same_bytes_each_time(pictures: ModuleType, tmp_path: Path) -> None:
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    told = [pictures.draw("theory/discrimination", file) for file in files]
    assert told[0] == told[1]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("page", DRAWN)
def test_pictures_are_drawn(page: str, pictures: ModuleType, tmp_path: Path) -> None:
    assert pictures.draw(page, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 5000
