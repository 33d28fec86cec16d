"""The container: a safetensors file with a digest, replaced in one step, read with suspicion.

Every claim of its header is checked; its JSON has none of the tolerances of that format.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from mercer.core.errors import ModelFileError
from mercer.core.kinds import item

MAX_DEPTH = 64
MAX_HEADER = 8 << 20  # bytes; arrays live outside the header, so real ones stay far below
DIGEST = "sha256"  # a tensor of every file
CODES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in CODES.items()}
AnyArray = np.ndarray[Any, Any]
Arrays = dict[str, AnyArray]


class Tensor(NamedTuple):
    """One line of the table of tensors; ``begin`` and ``end`` count from the start of the data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def tensor_of(name: str, entry: Any) -> Tensor:
    """Return one line of the table from its JSON entry."""
    where = f"tensor {name[:80]!r}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"{where} is not described by dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        raise ModelFileError(f"{where} has a dtype other than {', '.join(DTYPES)}")
    if not (_counts(shape) and len(shape) <= 8 and _counts(offsets) and len(offsets) == 2):
        raise ModelFileError(f"{where} has a shape or offsets that are not counts")
    if math.prod(shape) * DTYPES[kind].itemsize != offsets[1] - offsets[0]:
        raise ModelFileError(f"{where} has a shape that does not fit its number of bytes")
    return Tensor(DTYPES[kind], tuple(shape), offsets[0], offsets[1])


def _counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in values)


