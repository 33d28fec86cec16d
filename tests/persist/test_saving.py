"""What save refuses, and that it writes completely or not at all."""

from __future__ import annotations

import os

import numpy as np
import pytest

import mercer
from mercer.persist import container, replacing, save
from tests.persist.common import Bump, Machine


# ---------------------------------------------------------------------- what save refuses
def test_bare_functions_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"bare function.*Component"):
        save(Machine(Bump(inner=lambda x: x)).fit({}), tmp_path / "m.mercer")
    with pytest.raises(TypeError, match="cannot be written"):
        save(Machine(Bump()).fit({}, {"hook": print}), tmp_path / "m.mercer")
    assert os.listdir(tmp_path) == []


def test_foreign_objects_and_arrays_are_refused(tmp_path):
    with pytest.raises(TypeError, match="not a mercer estimator"):
        save(object(), tmp_path / "m.mercer")
    with pytest.raises(TypeError, match="complex128"):
        save(Machine(Bump()).fit({"z": np.zeros(2, complex)}), tmp_path / "m.mercer")
    with pytest.raises(TypeError, match="array of objects"):
        save(Machine(Bump()).fit({}, {"o": np.array([1, None])}), tmp_path / "m.mercer")
    assert os.listdir(tmp_path) == []


def test_a_part_may_not_borrow_a_reserved_name(tmp_path):
    impostor = type("Impostor", (Bump,), {"__module__": "kernels"})
    with pytest.raises(TypeError, match=r"'kernels\.Impostor', a name reserved"):
        save(Machine(impostor()).fit({}), tmp_path / "m.mercer")


def test_unfitted_is_refused(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        save(mercer.GPRegressor(), tmp_path / "m.mercer")


# ---------------------------------------------------------------------- writing is atomic
def test_a_failed_write_leaves_the_old_file(machine, saved, monkeypatch):
    before = saved.read_bytes()

    def broken(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(container, "digest_of", broken)
    with pytest.raises(OSError, match="no space"):
        save(machine, saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_an_interrupt_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "x"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_permissions_and_links_survive(machine, saved, tmp_path):
    saved.chmod(0o640)
    link = tmp_path / "link.mercer"
    link.symlink_to(saved)
    save(machine, link)
    assert link.is_symlink()
    assert saved.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_new_files_obey_the_umask(machine, tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)  # which is the whole process's: no thread may touch
        save(machine, tmp_path / "new.mercer")
        with replacing(tmp_path / "new.mercer") as temporary:
            assert os.stat(temporary).st_mode & 0o777 == 0o600
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (tmp_path / "new.mercer").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["new.mercer"]


def test_no_folder(machine, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save(machine, tmp_path / "nowhere" / "m.mercer")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        save(machine, tmp_path)
