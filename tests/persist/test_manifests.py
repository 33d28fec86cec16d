"""Hostile manifests: refused, whatever their digest."""

from __future__ import annotations

import json

import pytest

from mercer.persist import ModelFileError, load
from tests.persist.common import OWN, with_manifest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=3), "format 3"),
        (lambda m: m.update(format=True), "no format number"),
        (lambda m: m.pop("state") and None, "does not consist of"),
        (lambda m: m.update(extra=1), "does not consist of"),
        (lambda m: m.update(fortran=["sha256"]), "not there"),
        (lambda m: m.update(fortran=["arrays/fortran"] * 2), "twice"),
        (lambda m: m["state"].update(notes={"$array": "arrays/none"}), "malformed"),
        (lambda m: m["state"].update(notes={"$array": "sha256"}), "malformed"),
        (lambda m: m["state"].update(notes={"$float": "1e3"}), "malformed"),
        (lambda m: m["state"].update(notes={"$exec": "1"}), "malformed"),
        (lambda m: m.update(state={}), "'arrays/alpha' is not part of such a model"),
        (lambda m: m["state"].pop("notes") and None, "do not fit together"),
        (lambda m: m["state"]["arrays"].update(more={"$array": "arrays/alpha"}), "malformed"),
        (lambda m: "[]", "no format number"),
        (lambda m: "", "not valid JSON"),
        (lambda m: '{"format": 1, "format": 1}', "twice"),
        (lambda m: '{"format": NaN}', "NaN"),
        (lambda m: '{"format": -Infinity}', "Infinity"),
        (lambda m: '{"format": 1e999}', "1e999"),
        (lambda m: "9" * 5000, "not valid JSON"),
        (lambda m: "[" * 100_000, "nested too deeply|not valid JSON"),
        (lambda m: json.dumps({**m, "state": {"x": json.loads("[" * 90 + "]" * 90)}}), "deeply"),
    ],
)
def test_hostile_manifests(saved, change, message):
    with pytest.raises(ModelFileError, match=message):
        load(with_manifest(saved, change), parts=OWN)
