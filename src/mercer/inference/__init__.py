"""How a posterior comes out: exact now, with room for approximations and convex duals."""

from mercer.inference.base import Evidence, Inference, Solution
from mercer.inference.exact import Exact

__all__ = ["Evidence", "Exact", "Inference", "Solution"]


def by_name(given: object) -> Inference:
    """Return an Inference from its name or itself; a name that is not known is refused."""
    known: dict[str, type[Inference]] = {"exact": Exact}
    if isinstance(given, Inference):
        return given
    if isinstance(given, str) and given in known:
        return known[given]()
    raise ValueError(f"unknown inference {given!r}; known are {', '.join(known)}")
