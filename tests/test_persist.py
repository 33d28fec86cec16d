"""Model files: the round trip, and every way in which a file can be wrong."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

import mercer
from mercer.component import Component
from mercer.persist import ModelFileError, container, describe, load, replacing, save


class Bump(Component):
    """A part of one's own."""

    def __init__(self, width=1.0, centres=None, inner=None):
        self.width = width
        self.centres = centres
        self.inner = inner


class Machine(BaseEstimator):
    """The smallest object that model files know: one part, some arrays."""

    def __init__(self, part=None):
        self.part = part

    def fit(self, arrays, notes=None):
        self.arrays_ = arrays
        self.notes_ = notes or {}
        return self

    def _state(self):
        return {"part": self.part.to_dict(), "notes": self.notes_}, self.arrays_

    @classmethod
    def _from_state(cls, state, arrays, resolve):
        part = Component.from_dict(state["part"], resolve)
        return cls(part).fit(arrays, state["notes"])


OWN = [Bump, Machine]


@pytest.fixture
def machine():
    rng = np.random.default_rng(0)
    part = Bump(0.1, np.array([1.0, np.inf]), Bump(np.inf))
    arrays = {
        "alpha": rng.normal(size=(5, 2)),
        "fortran": np.asfortranarray(rng.normal(size=(4, 3))),
        "strided": rng.normal(size=(6, 4))[::2, ::2],
        "empty": np.empty((0, 3)),
        "scalar": np.array(3.5),
        "flags": np.array([True, False]),
        "counts": np.arange(3),
        "single": np.ones(2, np.float32),
    }
    notes = {"$odd": 1, "names": np.array(["a", "é"], dtype=object), "nan": np.nan, "deep": [[1]]}
    return Machine(part).fit(arrays, notes)


@pytest.fixture
def saved(machine, tmp_path):
    path = tmp_path / "model.mercer"
    save(machine, path)
    return path


def parse(path):
    """Header (dict) and data (bytes) of a model file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def craft(path, header, data, *, fit_digest=True):
    """Write header (dict, or raw bytes) and data, by default with a digest that fits."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw = bytearray(len(text).to_bytes(8, "little") + text + data)
    if fit_digest and isinstance(header, dict) and "sha256" in header:
        begin = 8 + len(text) + header["sha256"]["data_offsets"][0]
        rest = bytes(raw[:begin]) + bytes(raw[begin + 32 :])
        raw[begin : begin + 32] = hashlib.sha256(rest).digest()
    path.write_bytes(bytes(raw))
    return path


def with_manifest(path, change):
    """Rewrite the manifest by ``change(manifest)`` and make the digest fit again."""
    header, data = parse(path)
    manifest = json.loads(header["__metadata__"]["mercer"])
    text = change(manifest)
    text = json.dumps(manifest) if text is None else text
    header["__metadata__"]["mercer"] = text
    return craft(path, header, data)


# ---------------------------------------------------------------------- the round trip
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
    assert about["format"] == 1
    assert about["mercer"] == mercer.__version__
    assert about["bytes"] == saved.stat().st_size
    assert about["tensors"]["arrays/alpha"] == [5, 2]


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


# ---------------------------------------------------------------------- the registry is closed
def test_own_parts_must_be_handed_over(saved):
    with pytest.raises(ModelFileError, match=r"parts=\[Machine\]"):
        load(saved)
    with pytest.raises(ModelFileError, match=r"parts=\[Bump\]"):
        load(saved, parts=[Machine])


@pytest.mark.parametrize(
    "name",
    ["os.system", "kernels.os", "kernels.base.Kernel", "kernels.Kernel.mro", "builtins.eval", 3],
)
def test_a_file_cannot_name_other_code(saved, name):
    def change(manifest):
        manifest["state"]["part"]["class"] = name

    with pytest.raises(ModelFileError, match="cannot be loaded"):
        load(with_manifest(saved, change), parts=OWN)


@pytest.mark.parametrize("name", ["kernels", "load", "os", "__builtins__", "sklearn.svm.SVC", ""])
def test_a_file_cannot_name_other_estimators(saved, name):
    def change(manifest):
        manifest["estimator"] = name

    with pytest.raises(ModelFileError, match="an estimator"):
        load(with_manifest(saved, change), parts=OWN)


def test_unknown_parameters_are_refused(saved):
    def change(manifest):
        manifest["state"]["part"]["params"]["__class__"] = 1

    with pytest.raises(ModelFileError, match="do not fit together"):
        load(with_manifest(saved, change), parts=OWN)


