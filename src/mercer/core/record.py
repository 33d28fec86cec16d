"""Records: what a fitted estimator consists of is declared once, in its ``_record()``.

    "support_vectors_": Numbers("s d"), "dual_coef_": Numbers("k s"), "kernel_": PartOf(Kernel)

Writing, reading and checking follow from it, and so do the hostile files of the tests and the
tables of docs/model-files.md. All of a stored state is checked before any part of it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.component import Component
from mercer.core.kinds import (
    PLAIN,
    Kind,
    Plain,
    Record,
    Resolve,
    Sizes,
    Texts,
    check_doubles,
    fit_shape,
    item,
    stored_part,
)


class Maybe(Kind):
    """What may be missing: null for None, or with ``absent`` for an attribute that is not there."""

    def __init__(self, kind: Kind, *, absent: bool = False) -> None:
        self.kind, self.absent = kind, absent

    def write(self, value: Any) -> Any:
        return None if value is None else self.kind.write(value)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if stored is not None:
            self.kind.check(stored, sizes, place)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return None if stored is None else self.kind.read(stored, resolve)

    def told(self) -> str:
        return f"{self.kind.told()}; or null"

    def entries(self) -> Record:
        return self.kind.entries()


class Later(Maybe):
    """An entry that older files do not have: there it has the default."""

    def __init__(self, kind: Kind, default: Any = None) -> None:
        super().__init__(kind)
        self.default = default

    def told(self) -> str:
        return self.kind.told()


class Each(Kind):
    """A list (``make``: or tuple) of one kind, as many as the size says, at least ``least``."""

    def __init__(
        self, kind: Kind, size: str = "", *, least: int = 0, make: Callable[[Any], Any] = list
    ) -> None:
        self.kind, self.size, self.least, self.make = kind, size, least, make

    def write(self, value: Any) -> Any:
        return [self.kind.write(one) for one in value]

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not list or len(stored) < self.least:
            raise ValueError(f"{place} is not a list of at least {self.least}")
        if self.size:
            fit_shape((len(stored),), self.size, sizes, place)
        for i, one in enumerate(stored):
            self.kind.check(one, sizes, f"{place}.{i}")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return self.make([self.kind.read(one, resolve) for one in stored])

    def told(self) -> str:
        return f"list{f' of {self.size}' if self.size else ''}: {self.kind.told()}"

    def entries(self) -> Record:
        return self.kind.entries()


@dataclass(eq=False)
class Fields(Kind):
    """An object by its attributes: those of a dataclass, or of a class that is made of them."""

    make: Callable[..., Any]  # the class, called with the values by name; or any function of them
    record: Record  # the kinds of the attributes
    _: KW_ONLY
    own: str = ""  # letters that are sizes of this object alone
    parts: Callable[[Any], Mapping[str, Any]] | None = (
        None  # value -> its entries, if no attributes
    )

    def write(self, value: Any) -> Any:
        if self.parts is None:
            return {name: kind.write(getattr(value, name)) for name, kind in self.record.items()}
        values = self.parts(value)
        return {name: kind.write(values[name]) for name, kind in self.record.items()}

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        own = self.own.split()
        inside = {k: v for k, v in sizes.items() if k not in own}
        check_entries(self.record, stored, inside, place)
        sizes.update({k: v for k, v in inside.items() if k not in own})

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return self.make(**read_entries(self.record, stored, resolve))

    def told(self) -> str:
        return "the entries below it" if self.record else "empty"

    def entries(self) -> Record:
        return self.record


class One(Kind):
    """One of several kinds; ``name`` says which, by default the name of the value's class."""

    words = "one of the forms below it, by name"

    def __init__(self, kinds: Record, name: Callable[[Any], str] | None = None) -> None:
        self.kinds = kinds
        self.name = name or (lambda value: type(value).__name__)

    def write(self, value: Any) -> Any:
        name = self.name(value)
        if name not in self.kinds:
            raise TypeError(f"a {type(value).__name__} cannot be written to a model file")
        return {name: self.kinds[name].write(value)}

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not dict or len(stored) != 1 or not set(stored) <= set(self.kinds):
            raise ValueError(f"{place} is none of {', '.join(self.kinds)}")
        ((name, inside),) = stored.items()
        self.kinds[name].check(inside, sizes, place)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        ((name, inside),) = stored.items()
        return self.kinds[name].read(inside, resolve)

    def entries(self) -> Record:
        return self.kinds


def check_entries(record: Record, stored: Any, sizes: Sizes, place: str) -> None:
    """Refuse other entries than those of the record, or wrong ones."""
    if not isinstance(stored, Mapping):
        raise ValueError(f"{place or 'the state'} is a {type(stored).__name__}")
    needed = {name for name, kind in record.items() if not isinstance(kind, Later)}
    odd = sorted((needed - set(stored)) | (set(stored) - set(record)), key=str)
    if odd:
        word = "is missing" if odd[0] in needed else "is not part of such a model"
        what = f"{place or 'the state'} does not consist of {', '.join(record)}"
        raise ValueError(f"{what}: {odd[0]!s:.60} {word}")
    for name, kind in record.items():
        if name in stored:
            kind.check(stored[name], sizes, f"{place}.{name}" if place else name)


