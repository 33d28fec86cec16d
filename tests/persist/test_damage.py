"""Damaged files: every truncation and every flipped byte is noticed."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercer.persist import ModelFileError, container, load
from tests.persist.common import OWN, Machine


def test_every_truncation_is_noticed(saved):
    raw = saved.read_bytes()
    for length in [*range(0, len(raw), 37), len(raw) - 1]:
        saved.write_bytes(raw[:length])
        with pytest.raises(ModelFileError, match="cannot be loaded"):
            load(saved, parts=OWN)
    saved.write_bytes(raw + b"\0")
    with pytest.raises(ModelFileError, match="something was added"):
        load(saved, parts=OWN)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_flipped_bytes_are_noticed(saved, data):
    raw = bytearray(saved.read_bytes())
    intact = bytes(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    copy = saved.with_suffix(".damaged")
    copy.write_bytes(bytes(raw))
    if bytes(raw) == intact:
        load(copy, parts=OWN)
    else:
        with pytest.raises(ModelFileError, match="cannot be loaded"):
            load(copy, parts=OWN)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_forged_digests_get_no_further(saved, data):
    """Damage whose digest was made to fit: an error of ours or a model, never another error."""
    raw = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 33))
        raw[place] = data.draw(st.integers(0, 255))
    copy = saved.with_suffix(".forged")
    copy.write_bytes(bytes(raw))
    with contextlib.suppress(ModelFileError), open(copy, "r+b") as file:
        contents = container.open_contents(file)
        digest = container.digest_of(contents)
        file.seek(contents.start + contents.table["sha256"].begin)
        file.write(digest)
    with contextlib.suppress(ModelFileError):
        assert isinstance(load(copy, parts=OWN), Machine)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.mercer")
