"""The contract of every part: it is its constructor's arguments, and nothing else."""

from __future__ import annotations

import copy

import numpy as np

from mercer.core.component import Component
from mercer.testing.clauses import holds, refused


def check_component(part: Component) -> None:
    """A component is its parameters: copies, repr, dictionary form.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: clone, repr, constructor, parameters, domain, fix,
        bound or dictionary.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> check_component(RBF(length_scale=2.0))
    """
    who, params = type(part).__name__, part.get_params(deep=False)
    holds("clone", part.__sklearn_clone__() == part, "a clone must be equal to the original")
    holds("repr", who in repr(part), f"repr must show the class {who}, not {part!r}")
    stored = all(getattr(part, name) is value for name, value in params.items())
    alike = stored and (type(part)(**params) == part or part.__dict__.get("_marks"))
    holds("constructor", alike, "each argument must be stored under its own name, and nothing else")
    again = copy.deepcopy(part).set_params(**params)
    holds("parameters", again == part, "set_params(**get_params()) must change nothing")
    text = "a parameter that does not exist must be refused with ValueError"
    refused("parameters", lambda: copy.deepcopy(part).set_params(nonsense_of_a_name=1), text)
    _check_domains(part)
    _check_dictionary(part)


def _check_domains(part: Component) -> None:
    own = set(part.parameter_names())
    holds("domain", set(part.domains) <= own, f"domains must name parameters, {sorted(own)}")
    part.check_domains()
    for path, domain in part.free.items():
        value = np.asarray(part.get_params()[path], dtype=np.float64)
        inside = np.all(value > domain.lower) and np.all(value < domain.upper)
        where = f"({domain.lower:g}, {domain.upper:g})"
        holds("domain", inside, f"{path} must lie inside {where}, not at {value}")
        moved = copy.deepcopy(part).set_params(**{path: part.get_params()[path] * 1.1})
        holds("parameters", moved != part or not np.any(value), f"another {path} is another part")
    holds("fix", part.fix().free == {}, "nothing may be free after fix()")


def _check_dictionary(part: Component) -> None:
    marked = part
    paths = [path for path, _, _ in part.differentiable()]
    if paths:
        marked = part.fix(paths[0]).bound(**{paths[-1]: (1e-3, 1e3)})
    try:
        data, marks = part.to_dict(), marked.to_dict()
    except TypeError as error:
        text = "what cannot be stored must say so: 'cannot be written to a model file'"
        holds("dictionary", "cannot be written to a model file" in str(error), text)
        return
    classes = classes_of(marked)
    for given, form in ((part, data), (marked, marks)):
        found = Component.from_dict(form, classes.__getitem__)
        same = found == given and found.free == given.free and repr(found) == repr(given)
        holds("dictionary", same, f"from_dict(to_dict()) must be {given!r}, not {found!r}")


def classes_of(part: Component) -> dict[str, type[Component]]:
    """Return the classes of a part and all parts inside it, by the name in model files."""
    found = {type(part).part_name(): type(part)}
    for child in part.children().values():
        found |= classes_of(child)
    for mark in getattr(part, "_marks", {}).values():
        if mark.prior is not None:
            found |= classes_of(mark.prior)
    return found
