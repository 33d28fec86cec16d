"""Mutations of a model file: bytes, the table of tensors, arrays, and values of the manifest.

A mutation is a function of a generator and a file; what it changed is said in words, so that a
failure can be read. Digests are made to fit again by all but :func:`damaged`.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass

import numpy as np

from tests.persist.common import craft, parse

CODES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
NAMES = {np.dtype(code): name for name, code in CODES.items()}
NUMBERS = (0.0, -1.0, -0.0, 0.5, 1e300, -1e300, 5e-324, 1e-300, 1e16, -3.7, np.nan, np.inf, -np.inf)
VALUES = (
    None, True, False, 0, 1, -1, 2, 3, 7, 24, 64, 10**6, 2**31, 2**63, -(2**63), 10**400, 0.0, -0.0,
    0.5, -2.5, 1e-300, 1e16, 1e300, 1.7e308, "", "a", "down", "rbf", "auto", "linear", "ep", "loo",
    "losses.Gaussian", "kernels.RBF", "kernels.Linear", "basis.PolynomialBasis", "inference.EP",
    "search.HMC", "é" * 300, [], [0], [1.0, 2.0], ["a", "b"], [[1]], [None], {}, {"a": 1},
    {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, {"$array": "nothing"},
    {"$text": ["a"], "kind": "U"}, {"$text": [], "kind": "O"}, {"$pairs": [["a", 1]]},
    {"pairs": [["up", 2.0]]}, {"part": {"class": "kernels.RBF", "params": {}, "marks": {}}},
)  # fmt: skip


@dataclass
class Model:
    """A model file in pieces: the manifest and the arrays, of which files are made."""

    manifest: dict
    arrays: dict

    def write(self, path):
        header, data, position = {"__metadata__": {"mercer": json.dumps(self.manifest)}}, b"", 0
        for name, array in [*self.arrays.items(), ("sha256", np.zeros(32, np.uint8))]:
            end = position + array.nbytes
            kind = NAMES[array.dtype.newbyteorder("<")]
            header[name] = {"dtype": kind, "shape": [*array.shape], "data_offsets": [position, end]}
            data += np.ascontiguousarray(array).tobytes()
            position = end
        craft(path, header, data)


def opened(path):
    header, data = parse(path)
    manifest = json.loads(header.pop("__metadata__")["mercer"])
    arrays = {}
    for name, entry in header.items():
        if name != "sha256":
            begin, end = entry["data_offsets"]
            kind = CODES[entry["dtype"]]
            arrays[name] = np.frombuffer(data[begin:end], kind).reshape(entry["shape"]).copy()
    return Model(manifest, arrays)


# ---------------------------------------------------------------------- bytes
def damaged(rng, good, path):
    """Accidental damage: the digest does not fit."""
    raw = bytearray(good)
    place, length = int(rng.integers(len(raw))), int(rng.integers(1, 64))
    what = ("flipped", "cut", "grown", "wiped", "doubled", "moved")[rng.integers(6)]
    if what == "flipped":
        raw[place] ^= 1 << int(rng.integers(8))
    elif what == "cut":
        del raw[place:]
    elif what == "grown":
        raw += bytes(length)
    elif what == "wiped":
        raw[place : place + length] = bytes(len(raw[place : place + length]))
    elif what == "doubled":
        raw[place:place] = raw[place : place + length]
    else:
        piece = raw[place : place + length]
        del raw[place : place + length]
        other = int(rng.integers(len(raw) + 1))
        raw[other:other] = piece
    path.write_bytes(bytes(raw))
    return f"{what} at byte {place}, {length} long"


def forged(rng, good, path):
    """Some characters of the header are others, with a digest that fits where one can."""
    path.write_bytes(good)
    header, data = parse(path)
    text = bytearray(json.dumps(header).encode())
    said = []
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(text)))
        text[place] = b'0123459.-,:[]{}"aeE$'[rng.integers(20)]
        said.append(bytes(text[max(0, place - 30) : place + 20]).decode(errors="replace"))
    try:
        header = json.loads(bytes(text))
        craft(path, header, data)
    except (ValueError, KeyError, TypeError, IndexError):
        craft(path, bytes(text), data)
    return f"header characters near {said}"


# ---------------------------------------------------------------------- the table of tensors
def retold(rng, good, path):
    """A tensor is said to be of another type, shape or place, or has another name."""
    path.write_bytes(good)
    header, data = parse(path)
    names = [name for name in header if name not in ("__metadata__", "sha256")]
    name = names[rng.integers(len(names))]
    entry = header[name]
    what = ("dtype", "shape", "data_offsets", "name", "swap", "extra")[rng.integers(6)]
    if what == "dtype":
        entry["dtype"] = [*CODES, "F16", None][rng.integers(8)]
    elif what == "shape":
        shape = entry["shape"]
        count = int(np.prod(shape))
        entry["shape"] = [
            shape[::-1], [count], [count, 1], [1, count], [*shape, 1], shape[1:], [-1, *shape],
            [s * 2 for s in shape], [2**40], None,
        ][rng.integers(10)]  # fmt: skip
    elif what == "data_offsets":
        entry["data_offsets"][rng.integers(2)] += int(rng.choice([-8, 8, -1, 1, 2**40]))
    elif what == "name":
        header[["nothing", "", "é", names[0]][rng.integers(4)]] = header.pop(name)
    elif what == "swap":
        other = names[rng.integers(len(names))]
        header[name], header[other] = header[other], header[name]
    else:
        entry["more"] = 1
    try:
        craft(path, header, data)
    except (TypeError, KeyError):
        craft(path, json.dumps(header).encode(), data)
    return f"tensor {name}: {what} {header.get(name)}"


# ---------------------------------------------------------------------- arrays
def spoilt(rng, good, path):
    """An array has other values, another type or another shape."""
    model = _copy(good, path)
    if not model.arrays:
        return replaced(rng, good, path)
    name = [*model.arrays][rng.integers(len(model.arrays))]
    array = model.arrays[name]
    said = _values(rng, array) if array.size and rng.random() < 0.6 else ""
    if not said:
        said, model.arrays[name] = _form(rng, array)
    model.write(path)
    return f"array {name} {array.shape}: {said}"


def _values(rng, array):
    """Change values in place; return what was done."""
    flat = array.reshape(-1)
    if array.dtype.kind == "b":
        flat[...] = ~flat
        return "all the other way round"
    whole = array.dtype.kind != "f"
    number = NUMBERS[rng.integers(len(NUMBERS))]
    if whole:
        number = int(rng.choice([0, 1, -1, 5, 10**6, 2**62, -(2**62)])) % 2 ** (
            8 if array.dtype.kind == "u" else 63
        )
    what = ("one", "all", "row", "sign", "scale", "shuffle", "bit")[rng.integers(7)]
    place = int(rng.integers(array.size))
    if what == "one":
        flat[place] = number
    elif what == "all":
        flat[...] = number
    elif what == "row":
        array[rng.integers(len(array)) if array.ndim else ...] = number
    elif what == "sign":
        flat[...] = -flat if not whole else flat[::-1].copy()
    elif what == "scale":
        factor = 3 if whole else float(rng.choice([1e-200, 1e-5, 3.0, 1e5, 1e100, 1e160, 1e200]))
        with np.errstate(over="ignore"):
            flat *= np.asarray(factor, array.dtype)
        number = factor
    elif what == "shuffle":
        rng.shuffle(flat)
    else:
        raw = flat[place : place + 1].view(np.uint8)
        raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
    return f"{what} {number}"


def _form(rng, array):
    if rng.random() < 0.3:
        kind = [*CODES.values()][rng.integers(6)]
        with np.errstate(invalid="ignore"):
            return f"of type {kind}", array.astype(kind)
    axis = int(rng.integers(array.ndim)) if array.ndim else 0
    forms = {"another axis": array[..., None], "flat": array.ravel(), "none": array[:0].ravel()}
    if array.ndim:
        forms |= {
            "longer": np.concatenate([array, array], axis),
            "shorter": np.delete(array, slice(0, 1), axis),
            "empty": array.take(np.arange(0), axis),
            "transposed": array.T,
            "the first": array.take([0], axis) if array.shape[axis] else array,
        }
    name = [*forms][rng.integers(len(forms))]
    return f"{name}, axis {axis}", forms[name]


# ---------------------------------------------------------------------- values of the manifest
def _places(value, place=()):
    """Yield the place of every value inside, as a tuple of keys."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, one in inside:
        yield (*place, key)
        yield from _places(one, (*place, key))


