"""The script on sequential discrimination: its streams, its machines on a few batches, its page."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from mercer.kernels import RBF, TFIDF
from tests.reference import manifold, med

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "papers"))
    return importlib.import_module("hou_hero")


@pytest.fixture
def data(script):
    return importlib.import_module("_hou_hero_data")


@pytest.fixture
def page(script):
    return importlib.import_module("_hou_hero_page")


# ---------------------------------------------------------------------- streams
def test_simulation_1_is_the_reference_stream(data) -> None:
    stream = data.simulation_1(0)
    batches, (Z, truth) = med.categorical_stream(0, 3)
    kernel = TFIDF().frozen(stream.batches[0][0])
    for (X, y, known), (F, labels) in zip(stream.batches[:3], batches, strict=True):
        np.testing.assert_allclose(kernel.features(X), F, atol=1e-14)
        np.testing.assert_array_equal(y, labels)
        assert known.all()
    np.testing.assert_allclose(kernel.features(stream.test[0]), Z, atol=1e-14)
    np.testing.assert_array_equal(stream.test[1], truth)


def test_simulation_2_is_a_ball_with_few_labels(data) -> None:
    stream = data.simulation_2(3, tests=20000)
    for X, y, known in stream.batches:
        assert np.linalg.norm(X, axis=1).max() <= 1.0 + 1e-12
        assert known.sum() == round(0.1 * len(y))
        assert set(y[known]) == {-1, 1}
    Z, truth = stream.test
    radius = np.linalg.norm(Z, axis=1)
    best = max(np.mean(np.where(radius < r, 1, -1) == truth) for r in np.linspace(0.5, 0.8, 31))
    assert best == pytest.approx(0.975, abs=0.004)
    X, y, known = stream.until(2)
    assert len(X) == sum(len(b[1]) for b in stream.batches[:3])
    assert stream.until(2, only=True)[2].all()


def test_isolet_has_24_groups_of_five_speakers(data, data_folder) -> None:
    stream = data.isolet()
    sizes = [len(y) for _, y, _ in stream.batches]
    assert sum(sizes) == 6238
    assert len(stream.test[1]) == 1559
    assert sorted(set(sizes)) == [259, 260]
    assert all(known.sum() == 52 for _, _, known in stream.batches)


def test_isolet_without_data_says_what_is_missing(data, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)
    with pytest.raises(SystemExit, match="set MERCER_DATA"):
        data.isolet()


# ---------------------------------------------------------------------- machines
@pytest.mark.parametrize("figure", ["1", "2", "2h"])
def test_every_machine_of_the_simulations(figure, script, monkeypatch) -> None:
    monkeypatch.setitem(script.QUICK, figure, 2)
    for cell in script.cells([figure], 1, None):
        row = script.work(cell, quick=True)[1]["accuracy"]
        assert len(row) == 2
        low = 0.4 if cell[1] == "averaged-moment" else 0.6  # its C is small for a first batch
        assert all(low < value <= 1.0 for value in row if value is not None), cell


@pytest.mark.parametrize("method", ["svm", "med", "lap", "exact", "landmarks-480", "full"])
def test_machines_of_isolet(method, script, data_folder, monkeypatch) -> None:
    """The first two groups are those of the long run, to the last test row but one."""
    monkeypatch.setitem(script.QUICK, "3", 2)
    row = script.work(("3", method, 0), quick=True)[1]["accuracy"]
    listed = importlib.import_module("_hou_hero_numbers").listed("3", method)
    tolerance = 0.012 if "landmarks" in method else 0.0015
    np.testing.assert_allclose(row, [listed[1], listed[2]], atol=tolerance)


@pytest.mark.parametrize("reading", ["smallest", "largest", "moment"])
def test_averaged_vectors_are_the_reference_values(reading, data) -> None:
    """Section 3.2 in three readings, on the small stream with values of its own."""
    averaged = importlib.import_module("_hou_hero_averaged")
    batches = [(X, y, y != 0.0) for X, y in manifold.reference_batches()]
    new = np.array([[0.3, -0.2], [-1.0, 0.5]])
    stream = data.Stream(batches, (new, np.ones(2)))
    found = list(averaged.decisions(RBF(1.0), reading, stream, 10.0, 0.5, 4, 0.5, new))
    assert len(found) == 3
    np.testing.assert_allclose(found[-1], manifold.AVERAGED[reading], atol=2e-8)


def test_quick_run_writes_page_and_picture(script, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(script.QUICK, "1", 2)
    target = tmp_path / "page.md"
    script.main(["--quick", "--figures", "1", "--methods", "med", "svm", "--page", str(target)])
    assert "Figure 1" in target.read_text()
    assert "| mercer | 1 |" in target.read_text()
    assert (tmp_path / "hou_hero_1.png").read_bytes().startswith(b"\x89PNG")
    assert "at the end" in capsys.readouterr().out


def test_a_store_is_continued(script, tmp_path, monkeypatch, capsys) -> None:
    store = tmp_path / "store.jsonl"
    row = {"figure": "2", "method": "svm", "seed": 0, "accuracy": [0.5] * 15}
    store.write_text(json.dumps(row) + "\n" + '{"figure": "2", "me')
    options = ["--figures", "2", "--methods", "svm", "--seeds", "1", "--store", str(store)]
    script.main(options)
    assert store.read_text().count("\n") == 1  # it was there: nothing was run
    with pytest.raises(SystemExit):
        script.main([*options, "--quick"])


# ---------------------------------------------------------------------- the stored run
def test_the_stored_run_meets_the_bars(script, page) -> None:
    store = script.load(str(ROOT / "papers" / "hou_hero.jsonl"))
    found = page.bars(store)
    assert len(found) == 7
    assert [what for what, _, fine in found if not fine] == []


def test_the_stored_run_agrees_with_the_listed_figures(script, page) -> None:
    """The same streams: to three digits, and the rounding of a test row in a thousand."""
    store = script.load(str(ROOT / "papers" / "hou_hero.jsonl"))
    listed = importlib.import_module("_hou_hero_numbers").listed
    for figure in ("1", "2", "2h", "3"):
        for method in script.FIGURES[figure]():
            found, other = page.means(store, figure, method), listed(figure, method)
            assert found is not None, (figure, method)
            for t, value in other.items():
                assert abs(found[0][t - 1] - value) <= 0.002, (figure, method, t)


def test_the_page_is_that_of_the_stored_run(script, page) -> None:
    store = script.load(str(ROOT / "papers" / "hou_hero.jsonl"))
    written = ROOT / "docs" / "papers" / "hou_hero.md"
    pictures = {figure: f"hou_hero_{figure}.png" for figure in page.TITLES}
    wide = page.trials(script.TRIALS)
    assert page.plain(wide) == json.loads(script.TRIALS.read_text(encoding="utf-8"))
    assert written.read_text(encoding="utf-8") == page.page(store, pictures, wide)
    for name in pictures.values():
        assert (written.parent / name).stat().st_size < 100_000
