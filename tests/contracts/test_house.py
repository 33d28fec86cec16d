"""The plan of the house, enforced: layers, folders, names of files and classes."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import pytest

import mercer

SOURCE = Path(mercer.__file__).parent
FILES = sorted(p for p in SOURCE.rglob("*.py"))
MODULES = {".".join(("mercer", *p.relative_to(SOURCE).with_suffix("").parts)) for p in FILES}

# A module may import from its own layer and from lower ones.
LAYERS = {
    "_native": 0,
    "core": 1,
    "basis": 2,
    "kernels": 2,
    "losses": 2,
    "sampling": 2,
    "linalg": 3,
    "inference": 4,
    "process": 5,
    "rkhs": 5,
    "left_out": 6,
    "search": 7,
    "estimators": 8,
    "export": 9,
    "persist": 9,
    "plots": 9,
    "referee": 9,
    "tables": 10,
    "app": 11,
    "serve": 11,
    "__main__": 11,
    "testing": 12,
}
SIBLINGS_APART = {("kernels", "losses"), ("losses", "kernels")}
MOST_ENTRIES = 15


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_packages(path: Path) -> set[str]:
    """What the file imports of mercer; a string that is the name of a module counts as well."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    packages = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "mercer":
                packages |= {alias.name for alias in node.names}
            elif node.module.startswith("mercer."):
                packages.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            packages |= {a.name.split(".")[1] for a in node.names if a.name.startswith("mercer.")}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # noqa: SIM102  # one clause a kind of node
            if node.value in MODULES or f"{node.value}.__init__" in MODULES:
                packages |= set(node.value.split(".")[1:2])
    return packages


# What the app still takes from inside a package, in place of its public names: to become less.
INSIDE = {
    "kernels.convert",
    "plots.inputs",
    "plots.rows",
    "tables.choose.ranking",
    "tables.data.frame",
    "tables.quality",
    "tables.report.words",
}


def test_the_app_works_over_the_public_interface() -> None:
    """The app imports packages, and from core what all layers share."""
    inner = set()
    for path in (SOURCE / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) and node.module else ""
            _, _, inside = module.partition("mercer.")
            if "." in inside and not inside.startswith(("app.", "core.")):
                package = (SOURCE / inside.replace(".", "/")).is_dir()
                inner |= set() if package else {inside}
    assert inner <= INSIDE, f"a public name is wanted: {sorted(inner - INSIDE)}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_layers_import_downward(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        return
    for other in imported_packages(path):
        if other not in LAYERS:
            # a public name of the package itself: only the app works over the public API
            assert package in ("app", "serve", "testing"), f"{path.name} imports mercer.{other}"
            continue
        assert LAYERS[other] <= LAYERS[package], f"{package} must not import {other}"
        assert (package, other) not in SIBLINGS_APART, f"{package} must not know {other}"


def test_every_package_has_a_layer() -> None:
    assert {package_of(p) for p in FILES} - {"__init__"} <= set(LAYERS)


def test_folders_can_be_taken_in_at_a_glance() -> None:
    folders = {p.parent for p in FILES} - {SOURCE}
    entries = {
        str(f.relative_to(SOURCE)): len(
            [e for e in f.iterdir() if e.name != "__pycache__" and e.suffix != ".so"]
        )
        for f in folders
    }
    full = {f: n for f, n in entries.items() if n > MOST_ENTRIES}
    assert not full, f"folders with more than {MOST_ENTRIES} entries: {full}"


def test_no_family_of_files_shares_a_prefix() -> None:
    """Two files called ``spline_this`` and ``spline_that`` are a folder ``spline``."""
    families = defaultdict(list)
    for path in FILES:
        if not path.stem.startswith("_"):
            families[path.parent, path.stem.split("_")[0]].append(path.stem)
    shared = {str(k[0].relative_to(SOURCE)): v for k, v in families.items() if len(v) > 1}
    assert not shared


def test_no_class_name_stands_for_two_things() -> None:
    homes = defaultdict(list)
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^class (\w+)", text, re.MULTILINE):
            homes[name].append(str(path.relative_to(SOURCE)))
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_long_files_are_rare() -> None:
    """A file is one thought: few thoughts need more than 400 lines, none needs 500."""
    lengths = {
        str(p.relative_to(SOURCE)): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES
    }
    assert not {name: n for name, n in lengths.items() if n > 500}
    long = {name: n for name, n in lengths.items() if n > 400}
    assert len(long) <= len(FILES) // 50, long


def test_public_names_are_listed() -> None:
    assert dir(mercer) == sorted(mercer.__all__)
    assert all(a <= b for a, b in pairwise(dir(mercer)))
    assert not [name for name, n in Counter(mercer.__all__).items() if n > 1]
    for name in mercer.__all__:
        assert getattr(mercer, name) is not None


def test_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GPRegresor'"):
        mercer.GPRegresor  # noqa: B018  # the access itself is the test


def test_every_public_method_says_what_it_does() -> None:
    """An override inherits its docstring; everything else has one of its own."""
    silent = []
    for name in sorted(MODULES):
        if name.endswith(("__main__", "__init__")):
            continue
        module = importlib.import_module(name)
        for cls in vars(module).values():
            if not isinstance(cls, type) or cls.__module__ != name or cls.__name__.startswith("_"):
                continue
            silent += [
                f"{name}.{cls.__name__}.{method}"
                for method, member in vars(cls).items()
                if not method.startswith("_")
                and isinstance(member, (FunctionType, property, classmethod, staticmethod))
                and not inspect.getdoc(getattr(cls, method))
            ]
    assert not silent, silent
