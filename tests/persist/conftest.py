"""A machine with every kind of array, and its file."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.persist import save
from tests.persist.common import Bump, Machine


@pytest.fixture
def machine():
    rng = np.random.default_rng(0)
    part = Bump(0.1, np.array([1.0, np.inf]), Bump(np.inf))
    arrays = {
        "alpha": rng.normal(size=(5, 2)),
        "fortran": np.asfortranarray(rng.normal(size=(4, 3))),
        "strided": rng.normal(size=(6, 4))[::2, ::2],
        "empty": np.empty((0, 3)),
        "scalar": np.array(3.5),
        "flags": np.array([True, False]),
        "counts": np.arange(3),
        "single": np.ones(2, np.float32),
    }
    notes = {"$odd": 1, "names": np.array(["a", "é"], dtype=object), "nan": np.nan, "deep": [[1]]}
    return Machine(part).fit(arrays, notes)


@pytest.fixture
def saved(machine, tmp_path):
    path = tmp_path / "model.mercer"
    save(machine, path)
    return path
