"""The benchmark of honest figures: how it splits, and how it pools tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def honest(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("benchmark_honest", FOLDER / "honest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_and_test_rows_are_apart(honest):
    X, y = np.arange(50.0)[:, None], np.arange(50.0)
    (columns, target), (new, new_y) = honest.split(X, y, 0, 400)
    assert len(target) == 30
    assert len(new_y) == 20
    assert not set(target) & set(new_y)
    assert columns["x0"].tolist() == target.tolist()
    assert new["x0"].tolist() == new_y.tolist()


def test_tables_are_pooled_by_their_means(honest, monkeypatch):
    shifts = {"boston": 0.1, "banana": -0.3}

    def compared(name, seed, options):
        found = {"left out": shifts[name] + 0.01 * seed, "test": 0.0, "error": 0.02}
        return found | {"cpu": 1.0, "machine": "m", "bound": 0}

    monkeypatch.setattr(honest, "compared", compared)
    rows = honest.honest_rows(honest.arguments(["--tables", *shifts, "--splits", "3"]))
    assert len(rows) == 2 * (3 + 1) + 1
    each = np.array([0.11, -0.29])
    assert [row.value for row in rows if row.what in shifts] == pytest.approx(each.tolist())
    wanted = abs(each.mean()) / (each.std(ddof=1) / np.sqrt(2))
    assert rows[-1].value == pytest.approx(wanted)
    assert rows[-1].verdict == "PASS"


def test_log_densities_of_a_quantity_and_of_classes(honest):
    import mercer

    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    for y in (x + 0.1 * rng.normal(size=60), np.where(x > 0.2, "a", "b")):
        model = mercer.fit({"x": x, "y": y}, "y", candidates=["linear"])
        found = honest.log_density(model, {"x": x}, y)
        assert found.shape == (60,)
        assert np.all(np.isfinite(found))
