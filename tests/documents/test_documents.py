"""The code in the documents runs: README, CONTRIBUTING, docs/ and every docstring.

In a Markdown file the ``python`` blocks run from top to bottom in one namespace, in an empty
folder; those of the README each in its own, so that one of them can be copied alone. A ``text``
block right after one is what it prints ("..." stands for anything).
"""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import mercer

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def documents():
    """Every Markdown file with code, what the documentation build generates left out."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    built = {"_build", "auto_examples", "generated"}
    return [path for path in found if not built & set(path.parts)]


def modules():
    """Names of all modules below mercer, the compiled ones left out."""
    walk = pkgutil.walk_packages(mercer.__path__, "mercer.")
    return sorted(m.name for m in walk if "_native" not in m.name and "__main__" not in m.name)


def blocks(text):
    """Yield (line, code, expected output or None) for each python block of a Markdown text."""
    found = list(BLOCK.finditer(text))
    for match, following in zip(found, [*found[1:], None], strict=False):
        if match[1] != "python":
            continue
        expected = None
        if following is not None and following[1] == "text":
            between = text[match.end() : following.start()]
            expected = following[2] if not between.strip() else None
        yield text[: match.start()].count("\n") + 2, match[2], expected


# The pages that take longest: they run among the slow tests; every day they are read.
LONG = [
    "docs/guide/additive.md",
    "docs/guide/bayesian-classification.md",
    "docs/guide/classification.md",
    "docs/guide/discrimination.md",
    "docs/guide/report.md",
    "docs/guide/streams.md",
    "docs/guide/tables.md",
    "docs/guide/weights-and-outputs.md",
    "docs/howto/from-river.md",
]


def page(path):
    name = str(path.relative_to(ROOT))
    return pytest.param(path, id=name, marks=pytest.mark.slow if name in LONG else ())


@pytest.mark.parametrize("name", LONG)
def test_long_pages_can_be_read_and_import_what_there_is(name):
    found = 0
    for line, code, _ in blocks((ROOT / name).read_text(encoding="utf-8")):
        tree = ast.parse("\n" * (line - 1) + code, name)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mercer"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, a.name) for a in node.names), f"{name}:{node.lineno}"
            found += isinstance(node, ast.Call)
    assert found > 10


@pytest.mark.parametrize("path", [page(path) for path in documents()])
def test_markdown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "document"}
    for line, code, expected in blocks(path.read_text(encoding="utf-8")):
        source = compile("\n" * (line - 1) + code, str(path), "exec")
        if path.name == "README.md":
            namespace = {"__name__": "document"}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, namespace)
        if expected is not None:
            same = doctest.OutputChecker().check_output(expected, printed.getvalue(), FLAGS)
            assert same, f"{path.name}:{line} prints\n{printed.getvalue()}\nnot\n{expected}"


def script(name):
    """A module of docs/ that is no part of a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


EQUATION = re.compile(r"^ .*\(([A-Z])(\d+)\)$", re.MULTILINE)
CITED = re.compile(r"[Tt]heory ((?:\([A-Z]\d+\)(?:, )?)+)")


def test_equations_are_numbered_and_cited():
    numbered = {}
    for page in sorted((ROOT / "docs/theory").glob("*.md")):
        found = EQUATION.findall(page.read_text(encoding="utf-8"))
        assert len({letter for letter, _ in found}) <= 1, f"{page.name} has two letters"
        counts = [int(count) for _, count in found]
        assert counts == list(range(1, len(counts) + 1)), f"{page.name}: {counts}"
        assert not numbered.keys() & {"".join(f) for f in found}, f"{page.name}: a letter twice"
        numbered |= {"".join(f): page.name for f in found}
    pages = {page.name for page in (ROOT / "docs/theory").glob("*.md")} - {"index.md"}
    assert set(numbered.values()) == pages
    cited = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for group in CITED.findall(path.read_text(encoding="utf-8")):
            cited |= dict.fromkeys(re.findall(r"[A-Z]\d+", group), path.name)
    assert cited.keys() - numbered.keys() == set(), "cited, but on no page"
    assert numbered.keys() - cited.keys() == set(), "on a page, but cited nowhere in the source"


def test_pages_from_stored_figures():
    for path, text in script("stored").pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/stored.py"


@pytest.mark.parametrize("name", ["README.md", "docs/choosing.md"])
def test_every_estimator_is_in_the_table(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    estimators = [n for n in mercer.__all__ if isinstance(getattr(mercer, n), type)]
    assert len(estimators) > 20
    assert [n for n in estimators if f"`{n}`" not in text] == []


def test_links_between_documents():
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:\s]+\.(?:md|png))(?:#[^)]*)?\)", text):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_public_name_has_a_page():
    pages = script("public_names")
    wanted = {f"{room}.{name}" for room in pages.ROOMS for name in pages.public_names(room)}
    assert wanted - pages.entries() == set(), "public, but without a docstring of their own"


@pytest.mark.parametrize("name", modules())
def test_docstrings(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=FLAGS)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")  # it warns of more than twenty pictures
    assert result.failed == 0
