"""Pages of the papers: written from what is stored, with small pictures, and figures that recur."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAPERS, PAGES = ROOT / "papers", ROOT / "docs" / "papers"
LARGEST = 80_000  # bytes of a picture


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module


def stored(name: str, folder: Path = PAPERS) -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("script", "figures", "written"),
    [
        ("thesis_figures", "thesis_figures", "thesis_figures"),
        ("gpml_figures", "gpml_figures", "gpml_figures"),
        ("loo_bound", "loo_bound", "loo_bound"),
        ("usps_contours", "usps_contours", "gpml_usps"),
        ("usps_ten", "usps_ten", "usps_ten"),
    ],
)
def test_a_page_is_that_of_the_stored_run(module, script, figures, written) -> None:
    text = (PAGES / f"{written}.md").read_text(encoding="utf-8")
    assert text == module(script).page(stored(figures))


def test_the_page_of_the_thesis(module) -> None:
    tables = module("thesis_tables")
    store = tables.load(str(PAPERS / "thesis_tables.jsonl"))
    counted = tables.load(str(PAPERS / "thesis_support.jsonl"))
    written = (PAGES / "thesis_tables.md").read_text(encoding="utf-8")
    assert written == module("_thesis_page").page(store, counted)


def test_pictures_are_there_and_small() -> None:
    shown = {
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"!\[[^]]*\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8"))
    }
    there = {path.name: path.stat().st_size for path in PAGES.glob("*.png")}
    assert shown == set(there)
    assert max(there.values()) < LARGEST, there


def close(found: dict, known: dict) -> None:
    assert found.keys() == known.keys()
    for key, value in known.items():
        if isinstance(value, dict):
            close(found[key], value)
        else:
            assert found[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key


def test_figures_of_the_thesis(module) -> None:
    script = module("thesis_figures")
    found = script.figures()
    close(
        {k: v for k, v in found.items() if k not in ("logistic", "hinge")},
        {k: v for k, v in stored("thesis_figures").items() if k not in ("logistic", "hinge")},
    )
    assert found["largest W"] == 0.25
    assert found["logistic"] < 1e-8  # sigma(-t y), the weight of a row in a Gaussian process
    assert found["hinge"] < 1e-8  # 1 inside the margin, 0 beyond
    assert 0 == found["zero of the process"] < found["zero"] < found["points"]
    for C in ("1", "2", "5"):
        assert found["closest"][C]["normalised hinge"] > 0.85


def test_figures_of_gpml(module) -> None:
    found = module("gpml_figures").figures()
    close(found, stored("gpml_figures"))
    assert found["margin"] == pytest.approx(found["hulls"], rel=1e-6)
    assert found["margin"] > found["other margin"]
    assert found["mass"] == pytest.approx(found["mass by (6.40)"])
    assert found["mass of the loss"] == pytest.approx(found["mass"])


def test_ten_digits_on_a_few_rows(module, monkeypatch, tmp_path) -> None:
    """A grid of one point has what the machine itself gives there."""
    from mercer import GPClassifier
    from mercer.kernels import RBF

    X, y = np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 10
    monkeypatch.setattr(module("usps_3v5"), "read", lambda name: (X, y, X[30:], y[30:]))
    script, at = module("usps_ten"), tmp_path / "ten.json"
    assert script.main(["--rows", "30", "--tests", "3", "--points", "1", "--json", str(at)]) == 0
    found = stored("ten", tmp_path)
    assert (found["rows"], found["tests"]) == (30, 3)
    scale, amplitude = np.exp(found["scales"][-1]), np.exp(found["amplitudes"][0])
    kernel = float(amplitude**2) * RBF(float(scale))
    model = GPClassifier(kernel, inference="laplace", search=None, standardize=False)
    evidence = model.fit(X[:30], y[:30]).log_evidence_
    assert found["laplace"]["log evidence"][0][-1] == pytest.approx(evidence, abs=1e-4)
    assert 0.0 <= found["entropy"] <= np.log2(10.0)
    assert np.max(found["laplace"]["bits"]) <= found["entropy"]


@pytest.mark.slow
def test_pictures_are_drawn(module, tmp_path) -> None:
    for name in ("thesis_figures", "gpml_figures"):
        module(name).draw(str(tmp_path / f"{name}.png"))
    module("usps_contours").draw(stored("usps_contours"), str(tmp_path / "usps.png"))
    module("usps_ten").draw(stored("usps_ten"), str(tmp_path / "ten.png"))
    module("loo_bound").main(["--no-run", "--out", str(tmp_path / "bound.png")])
    found = stored("rvm_vs_svm", PAGES)
    module("rvm_vs_svm").draw(found, tmp_path / "vectors.png")
    assert all(p.stat().st_size > 5_000 for p in tmp_path.glob("*.png"))
    assert len(list(tmp_path.glob("*.png"))) == 6


@pytest.mark.slow
def test_pictures_of_the_thesis_are_drawn(module, tmp_path) -> None:
    store = module("thesis_tables").load(str(PAPERS / "thesis_tables.jsonl"))
    module("_thesis_pictures").draw(store, str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {"thesis_boxes.png", "thesis_relevance.png"}


def test_support_vectors_of_a_cell(module, data_folder) -> None:
    """Crabs by cross-validation: counts by another program, and the errors of the store."""
    from sklearn.svm import SVC

    tables, support = module("thesis_tables"), module("_thesis_support")
    store = tables.load(str(PAPERS / "thesis_tables.jsonl"))
    counted = tables.load(str(PAPERS / "thesis_support.jsonl"))
    cell = tables.Cell("crabs", 1, "svm", "no")
    _, found, _ = support.work(cell, store[cell])
    assert found == counted[cell]
    X, y, _, _ = module("_thesis_data").split("crabs", 1)
    row = store[cell]
    other = SVC(C=row["C"], gamma=row["w"][0] / 10, tol=1e-8).fit(X, y)
    shares = np.abs(other.dual_coef_[0]) / row["C"]
    bound = int(np.sum(shares > 1 - 1e-6))
    assert (found["bound"], found["essential"]) == (bound, len(shares) - bound)
    for cell, one in counted.items():  # the machine is that of the store
        key = "err" if cell.method == "svm" else "err_mode"
        assert abs(one["err"] - store[cell][key]) <= 2, cell


def test_inputs_that_are_kept(module) -> None:
    store = module("thesis_tables").load(str(PAPERS / "thesis_tables.jsonl"))
    kept = module("_thesis_relevance").kept
    crabs = kept(store, "crabs")
    assert (np.flatnonzero(crabs >= 0.75) + 1).tolist() == [2, 3]  # as the thesis reports
    assert np.all(kept(store, "pima-ripley")[[2, 3]] <= 0.25)
    by_hand = [
        np.array(row["w"]) >= 0.01 * max(row["w"])
        for cell, row in store.items()
        if cell.data == "crabs"
        and cell.variant == "no"
        and cell.method in ("lap", "vbgp", "vbsvm", "ep")
    ]
    np.testing.assert_allclose(crabs, np.mean(by_hand, axis=0))