def read_entries(record: Record, stored: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Return the values of checked entries, with the defaults of those that are not there."""
    found = {}
    for name, kind in record.items():
        if name not in stored:
            assert isinstance(kind, Later)
            found[name] = kind.default
        elif stored[name] is not None or not (isinstance(kind, Maybe) and kind.absent):
            found[name] = kind.read(stored[name], resolve)
    return found


COLUMNS: Record = {
    "n_features_in_": Plain(int, 1, size="d"),
    "feature_names_in_": Maybe(Texts("d", array=True), absent=True),
}


class Recorded:
    """A fitted estimator that is its parameters and the attributes of ``_record``."""

    # types that a stored parameter may have, where it is not for the estimator alone to say
    _param_types: ClassVar[Mapping[str, tuple[type, ...]]] = {}

    @classmethod
    def _record(cls) -> Record:
        """Return the kind of each fitted attribute, in the order in which they are set."""
        raise NotImplementedError(f"{cls.__name__} does not state its record")

    def _restored(self) -> None:
        """Set what follows from the attributes that were read."""

    def _check_fitted(self) -> None:
        """Refuse attributes that do not belong together, before writing and after reading."""

    def _stored_params(self) -> dict[str, Any]:
        """Return the constructor's arguments as they are to be written."""
        return dict(self.get_params(deep=False))  # type: ignore[attr-defined]  # scikit-learn's

    @classmethod
    def _made(cls, params: dict[str, Any]) -> Self:
        """Return the estimator before it was fitted."""
        return cls(**params)

    def _state(self) -> dict[str, Any]:
        """Return the fitted estimator as plain values with arrays among them."""
        params = self._stored_params()
        if not isinstance(params.get("random_state"), (int, np.integer, type(None))):
            params["random_state"] = None  # a generator's state is not part of a model
        stored = {"params": {name: _param(value, name) for name, value in params.items()}}
        for name, kind in self._record().items():
            missing = isinstance(kind, Maybe) and kind.absent
            stored[name] = kind.write(getattr(self, name, None) if missing else getattr(self, name))
        self._check_stored(stored)  # what is written can be read
        self._check_fitted()
        return stored

    @classmethod
    def _check_stored(cls, stored: Any) -> Sizes:
        """Refuse a state that no such estimator can have written; return the sizes in it."""
        sizes: Sizes = {}
        if not isinstance(stored, Mapping) or type(stored.get("params")) is not dict:
            raise ValueError("the state has no params")
        names: Any = cls._get_param_names()  # type: ignore[attr-defined]  # scikit-learn's
        if not set(stored["params"]) <= set(names):  # one that was added since has its default
            raise ValueError("the parameters are not those of this estimator")
        check_doubles(stored["params"], "params")
        rest = {name: value for name, value in stored.items() if name != "params"}
        check_entries(cls._record(), rest, sizes, "")
        return sizes

    @classmethod
    def _from_state(cls, stored: Any, resolve: Resolve) -> Self:
        """Build the fitted estimator again; its predictions are bit-identical."""
        cls._check_stored(stored)
        params = {name: _given(value, resolve) for name, value in stored["params"].items()}
        for name, value in params.items():
            kinds = cls._param_types.get(name, (type(value),))
            part = isinstance(value, Component) and isinstance(value, kinds)
            if not part and type(value) not in kinds:  # what it may be the estimator knows
                raise ValueError(f"the parameter {name} is a {type(value).__name__}")
        fitted = cls._made(params)
        for name, value in read_entries(cls._record(), stored, resolve).items():
            setattr(fitted, name, value)
        fitted._restored()
        fitted._check_fitted()
        if hasattr(fitted, "summary"):  # a report must be one that can be shown
            str(fitted.summary())
        return fitted


class EstimatorOf(Kind):
    """A fitted estimator inside another one."""

    def __init__(self, estimator: type[Recorded]) -> None:
        self.estimator = estimator

    def write(self, value: Any) -> Any:
        return value._state()

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        self.estimator._check_stored(stored)

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return self.estimator._from_state(stored, resolve)

    def told(self) -> str:
        return f"the record of a {self.estimator.__name__}"


def _param(value: Any, name: str) -> Any:
    """Return a constructor's argument as plain values, parts, pairs and arrays."""
    if isinstance(value, Component):
        return {"part": stored_part(value)}
    if isinstance(value, Mapping):
        pairs = [[item(k), item(v)] for k, v in value.items()]
        odd = [one for pair in pairs for one in pair if not isinstance(one, PLAIN)]
        if odd:
            raise TypeError(f"{odd[0]!r} cannot be written to a model file")
        return {"pairs": pairs}
    if isinstance(value, (list, tuple)):
        return [_param(v, name) for v in value]
    value = item(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.asarray(value, dtype=np.float64)
    if value is None or isinstance(value, (*PLAIN, np.ndarray)):
        return value
    raise TypeError(
        f"{name}={value!r} cannot be written to a model file: only mercer's own parts and plain "
        "values can; wrap a function in a Component subclass of your own and pass that class to "
        "load(path, parts=[...])"
    )


def _given(value: Any, resolve: Resolve) -> Any:
    """Return the argument of :func:`_param`, or refuse what it cannot have written."""
    if isinstance(value, list):
        return [_given(v, resolve) for v in value]
    match value:
        case {"part": dict(part), **rest} if not rest:
            return Component.from_dict(part, resolve)
        case {"pairs": list(pairs), **rest} if not rest and all(
            type(pair) is list and [type(v) in PLAIN for v in pair] == [True, True]
            for pair in pairs
        ):
            return dict(map(tuple, pairs))
        case Mapping():
            raise ValueError("a parameter of the model is neither plain, a part nor plain pairs")
    return value
