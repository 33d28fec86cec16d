"""The errata of the sources: corrected forms agree with the truth, printed ones do not."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

PAPERS = Path(__file__).resolve().parents[2] / "papers"
# four tables of the texts' errors: thesis, slides, GPML, Jaakkola & Haussler, Hou & Hero
ENTRIES = {"T": 34, "S": 11, "R": 20, "J": 14, "H": 19}


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PAPERS))
        yield importlib.import_module("errata")


@pytest.fixture(scope="module")
def found(script) -> dict:
    return script.checks()


def test_every_entry_has_words_and_a_kind(script) -> None:
    entries = [entry for source in script.sources() for entry in source["entries"]]
    names = [entry["id"] for entry in entries]
    assert Counter(name[0] for name in names) == ENTRIES
    assert len(set(names)) == sum(ENTRIES.values()) == 98
    for entry in entries:
        assert entry["kind"] in script.KINDS, entry["id"]
        assert entry["where"], entry["id"]
        assert entry["printed"] != entry["corrected"] != "", entry["id"]


def test_corrected_forms_agree_with_the_truth_and_printed_ones_do_not(found) -> None:
    compared = 0
    for name, check in found.items():
        truth = check["truth"]
        if np.isnan(truth):
            assert name == "T33"  # its truth is in the folder of data
            continue
        if check["corrected"] is not None:
            assert abs(check["corrected"] - truth) <= check["tol"], name
        if check["printed"] is not None:
            assert abs(check["printed"] - truth) > 3 * check["tol"], name
            compared += 1
    assert compared > 50


def test_stored_figures_are_those_of_a_run(script, found) -> None:
    stored = json.loads((PAPERS / "errata.json").read_text())
    known = {entry["id"] for source in script.sources() for entry in source["entries"]}
    assert set(stored) == set(found) <= known
    for name, check in stored.items():
        for key in ("truth", "printed", "corrected"):
            now = found[name][key]
            if now is None or np.isnan(now):
                continue
            loose = max(check["tol"], 1e-4 * abs(now))
            assert check[key] == pytest.approx(now, abs=loose), (name, key)


def test_ringnorm_has_the_distance_of_the_classes_that_is_named(script, data_folder) -> None:
    from _errata_check import EVIDENCE

    check = EVIDENCE["T33"]()
    assert abs(check.corrected - check.truth) <= check.tol
    assert abs(check.printed - check.truth) > 3 * check.tol


def test_the_page_is_that_of_the_stored_figures(script) -> None:
    stored = json.loads((PAPERS / "errata.json").read_text())
    written = PAPERS.parent / "docs" / "papers" / "errata.md"
    assert written.read_text(encoding="utf-8") == script.page(stored)
    assert "nan" not in written.read_text(encoding="utf-8").split()