# ---------------------------------------------------------------------- hostile manifests
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=2), "format 2"),
        (lambda m: m.update(format=True), "no format number"),
        (lambda m: m.pop("state") and None, "does not consist of"),
        (lambda m: m.update(extra=1), "does not consist of"),
        (lambda m: m.update(fortran=["sha256"]), "not there"),
        (lambda m: m.update(fortran=["arrays/fortran"] * 2), "twice"),
        (lambda m: m["state"].update(notes={"$array": "arrays/none"}), "malformed"),
        (lambda m: m["state"].update(notes={"$array": "sha256"}), "malformed"),
        (lambda m: m["state"].update(notes={"$float": "1e3"}), "malformed"),
        (lambda m: m["state"].update(notes={"$exec": "1"}), "malformed"),
        (lambda m: m.update(state={}), "do not fit together"),
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


# ---------------------------------------------------------------------- hostile headers
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


# ---------------------------------------------------------------------- damage
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


# ---------------------------------------------------------------------- real estimators
@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 100, size=(40, 3))
    return X, 50 + np.sin(X[:, 0] / 12) + 0.1 * rng.normal(size=40)


def test_gp_predictions_are_identical(table, tmp_path):
    X, y = table
    model = mercer.GPRegressor(random_state=0).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer")
    new = X[:7] + 1.0
    for mine, theirs in zip(
        model.predict(new, return_std=True), again.predict(new, return_std=True), strict=True
    ):
        assert mine.tobytes() == theirs.tobytes()
    assert again.log_evidence_ == model.log_evidence_
    assert again.kernel_ == model.kernel_
    assert again.get_params().keys() == model.get_params().keys()
    assert str(again.summary()) == str(model.summary())


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_forged_gp_files_get_no_further(gp_file, tmp_path, data):
    raw = bytearray(gp_file)
    length = int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(8, 7 + length))] = data.draw(st.sampled_from(b'0123459.-,:[]"ae'))
    path = tmp_path / "forged.mercer"
    path.write_bytes(bytes(raw))
    with contextlib.suppress(ModelFileError), open(path, "r+b") as file:
        contents = container.open_contents(file)
        digest = container.digest_of(contents)
        file.seek(contents.start + contents.table["sha256"].begin)
        file.write(digest)
    with contextlib.suppress(ModelFileError):
        assert isinstance(load(path), mercer.GPRegressor)


@pytest.fixture(scope="module")
def gp_file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("gp") / "gp.mercer"
    mercer.save(mercer.GPRegressor(search=None, basis="linear").fit(*table), path)
    return path.read_bytes()


@pytest.mark.parametrize("options", [{"basis": "linear"}, {"kernel": "matern32"}, {"search": None}])
def test_other_machines_survive(table, tmp_path, options):
    X, y = table
    model = mercer.GPRegressor(**options).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    for mine, theirs in zip(model.predict_interval(X), again.predict_interval(X), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_several_outputs_survive_to_the_bit(table, tmp_path):
    X, y = table
    for order in "CF":
        several = np.array(np.column_stack([y, -y, y**2]), order=order)
        model = mercer.GPRegressor(search=None, basis="linear").fit(X, several)
        mercer.save(model, tmp_path / "gp.mercer")
        again = mercer.load(tmp_path / "gp.mercer")
        assert again.predict(X).tobytes() == model.predict(X).tobytes()


def test_a_gp_with_an_own_kernel(table, tmp_path):
    from mercer.kernels import RBF

    own = type("OwnKernel", (RBF,), {"__module__": "somewhere.else"})
    X, y = table
    model = mercer.GPRegressor(own(20.0), search=None).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    with pytest.raises(ModelFileError, match=r"parts=\[OwnKernel\]"):
        mercer.load(tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer", parts=[own])
    assert again.predict(X).tobytes() == model.predict(X).tobytes()


def test_a_gp_with_a_bare_function_is_refused(table, tmp_path):
    X, y = table
    model = mercer.GPRegressor(basis=lambda X: X, search=None).fit(X, y)
    with pytest.raises(TypeError, match="bare function"):
        mercer.save(model, tmp_path / "gp.mercer")


def test_a_progress_function_is_not_part_of_a_model(table, tmp_path):
    from mercer.search import Optimize

    X, y = table
    seen = []
    search = Optimize(restarts=0, progress=seen.append)
    model = mercer.GPRegressor(search=search).fit(X, y)
    mercer.save(model, tmp_path / "gp.mercer")
    again = mercer.load(tmp_path / "gp.mercer")
    assert seen
    assert again.search == Optimize(restarts=0)
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
