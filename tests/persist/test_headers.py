"""Hostile headers: refused before anything is allocated."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from mercer.persist import ModelFileError, container, load
from tests.persist.common import OWN, craft, parse


def entry(header, **news):
    header["arrays/alpha"].update(news)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: entry(h, dtype="F16"), "dtype other than"),
        (lambda h: entry(h, dtype=["F64"]), "dtype other than"),
        (lambda h: entry(h, shape=[5, 3]), "does not fit its number of bytes"),
        (lambda h: entry(h, shape=[-5, -2]), "not counts"),
        (lambda h: entry(h, shape=[1 << 62, 1 << 62]), "not counts"),
        (lambda h: entry(h, shape=[1 << 61, 4]), "does not fit"),
        (lambda h: entry(h, shape=[10.0]), "not counts"),
        (lambda h: entry(h, shape=[True] * 2), "not counts"),
        (lambda h: entry(h, shape=[1] * 40), "not counts"),
        (lambda h: entry(h, shape="52"), "not counts"),
        (lambda h: entry(h, data_offsets=[0]), "not counts"),
        (lambda h: entry(h, data_offsets=[80, 0]), "does not fit"),
        (lambda h: entry(h, extra=1), "not described"),
        (lambda h: h.update({"arrays/alpha": 1}), "not described"),
        (lambda h: h.pop("sha256"), "no SHA-256 digest"),
        (lambda h: h.pop("__metadata__"), "no manifest"),
        (lambda h: h["__metadata__"].update(mercer=1), "no manifest"),
        (lambda h: h.update(x=dict(h["arrays/alpha"])), "overlaps"),
        (lambda h: h.pop("arrays/alpha"), "overlaps another one or leaves a gap"),
        (
            lambda h: h.update(
                x={"dtype": "F64", "shape": [1 << 40], "data_offsets": [0, 8 << 40]}
            ),
            "overlaps",
        ),
    ],
)
def test_hostile_headers(saved, change, message):
    header, data = parse(saved)
    change(header)
    with pytest.raises(ModelFileError, match=message):
        load(craft(saved, header, data), parts=OWN)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "no manifest"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "nested too deeply|not valid JSON"),
        (b"NaN", "NaN"),
        (b"null", "no manifest"),
    ],
)
def test_rubbish_headers(tmp_path, header, message):
    with pytest.raises(ModelFileError, match=message):
        load(craft(tmp_path / "m.mercer", header, b""))


def test_truth_values_are_zero_or_one(saved):
    header, data = parse(saved)
    begin = header["arrays/flags"]["data_offsets"][0]
    with pytest.raises(ModelFileError, match="true and false"):
        load(craft(saved, header, data[:begin] + b"\x07" + data[begin + 1 :]), parts=OWN)


def test_huge_claims_allocate_nothing(tmp_path):
    path = tmp_path / "m.mercer"
    claim = {"dtype": "F64", "shape": [1 << 50], "data_offsets": [0, 8 << 50]}
    digest = {"dtype": "U8", "shape": [32], "data_offsets": [8 << 50, (8 << 50) + 32]}
    header = json.dumps({"__metadata__": {"mercer": "{}"}, "a": claim, "sha256": digest}).encode()
    files = [
        (1 << 63).to_bytes(8, "little") + b"x" * 100,
        len(header).to_bytes(8, "little") + header + b"\0" * 32,
    ]
    for raw in files:
        path.write_bytes(raw)
        tracemalloc.start()
        with pytest.raises(ModelFileError, match="cannot be loaded"):
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


def test_an_oversized_header_is_not_read(tmp_path):
    path = tmp_path / "m.mercer"
    with open(path, "wb") as file:  # sparse: a real size, no real bytes
        file.write((container.MAX_HEADER + 1).to_bytes(8, "little"))
        file.truncate(container.MAX_HEADER + 100)
    with pytest.raises(ModelFileError, match="are allowed"):
        load(path)
