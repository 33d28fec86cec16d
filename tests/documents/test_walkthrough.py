"""The walk of a new user: the commands of the documents, copied, on the files that they name.

README alone is enough for five tasks: fit a CSV, compare, stream, save/load/predict, and write a
kernel; its Python blocks run in test_documents.py, its commands here.
"""

import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mercer.app.main import main
from tests.documents.test_documents import BLOCK, ROOT, blocks, documents

README = ROOT / "README.md"
PAGES = ["README.md", "docs/index.md", "docs/getting-started.md", "docs/guide/command-line.md"]
# What a shell block may hold besides our commands: it makes environments, or is the suite.
OTHERS = (
    "make",
    "pip install",
    "python3 -m venv",
    ".venv/bin/pre-commit",
    ".venv/bin/python -m pytest",
)


def shell(path):
    """Return the lines of the shell blocks of a Markdown file, comments left out."""
    found = [match[2] for match in BLOCK.finditer(path.read_text(encoding="utf-8"))]
    kinds = [match[1] for match in BLOCK.finditer(path.read_text(encoding="utf-8"))]
    lines = "".join(text for kind, text in zip(kinds, found, strict=True) if kind == "bash")
    return [line.partition(" #")[0].strip() for line in lines.splitlines() if line.strip()]


def is_ours(line):
    return bool(re.match(r"(.*\| )?mercer ", line))


def files_of(path):
    """Run what writes the files of a page, in the working folder: its own code, or the README's."""
    for source in dict.fromkeys([README, path]):
        for _, code, _ in blocks(source.read_text(encoding="utf-8")):
            if '"table.csv", ' in code or '.to_csv("table.csv"' in code:
                exec(code, {"__name__": "document"})
    for name in ("wednesday.csv", "events.csv", "day1.csv", "day2.csv"):
        shutil.copy("tuesday.csv", name)


@pytest.mark.parametrize("path", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_shell_line_is_run_somewhere(path):
    lines = [line for line in shell(path) if not line.startswith(OTHERS)]
    assert [line for line in lines if not is_ours(line)] == []
    assert not lines or str(path.relative_to(ROOT)) in PAGES
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    made = re.findall(r"`?\bmake ([\w-]+)`?", "\n".join(shell(path)))
    assert set(made) <= set(targets)


@pytest.mark.parametrize("name", PAGES)
def test_commands(name, tmp_path, monkeypatch, capsys):
    """Every command in this process, one candidate in place of all."""
    monkeypatch.chdir(tmp_path)
    files_of(ROOT / name)
    commands = [line for line in shell(ROOT / name) if is_ours(line)]
    assert len(commands) > 1
    for line in commands:
        fed, _, command = line.rpartition("| ")
        words = shlex.split(command)[1:]
        words = [w for word in words for w in (sorted(glob.glob(word)) if "*" in word else [word])]
        quick = {"fit": ["--candidates", "linear"]}.get(words[0], [])
        if fed:
            raw = Path(shlex.split(fed)[-1]).read_bytes()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        assert main([*words, *quick]) == 0, f"{line}\n{capsys.readouterr().err}"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_commands_in_a_shell(name, tmp_path, monkeypatch):
    """The same as they stand there, in bash, with all candidates."""
    monkeypatch.chdir(tmp_path)
    files_of(ROOT / name)
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "mercer"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mercer.app.main "$@"\n', "utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for line in (line for line in shell(ROOT / name) if is_ours(line)):
        ends = line.replace("tail -n +1 -f", "cat")  # a file that grows would be waited for
        done = subprocess.run(
            ["bash", "-c", ends], capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    if name == "README.md":
        made = {"report.html", "out.csv", "learner.mercer", "classes.csv"}
        assert made <= {path.name for path in tmp_path.iterdir()}