def check_layout(table: Mapping[str, Tensor], available: int) -> None:
    """The tensors lie end to end and fill the rest of the file exactly."""
    position = 0
    for name, row in sorted(table.items(), key=lambda item: (item[1].begin, item[1].end)):
        if row.begin != position:
            raise ModelFileError(f"tensor {name[:80]!r} overlaps another one or leaves a gap")
        position = row.end
    if position != available:
        raise ModelFileError(
            f"its tensors need {position} bytes, but {available} follow the header: "
            "the file is truncated or something was added to it"
        )


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
    spec = safetensors.TensorSpec
    specs = {
        name: spec(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
        for name, a in rows.items()
    }
    try:
        safetensors.serialize_file(specs, path, metadata={"mercer": manifest})
    except safetensors.SafetensorError as error:  # which is no OSError, even if the disk is full
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
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
    if stored_digest(contents) != digest_of(contents):
        raise ModelFileError("its contents do not fit its SHA-256 digest: it is damaged")
    return contents


def stored_digest(contents: Contents) -> bytes:
    """Return the digest that stands in the file."""
    contents.file.seek(contents.start + contents.table[DIGEST].begin)
    return contents.file.read(32)


def digest_of(contents: Contents) -> bytes:
    """SHA-256 of the whole file except the digest itself, a chunk at a time."""
    file, _, table, start = contents
    size = os.fstat(file.fileno()).st_size
    total = hashlib.sha256()
    for begin, end in ((0, start + table[DIGEST].begin), (start + table[DIGEST].end, size)):
        file.seek(begin)
        left = end - begin
        while left > 0:
            chunk = file.read(min(1 << 20, left))
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


def parse(text: bytes | str, what: str) -> Any:
    """Return the value of a JSON text; no duplicate keys, no NaN or infinity, no bad UTF-8."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ModelFileError(f"its {what} names a key twice")
        return found

    def refuse(literal: str) -> Any:
        raise ModelFileError(f"its {what} contains {literal[:20]}, which is not a JSON number")

    def finite(literal: str) -> Any:
        value = float(literal)
        return value if math.isfinite(value) else refuse(literal)

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        hooks: dict[str, Any] = {"parse_constant": refuse, "parse_float": finite}
        return json.loads(decoded, object_pairs_hook=unique, **hooks)
    except ModelFileError:
        raise
    except RecursionError:
        raise ModelFileError(f"its {what} is nested too deeply") from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are both
        raise ModelFileError(f"its {what} is not valid JSON ({error})") from None


def laid_out(state: Any) -> tuple[Any, Arrays, list[str]]:
    """Return plain values as JSON values, the arrays in them, and which of these are transposed.

    A column-major array is stored as its transpose, so that BLAS meets the same layout again.
    """
    arrays: Arrays = {}
    encoded = encode(state, arrays)
    fortran = sorted(k for k, a in arrays.items() if a.flags.f_contiguous > a.flags.c_contiguous)
    return encoded, {name: a.T if name in fortran else a for name, a in arrays.items()}, fortran


def encode(value: Any, arrays: Arrays, place: str = "", depth: int = 0) -> Any:
    """Return plain values as JSON values; each array met is put into ``arrays`` by its place.

    What JSON lacks is spelled with a dollar key: ``{"$array": name}``, ``{"$float": "inf"}``,
    ``{"$text": [...]}`` for arrays of strings, ``{"$pairs": [[key, value], ...]}`` for a mapping
    whose own keys begin with a dollar.
    """
    if depth > MAX_DEPTH:
        raise ValueError("this model is nested too deeply for a model file")
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "UO":
            if value.ndim != 1 or not all(isinstance(v, str) for v in value):
                raise TypeError("an array of objects cannot be written to a model file")
            return {"$text": [str(v) for v in value], "kind": value.dtype.kind}
        name = place
        while name in arrays or name in ("", DIGEST):  # of keys that contain a slash
            name += "+"
        arrays[name] = value
        return {"$array": name}
    value = item(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [encode(v, arrays, f"{place}/{i}", depth + 1) for i, v in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        head = f"{place}/" if place else ""
        inside = {k: encode(v, arrays, head + k, depth + 1) for k, v in value.items()}
        return {"$pairs": [*map(list, inside.items())]} if _dollar(inside) else inside
    raise TypeError(
        f"a {type(value).__name__} cannot be written to a model file; wrap it in a Component "
        "subclass and pass that class to load(path, parts=[...])"
    )


def decode(value: Any, arrays: Arrays, depth: int = 0) -> Any:
    """Undo :func:`encode` (tuples stay lists); each array that is used is taken from ``arrays``."""
    if depth > MAX_DEPTH:
        raise ModelFileError("its manifest is nested too deeply")
    if isinstance(value, list):
        return [decode(v, arrays, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if not _dollar(value):
        return {k: decode(v, arrays, depth + 1) for k, v in value.items()}
    match value:
        case {"$array": str(name), **rest} if not rest and name in arrays:
            return arrays.pop(name)
        case {"$float": "nan" | "inf" | "-inf" as literal, **rest} if not rest:
            return float(literal)
        case {"$text": list(words), "kind": "U" | "O" as kind, **rest} if not rest and all(
            isinstance(w, str) for w in words
        ):
            return np.array(words, dtype=object if kind == "O" else str)
        case {"$pairs": list(pairs), **rest} if not rest and all(map(_is_pair, pairs)):
            return {k: decode(v, arrays, depth + 1) for k, v in pairs}
    raise ModelFileError(f"its manifest has a malformed entry {min(value)[:40]!r}")


def _dollar(value: Mapping[str, Any]) -> bool:
    return any(k.startswith("$") for k in value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file beside ``path``, which then takes its place.

    If the body fails, the temporary file is removed and ``path`` stays as it was. The new file has
    the permissions of the one it replaces, or those of any newly created file.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "greeting.txt")
    ...     with replacing(path) as temporary, open(temporary, "w") as file:
    ...         _ = file.write("hello")
    ...     os.listdir(folder)
    ['greeting.txt']
    """
    target = check_target(path)
    old = target if target.exists() else None
    temporary = _created(target.parent, private=old is not None)
    mode = stat.S_IMODE(os.stat(old or temporary).st_mode)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, mode)  # the body may have put another file in its place
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        known = (None, temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in known:
            error.filename, error.filename2 = os.fspath(path), None  # the name that the user knows
        raise
    if hasattr(os, "O_DIRECTORY"):  # the new name itself survives a crash, where the system can
        with contextlib.suppress(OSError):
            handle = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a file to be written, or say why it cannot be: before any work."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; a file name is needed")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{os.fspath(path)} is not an ordinary file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"the folder {target.parent} may not be written to")
    return target


def _created(folder: Path, *, private: bool) -> str:
    """Create an empty file of a new name; the system itself applies the process's umask."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    for _ in range(100):
        name = str(folder / f".mercer-{secrets.token_hex(8)}.part")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(name, flags, 0o600 if private else 0o666))
            return name
    raise FileExistsError(f"the folder {folder} says of 100 new names that they are taken")
