"""A file holds the machine to the last bit, and says what it is."""

from __future__ import annotations

import numpy as np

import mercer
from mercer.persist import describe, load, save
from tests.persist.common import OWN


def test_round_trip_keeps_every_bit(machine, saved):
    again = load(saved, parts=OWN)
    assert again.part == machine.part
    assert set(again.arrays_) == set(machine.arrays_)
    for name, array in machine.arrays_.items():
        other = again.arrays_[name]
        assert other.dtype == array.dtype
        assert other.shape == array.shape
        assert other.tobytes() == array.tobytes()
    assert again.arrays_["fortran"].flags.f_contiguous
    assert list(again.notes_["names"]) == ["a", "é"]
    assert again.notes_["$odd"] == 1
    assert np.isnan(again.notes_["nan"])


def test_the_same_model_gives_the_same_file(machine, saved, tmp_path):
    save(machine, tmp_path / "twice.mercer")
    assert (tmp_path / "twice.mercer").read_bytes() == saved.read_bytes()


def test_safetensors_itself_reads_the_file(machine, saved):
    from safetensors.numpy import load_file

    tensors = load_file(saved)
    np.testing.assert_array_equal(tensors["arrays/alpha"], machine.arrays_["alpha"])
    assert tensors["sha256"].tobytes().hex() == describe(saved)["sha256"]


def test_describe(saved):
    about = describe(saved)
    assert about["format"] == 2
    assert about["mercer"] == mercer.__version__
    assert about["bytes"] == saved.stat().st_size
    assert about["tensors"]["arrays/alpha"] == [5, 2]
