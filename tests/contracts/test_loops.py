"""Every loop ends: one that states no end is listed here, with what bounds it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.persist import container
from mercer.search import one_parameter

SOURCE = Path(mercer.__file__).parent
NATIVE = Path(__file__).parents[2] / "native"
BOUNDS = {
    "estimators/support_vector/nu.py": "_ascended: a tolerance that falls tenfold, to the finest",
    "inference/smo.py": "_pairs: the limit of steps; a call that made none fetched a row, or ends",
    "inference/mode/classes.py": "newton: the limit of steps",
    "inference/mode/steps.py": "newton: the limit of steps",
    "linalg/blocks/cluster.py": "each round ends a task; without workers, the patience does",
    "losses/calibration.py": "newton: a step is halved down to 1e-10",
    "search/optimize.py": "_climb: each round takes from max_iter, or is the last",
    "smo/smo.hpp": "solve: the limit of steps",
}


def _endless(path):
    """Return whether there is a loop whose condition is always true."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return bool(re.search(r"while\s*\((true|1)\)|for\s*\(\s*;\s*;", text))
    if not re.search(r"\bwhile\b", text):
        return False
    loops = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.While))
    return any(isinstance(loop.test, ast.Constant) for loop in loops)


def test_no_other_loop_is_without_an_end():
    files = [(SOURCE, p) for p in SOURCE.rglob("*.py")]
    files += [(NATIVE, p) for p in NATIVE.rglob("*.?pp")]
    found = {p.relative_to(root).as_posix() for root, p in files if _endless(p)}
    assert found == set(BOUNDS)


def _rough(u):
    return np.sin(1e9 * u) * 1e3 + np.cos(u)


@pytest.mark.parametrize(
    "curve",
    [_rough, np.zeros_like, lambda u: np.full(len(u), np.nan), lambda u: -(u**2), np.sin],
    ids=["rough", "flat", "nothing", "smooth", "waves"],
)
def test_a_search_of_one_parameter_ends(curve):
    asked = []

    def counted(u):
        asked.append(len(u))
        return curve(np.where(np.isfinite(u), u, 1e3))

    _, report = one_parameter.highest(counted, -60.0, 60.0)
    assert sum(asked) == report["evaluations"] <= 16 * (one_parameter.ROUNDS + 2)
    assert report["converged"]


def test_a_folder_where_every_name_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(container.secrets, "token_hex", lambda size: "ab")
    (tmp_path / ".mercer-ab.part").touch()
    with pytest.raises(FileExistsError, match="100 new names"):
        container._created(tmp_path, private=False)
