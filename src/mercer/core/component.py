"""Component: the parent of every part (kernel, loss, inference, search, prior).

A component is its constructor arguments, stored under their own names. From that alone follow
parameters as scikit-learn has them, ``repr``, equality, copies and the form in model files.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from mercer.core.words import there_is_no
from mercer.core.written import brief, exact, formula, written


@dataclass(frozen=True)
class Domain:
    """Where a differentiable parameter lives: the open interval (lower, upper).

    The search moves in a coordinate that is unconstrained: log for (0, inf), the value itself for
    the real line, the logit for a finite interval.
    """

    name: str
    lower: float
    upper: float


POSITIVE = Domain("positive", 0.0, np.inf)
REAL = Domain("real", -np.inf, np.inf)
UNIT = Domain("unit", 0.0, 1.0)


@dataclass(frozen=True)
class Mark:
    """What the user said about one parameter besides its value."""

    fixed: bool = False
    bounds: tuple[float, float] | None = None
    prior: Component | None = None


Names: TypeAlias = Mapping[str, Callable[[], "Component"]]
Domains: TypeAlias = Mapping[str, Domain]
Words: TypeAlias = Mapping[str, str]


class Component:
    """A part with parameters.

    Subclasses write an ``__init__`` that stores each argument under its own name, and name their
    differentiable parameters with their domain in ``domains``.

    Attributes
    ----------
    domains : differentiable parameters, and where each of them lives.
    words : what a parameter is to a reader, for summaries; a child says only what is new.
    names : under which names :meth:`by_name` makes which part. A class that says nothing has its
        own name in lower case with underscores; ``{}`` means none. Not inherited.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> RBF(length_scale=2.0)
    RBF(length_scale=2.0)
    >>> RBF(length_scale=2.0).fix().free
    {}
    """

    domains: ClassVar[Mapping[str, Domain]] = {}
    # where users find mercer's own class, if that is not the first folder of its module
    public_module: ClassVar[str | None] = None
    words: ClassVar[Mapping[str, str]] = {}
    names: ClassVar[Names] = {}
    before: ClassVar[Mapping[str, Any]] = {}  # what a parameter was before files had it
    _marks: dict[str, Mark]

    # ------------------------------------------------------------------ parameters
    @classmethod
    @cache  # a search asks at every step, and a signature is slow to read
    def parameter_names(cls) -> tuple[str, ...]:
        """Names of the constructor's arguments, in order."""
        if cls.__init__ is object.__init__:
            return ()
        return tuple(inspect.signature(cls.__init__).parameters)[1:]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep`` also the children's, as ``child__name``."""
        params = {name: getattr(self, name) for name in self.parameter_names()}
        if deep:
            for child, part in self.children().items():
                params |= {f"{child}__{name}": v for name, v in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names of :meth:`get_params`; return self."""
        own = self.parameter_names()
        for name, value in params.items():
            head, _, rest = name.partition("__")
            if name in own:
                setattr(self, name, value)
            elif rest and head in self.children():
                self.children()[head].set_params(**{rest: value})
            else:
                who, known = type(self).__name__, ", ".join(self.get_params()) or "none"
                raise ValueError(f"{who} has no parameter {name!r}; it has: {known}")
        return self

    def children(self) -> dict[str, Component]:
        """Components among the parameters: by name, or by position for a sequence of them."""
        found: dict[str, Component] = {}
        for name in self.parameter_names():
            value = getattr(self, name)
            if isinstance(value, Component):
                found[name] = value
            elif isinstance(value, (list, tuple)):
                found.update(_by_position(value))
        return found

    # ------------------------------------------------------------------ names and words
    @classmethod
    def known_names(cls) -> dict[str, Callable[[], Component]]:
        """Return what :meth:`by_name` knows of this sort of part: name -> how it is made, sorted.

        Every subclass whose arguments have defaults is found, your own included. A name of mercer's
        stays mercer's; of two classes of yours with the same name the later one counts.
        """
        return {name: made for name, made in sorted(_names(cls).items()) if not _required(made)}

    @classmethod
    def by_name(cls, name: Any) -> Self:
        """Return the part of that name with its default parameters, or refuse the name.

        Examples
        --------
        >>> from mercer.kernels import Kernel
        >>> Kernel.by_name("matern52")
        Matern(nu=2.5)
        """
        made = _names(cls).get(name) if isinstance(name, str) else None
        if made is None:
            raise ValueError(there_is_no(cls.__name__.lower(), name, cls.known_names()))
        missing = _required(made)
        if missing:
            shown = ", ".join(f"{m}=..." for m in missing)
            raise ValueError(
                f"the {cls.__name__.lower()} {name!r} needs its {' and '.join(missing)}: "
                f"pass {getattr(made, '__name__', name)}({shown}) in place of the name"
            )
        part = made()
        assert isinstance(part, cls)
        return part

    @classmethod
    def word_for(cls, name: str) -> str:
        """Return what parameter ``name`` is to a reader; empty if the class does not say."""
        said = (vars(parent).get("words", {}) for parent in cls.__mro__)
        return next((str(words[name]) for words in said if name in words), "")

    def replaced(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with new values by path; parts without a new value are shared with it.

        Examples
        --------
        >>> from mercer.kernels import RBF
        >>> (2.0 * RBF()).replaced({"kernel__length_scale": 3.0})
        Scale(kernel=RBF(length_scale=3.0), variance=2.0)
        """
        twin = copy.copy(self)
        inner: dict[str, dict[str, Any]] = {}
        for path, value in values.items():
            head, _, rest = path.partition("__")
            if rest:
                inner.setdefault(head, {})[rest] = value
            else:
                setattr(twin, head, value)
        for head, news in inner.items():
            if not head.isdigit():
                setattr(twin, head, getattr(self, head).replaced(news))
                continue
            for name in self.parameter_names():  # the sequence of parts that has this position
                parts = getattr(twin, name)
                if isinstance(parts, (list, tuple)) and head in (by := _by_position(parts)):
                    changed = list(parts)
                    changed[int(head)] = by[head].replaced(news)
                    setattr(twin, name, type(parts)(changed))
        return twin

    # ------------------------------------------------------------------ what the search may move
    def check_domains(self) -> None:
        """Refuse a differentiable parameter outside its domain; estimators ask once a fit.

        The edge is allowed here: whether a part can stand there, it says when it is evaluated.
        """
        for _, owner, name in self.differentiable():
            domain, given = owner.domains[name], getattr(owner, name)
            try:
                value = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError):
                continue  # the part refuses what is not a number in its own words
            if np.any(value < domain.lower) or np.any(value > domain.upper):
                between = f"lie between {domain.lower:g} and {domain.upper:g}"
                where = f"must {'be positive' if domain == POSITIVE else between}"
                raise ValueError(f"{type(owner).__name__}: {name} {where}, got {given!r}")

    def differentiable(self) -> Iterator[tuple[str, Component, str]]:
        """Yield (path, owner, name) of every differentiable parameter, children's included."""
        for name in self.domains:
            if getattr(self, name) is not None:
                yield name, self, name
        for child, part in self.children().items():
            for path, owner, name in part.differentiable():
                yield f"{child}__{path}", owner, name

    @property
    def free(self) -> dict[str, Domain]:
        """Differentiable parameters that are not fixed, by path, with their domain."""
        every = self.differentiable()
        return {path: own.domains[name] for path, own, name in every if not own.mark(name).fixed}

    def mark(self, name: str) -> Mark:
        """What was said about parameter ``name`` with :meth:`fix`, :meth:`bound`, :meth:`prior`."""
        marks: dict[str, Mark] = getattr(self, "_marks", {})
        return marks.get(name, Mark())

    def fix(self, *paths: str) -> Self:
        """Return a copy whose parameters ``paths`` (default: all of them) stay as they are."""
        every = [path for path, _, _ in self.differentiable()]
        return self._marked({path: {"fixed": True} for path in paths or every})

    def bound(self, **bounds: tuple[float, float]) -> Self:
        """Return a copy whose parameters are searched within the given (low, high)."""
        for name, (low, high) in bounds.items():
            if not low < high:
                raise ValueError(f"bounds of {name!r} must be (low, high) with low < high")
        return self._marked({name: {"bounds": pair} for name, pair in bounds.items()})

    def prior(self, **priors: Component) -> Self:
        """Return a copy whose parameters carry a hyperprior from ``mercer.search``."""
        return self._marked({name: {"prior": p} for name, p in priors.items()})

    def _marked(self, news: Mapping[str, Mapping[str, Any]]) -> Self:
        clone = copy.deepcopy(self)
        owners = {path: (owner, name) for path, owner, name in clone.differentiable()}
        for path, new in news.items():
            if path not in owners:
                who, known = type(self).__name__, ", ".join(owners) or "none"
                raise ValueError(f"{who} has no differentiable parameter {path!r}; it has: {known}")
            owner, name = owners[path]
            marks = dict(getattr(owner, "_marks", {}))
            marks[name] = Mark(**{**vars(marks.get(name, Mark())), **new})
            owner._marks = marks
        return clone

    # ------------------------------------------------------------------ identity
    def __repr__(self) -> str:
        return written(self, exact, _same)

    def __str__(self) -> str:
        return formula(self) or written(self, brief, _same)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Component)
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_same(mine[k], theirs[k]) and self.mark(k) == other.mark(k) for k in mine)

    __hash__ = None  # type: ignore[assignment]  # components are mutable, as scikit-learn's are

    def __sklearn_clone__(self) -> Self:
        values = vars(self)
        if not all(type(value) in (float, int, bool, str) for value in values.values()):
            return copy.deepcopy(self)
        new = object.__new__(type(self))  # nothing inside that could be shared: many times faster
        vars(new).update(values)
        return new

    @classmethod
    def example(cls) -> Self:
        """Return a small typical instance, used by the contract tests and the docs."""
        return cls()

    # ------------------------------------------------------------------ dictionary form
    @classmethod
    def part_name(cls) -> str:
        """Return the name in model files: ``kernels.RBF``; own classes by full module path."""
        module = cls.__module__.split(".")
        own = module[0] == "mercer" and len(module) > 1
        return f"{(cls.public_module or module[1]) if own else cls.__module__}.{cls.__name__}"

    def to_dict(self) -> dict[str, Any]:
        """Return class name, parameters and marks as plain values and NumPy arrays."""
        params = {k: _plain(v) for k, v in self.get_params(deep=False).items()}
        given: dict[str, Mark] = getattr(self, "_marks", {})
        marks = {k: {part: _plain(v) for part, v in vars(m).items()} for k, m in given.items()}
        return {"class": self.part_name(), "params": params, "marks": marks}

    @staticmethod
    def from_dict(data: Mapping[str, Any], resolve: Callable[[str], type[Component]]) -> Component:
        """Build a component from :meth:`to_dict`; ``resolve`` maps class names to classes."""
        cls = resolve(data["class"])
        params = {**cls.before, **{k: _built(v, resolve) for k, v in data["params"].items()}}
        own = set(cls.parameter_names())
        # a default in place of what was left out would be another part, without a word
        for odd, word in ((set(params) - own, "has no"), (own - set(params), "lacks its")):
            if odd:
                raise ValueError(f"{data['class']} {word} parameter {sorted(odd)}")
        part = cls(**params)
        for name in part.domains:
            value = getattr(part, name)
            if value is not None and not np.size(value):
                raise ValueError(f"{data['class']} has no value for {name}")
        part.check_domains()
        marks = {}
        for name, stored in data.get("marks", {}).items():
            pair, prior = stored["bounds"], stored["prior"]
            bounds = None if pair is None else (pair[0], pair[1])
            given = None if prior is None else Component.from_dict(prior, resolve)
            marks[name] = Mark(bool(stored["fixed"]), bounds, given)
        if marks:
            part._marks = marks
        return part