def _at(value, place):
    for key in place:
        value = value[key]
    return value


def _chosen(rng, manifest):
    """Return a place; the values of long lists are not chosen more often than the rest."""
    every = [p for p in _places(manifest) if p[0] in ("state", "estimator", "fortran")]
    by_name = {}
    for place in every:
        by_name.setdefault(tuple(k for k in place if isinstance(k, str)), []).append(place)
    places = [*by_name.values()][rng.integers(len(by_name))]
    return places[rng.integers(len(places))]


def replaced(rng, good, path):
    """A value of the manifest is another one, from a list or from elsewhere in it."""
    model = _copy(good, path)
    place = _chosen(rng, model.manifest)
    owner, key = _at(model.manifest, place[:-1]), place[-1]
    old = owner[key]
    number = isinstance(old, (int, float)) and not isinstance(old, bool)
    if number and rng.random() < 0.5:
        new = old * float(rng.choice([0.5, -1.0, 1e3, 1e200, 1e-200, 0.0]))
        owner[key] = round(new) if isinstance(old, int) else new
        if owner[key] in (np.inf, -np.inf):
            owner[key] = 1.7e308
    elif rng.random() < 0.3:
        owner[key] = copy.deepcopy(_at(model.manifest, _chosen(rng, model.manifest)))
    else:
        owner[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    model.write(path)
    return f"{_told(place)}: {old!r:.60} -> {owner[key]!r:.60}"


def swapped(rng, good, path):
    """Two values of the manifest change places."""
    model = _copy(good, path)
    a, b = _chosen(rng, model.manifest), _chosen(rng, model.manifest)
    if a[: len(b)] != b[: len(a)]:  # neither inside the other
        first, second = _at(model.manifest, a), _at(model.manifest, b)
        _at(model.manifest, a[:-1])[a[-1]] = second
        _at(model.manifest, b[:-1])[b[-1]] = first
    model.write(path)
    return f"{_told(a)} <-> {_told(b)}"


def rearranged(rng, good, path):
    """A key or an element is left out, added, given twice or nested deeply."""
    model = _copy(good, path)
    place = _chosen(rng, model.manifest)
    owner, key = _at(model.manifest, place[:-1]), place[-1]
    what = ("gone", "added", "twice", "nested", "deep", "emptied")[rng.integers(6)]
    value = owner[key]
    if what == "gone":
        del owner[key]
    elif what in ("added", "twice") and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(value if what == "twice" else VALUES[rng.integers(40)]))
    elif what in ("added", "twice"):
        name = ("more", "$more", "class", "n_features_in_", "__class__", "params")[rng.integers(6)]
        owner[name] = copy.deepcopy(value)
    elif what == "nested":
        owner[key] = [value] if rng.random() < 0.5 else {"a": value}
    elif what == "deep":
        for i in range(int(rng.choice([30, 70, 300]))):
            value = [value] if i % 2 else {"a": value}
        owner[key] = value
    else:
        owner[key] = type(value)() if value is not None else []
    model.write(path)
    return f"{_told(place)}: {what}"


def _told(place):
    return ".".join(map(str, place))


def _copy(good, path):
    path.write_bytes(good)
    return opened(path)


MUTATIONS = (damaged, forged, retold, spoilt, spoilt, replaced, replaced, swapped, rearranged)
