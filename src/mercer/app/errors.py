"""What the command line says when it cannot go on: one sentence."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType

from mercer.wording import shown

__all__ = ["AppError", "did_you_mean", "quoted", "require", "shown"]

EXTRAS = {
    "click": "cli",
    "rich": "cli",
    "matplotlib": "report",
    "jinja2": "report",
    "onnx": "onnx",
    "polars": "data",
}


class AppError(Exception):
    """A mistake that the user can mend; its text is one sentence for the terminal."""


def require(module: str, purpose: str) -> ModuleType:
    """Import an optional module, or say in a sentence which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise AppError(
            f"{purpose} needs {package}, which is not installed: "
            f'pip install "mercer[{EXTRAS[package]}]"'
        ) from None


def quoted(names: Iterable[str], limit: int = 8) -> str:
    """Return the names in quotes, separated by commas, the end of a long list left out."""
    every = [f"'{shown(name, 40)}'" for name in names]
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known name, or the list of all of them.

    Examples
    --------
    >>> did_you_mean("Prise", ["price", "area"])
    "did you mean 'price'?"
    """
    every = list(known)
    by_lower = {other.lower(): other for other in reversed(every)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{shown(by_lower[close[0]], 40)}'?"
    return f"its columns are {quoted(every)}"