def _names(base: type[Component]) -> dict[str, Callable[[], Component]]:
    """Return every name below ``base``, those of mercer before those of others."""
    own: dict[str, Callable[[], Component]] = {}
    house: dict[str, Callable[[], Component]] = {}
    parts = base.__subclasses__()
    for part in parts:  # a parent before its children, which are added behind
        parts += [child for child in part.__subclasses__() if child not in parts]
        if vars(part).get("abstract", False) or part.__name__.startswith("_"):
            continue
        stated: Names | None = vars(part).get("names")
        if stated is None:
            stated = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part.__name__).lower(): part}
        (house if part.__module__.startswith("mercer.") else own).update(stated)
    return own | house


@cache  # a signature takes longer to read than all else that a name costs
def _required(made: Callable[[], Component]) -> list[str]:
    """Return the arguments that have no default."""
    parameters = list(inspect.signature(made).parameters.values())
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.default is p.empty and p.kind in plain]


def _by_position(values: Sequence[Any]) -> dict[str, Component]:
    return {str(i): v for i, v in enumerate(values) if isinstance(v, Component)}


def _same(a: Any, b: Any) -> bool:
    arrays = [isinstance(each, np.ndarray) for each in (a, b)]
    if any(arrays):
        return all(arrays) and bool(np.array_equal(a, b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a is b or a == b)


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str, np.ndarray)):
        return value
    raise TypeError(
        f"a {type(value).__name__} cannot be written to a model file; "
        "wrap it in a Component subclass and pass that class to load(path, parts=[...])"
    )


def _built(value: Any, resolve: Callable[[str], type[Component]]) -> Any:
    if isinstance(value, Mapping):
        return Component.from_dict(value, resolve)
    if isinstance(value, list):
        return [_built(v, resolve) for v in value]
    return value
