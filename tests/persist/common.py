"""What the tests of model files share: a small machine, and a way to forge files."""

from __future__ import annotations

import contextlib
import hashlib
import json

from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from mercer.core.component import Component
from mercer.persist import ModelFileError, container


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
        return {"part": self.part.to_dict(), "notes": self.notes_, "arrays": self.arrays_}

    @classmethod
    def _from_state(cls, state, resolve):
        part = Component.from_dict(state["part"], resolve)
        return cls(part).fit(state["arrays"], state["notes"])


OWN = [Bump, Machine]


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


def forged(whole, draw, path):
    """Write a file with up to three characters of its header changed, and digests that fit."""
    raw = bytearray(whole)
    length = int.from_bytes(raw[:8], "little")
    for _ in range(draw(st.integers(1, 3))):
        raw[draw(st.integers(8, 7 + length))] = draw(st.sampled_from(b'0123459.-,:[]"ae'))
    path.write_bytes(bytes(raw))
    with contextlib.suppress(ModelFileError), open(path, "r+b") as file:
        contents = container.open_contents(file)
        digest = container.digest_of(contents)
        file.seek(contents.start + contents.table["sha256"].begin)
        file.write(digest)
    return path
