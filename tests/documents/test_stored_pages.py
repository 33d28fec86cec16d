"""Pages that are written from stored figures: the benchmarks and the index of papers."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stored(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("stored")


def benchmark_row(what, who, **given):
    row = {"what": what, "who": who, "value": None, "unit": "", "bar": "", "seconds": None}
    return row | {"quality": {}, "note": "", "verdict": ""} | given


@pytest.mark.parametrize("suite", ["gpr", "gpc", "svc", "svr", "rvm", "tables", "new"])
def test_rows_of_every_suite_have_their_place_on_the_page(suite, stored, tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.setattr(stored, "HERE", tmp_path)
    rows = [
        benchmark_row("machine", "", note="mercer 0.1.0; a machine"),
        benchmark_row("fit, n = 9", "mercer", seconds=0.25, quality={"|gradient|": 1e-3}),
        benchmark_row(
            "fit, n = 9",
            "peer",
            seconds=1.0,
            value=4.0,
            unit="x slower",
            bar=">= 5",
            verdict="FAIL",
        ),
        benchmark_row("memory", "mercer", value=1.5, unit="n^2", bar="<= 3", verdict="PASS"),
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stored.take(suite, file, f"python benchmarks/run.py {suite}", ["A remark."])
    page = stored.benchmarks_page()
    title = stored.TITLES.get(suite, suite)
    assert f"| {title} | 2 | 1 | **1** |" in page
    assert f"## {title}\n\n    python benchmarks/run.py {suite}\n" in page
    assert r"| fit, n = 9 | mercer | 0.25 |  |  | \|gradient\| 0.001 |" in page
    assert "| fit, n = 9 | peer | 1 | 4 x slower | >= 5 **missed** |  |" in page
    assert r"| memory | mercer |  | 1.5 n^2 | \<= 3 |  |" in page
    assert "**1 of 2 bars missed**: fit, n = 9 (peer): 4 x slower, bar >= 5.\n\nA remark." in page
    assert "; mercer 0.1.0; a machine." in page


def test_verdicts_in_words(stored):
    row = benchmark_row("fit", "mercer", value=1.0, unit="s", bar="<= 2", verdict="PASS")
    assert stored._verdict([row]) == "All 1 bars were met."
    assert stored._verdict([benchmark_row("fit", "mercer")]) == "No bars were set for these rows."


def test_what_is_no_benchmark_is_not_stored(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "HERE", tmp_path)
    for text in ('{"what": "fit"}\n', json.dumps(benchmark_row("machine", "")) + "\n"):
        (tmp_path / "rows.jsonl").write_text(text)
        with pytest.raises(SystemExit, match="has no rows as benchmarks/run"):
            stored.take("gpr", tmp_path / "rows.jsonl", "run.py gpr", [])


@pytest.mark.parametrize(
    ("name", "store", "picture"),
    [
        ("rvm_vs_svm", "docs/papers/rvm_vs_svm.json", []),
        (
            "jaakkola_haussler_sequential",
            "papers/jaakkola_haussler_sequential.json",
            ["jaakkola_haussler_sequential.png"],
        ),
    ],
)
def test_pages_of_papers_are_those_of_the_stored_runs(name, store, picture, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "papers"))
    figures = json.loads((ROOT / store).read_text(encoding="utf-8"))
    page = importlib.import_module(name).page(figures, *picture)
    assert (ROOT / f"docs/papers/{name}.md").read_text(encoding="utf-8") == page


def test_no_figure_of_mercer_is_typed_into_the_index():
    """What is in braces comes from what the scripts stored."""
    index = json.loads((ROOT / "docs/papers/index.json").read_text(encoding="utf-8"))
    rows = [row for paper in index["papers"] for row in paper["rows"]]
    for row in rows:
        words = re.sub(r"\{[^}]*\}", "", row["ours"])
        assert not re.search(r"\d", words), row["ours"]
    assert sum("{" in row["ours"] for row in rows) > 30
