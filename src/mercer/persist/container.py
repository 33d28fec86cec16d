"""The container: a safetensors file with a digest, written by the library, read with suspicion."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from mercer.persist.errors import ModelFileError
from mercer.persist.layout import DTYPES, Tensor, check_layout, tensor_of
from mercer.persist.strict import parse

MAX_HEADER = 8 << 20  # bytes; arrays live outside the header, so real ones stay far below
DIGEST = "sha256"
_CHUNK = 1 << 20

AnyArray = np.ndarray[Any, Any]
Arrays = dict[str, AnyArray]


class Contents(NamedTuple):
    """What the header of an open file says, checked against its real size."""

    file: BinaryIO
    manifest: str
    table: dict[str, Tensor]
    start: int


def write(path: str, manifest: str, tensors: Mapping[str, AnyArray]) -> None:
    """Write ``tensors`` (C order, one of :data:`DTYPES`) and the manifest's text to ``path``."""
    import safetensors

    if 2 * len(manifest) > MAX_HEADER:
        raise ValueError(f"this model's description has {len(manifest)} characters, too many")
    rows = {name: _stored(name, array) for name, array in tensors.items()}
    rows[DIGEST] = np.zeros(32, np.uint8)
    specs = {
        name: safetensors.TensorSpec(
            dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in rows.items()
    }
    safetensors.serialize_file(specs, path, metadata={"mercer": manifest})
    with open(path, "r+b") as file:
        contents = open_contents(file)
        digest = digest_of(contents)
        file.seek(contents.start + contents.table[DIGEST].begin)
        file.write(digest)


def open_contents(file: BinaryIO) -> Contents:
    """Read the header and check every size and offset it claims; allocate nothing else."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    first = file.read(8)
    if len(first) < 8:
        raise ModelFileError(f"it has {size} bytes, too few for a model file")
    length = int.from_bytes(first, "little")
    if length > size - 8:
        if file.read(1) != b"{":  # with which every header begins: a text, or some other file
            raise ModelFileError("it is not a model file as mercer.save and `mercer fit` write it")
        raise ModelFileError(f"its header claims {length} bytes, but the file has {size}")
    if length > MAX_HEADER:
        raise ModelFileError(f"its header claims {length} bytes; at most {MAX_HEADER} are allowed")
    header = parse(file.read(length), "header")
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("mercer"), str):
        raise ModelFileError("it is not a mercer model file (it has no manifest)")
    table = {name: tensor_of(name, entry) for name, entry in header.items()}
    if DIGEST not in table or table[DIGEST][:2] != (DTYPES["U8"], (32,)):
        raise ModelFileError("it has no SHA-256 digest")
    check_layout(table, size - 8 - length)
    return Contents(file, metadata["mercer"], table, 8 + length)


def verified(file: BinaryIO) -> Contents:
    """Return the contents of an open file whose digest is right."""
    contents = open_contents(file)
    row = contents.table[DIGEST]
    file.seek(contents.start + row.begin)
    if file.read(32) != digest_of(contents):
        raise ModelFileError("its contents do not fit its SHA-256 digest: it is damaged")
    return contents


def digest_of(contents: Contents) -> bytes:
    """SHA-256 of the whole file except the digest itself, a chunk at a time."""
    file, _, table, start = contents
    size = os.fstat(file.fileno()).st_size
    total = hashlib.sha256()
    for begin, end in ((0, start + table[DIGEST].begin), (start + table[DIGEST].end, size)):
        file.seek(begin)
        left = end - begin
        while left > 0:
            chunk = file.read(min(_CHUNK, left))
            if not chunk:
                raise ModelFileError("it became shorter while it was read")
            total.update(chunk)
            left -= len(chunk)
    return total.digest()


def read(contents: Contents) -> Arrays:
    """Return the tensors of verified contents, the digest left out, in C order."""
    return {name: _read(contents, name) for name in contents.table if name != DIGEST}


def _read(contents: Contents, name: str) -> AnyArray:
    row = contents.table[name]
    array = np.empty(row.shape, row.dtype)
    if array.size:
        raw = array.reshape(-1).view(np.uint8).data
        contents.file.seek(contents.start + row.begin)
        if contents.file.readinto(raw) != len(raw):  # type: ignore[attr-defined]  # it is buffered
            raise ModelFileError("it became shorter while it was read")
    if row.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise ModelFileError(f"tensor {name[:80]!r} holds more than true and false")
    return array


def _stored(name: str, array: AnyArray) -> AnyArray:
    known = {dtype.newbyteorder("="): dtype for dtype in DTYPES.values()}
    kind = array.dtype.newbyteorder("=")
    if kind not in known:
        raise TypeError(f"array {name!r} of type {kind} cannot be written to a model file")
    stored: AnyArray = np.array(array, known[kind], order="C", copy=None)
    return stored
