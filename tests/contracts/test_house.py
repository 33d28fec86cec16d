"""The plan of the house, enforced: layers import downward, files stay small."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

import pytest

import mercer

SOURCE = Path(mercer.__file__).parent
FILES = sorted(p for p in SOURCE.rglob("*.py"))

# A module may import from its own layer and from lower ones.
LAYERS = {
    "_native": 0,
    "arrays": 0,
    "protocols": 0,
    "wording": 0,
    "component": 1,
    "basis": 2,
    "kernels": 2,
    "losses": 2,
    "linalg": 3,
    "inference": 4,
    "process": 5,
    "rkhs": 5,
    "search": 6,
    "estimators": 7,
    "export": 8,
    "persist": 8,
    "plots": 8,
    "reports": 9,
    "tables": 10,
    "app": 11,
    "__main__": 11,
    "testing": 12,
}
SIBLINGS_APART = {("kernels", "losses"), ("losses", "kernels")}


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    rooms = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "mercer":
                rooms |= {alias.name for alias in node.names}
            elif node.module.startswith("mercer."):
                rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("mercer.")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_layers_import_downward(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    for other in imported_rooms(path):
        if other not in LAYERS:
            # a public name of the package itself: only the app works over the public API
            assert room in ("app", "testing"), f"{path.name} imports mercer.{other}"
            continue
        assert LAYERS[other] <= LAYERS[room], f"{room} must not import {other}"
        assert (room, other) not in SIBLINGS_APART, f"{room} must not know {other}"


def test_every_room_has_a_layer() -> None:
    assert {room_of(p) for p in FILES} - {"__init__"} <= set(LAYERS)


def test_files_are_small() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    long = {str(p.relative_to(SOURCE)): n for p, n in lengths.items() if n > 400}
    assert not long, f"files over 400 lines: {long}"
    assert median(lengths.values()) < 110


def test_public_names_are_listed() -> None:
    assert dir(mercer) == sorted(mercer.__all__)
    for name in mercer.__all__:
        assert getattr(mercer, name) is not None


def test_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GPRegresor'"):
        mercer.GPRegresor  # noqa: B018  # the access itself is the test
