"""The public names of mercer and the API pages that are generated from them.

Nothing here lists a kernel, a loss or any other part: the names come from each module's
``__all__``, so a new part has its page as soon as it is exported and has a docstring.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

#: Modules with public names: the title and the first sentence of their page.
ROOMS = {
    "mercer": ("Estimators and files", "What most programs need: `from mercer import ...`."),
    "mercer.kernels": ("Kernels", "What is smooth."),
    "mercer.losses": ("Losses", "What is observed, and what a latent value predicts."),
    "mercer.inference": ("Inference", "How a kernel and a loss become a posterior."),
    "mercer.search": ("Search", "Which hyperparameters: criteria, priors, optimisers."),
    "mercer.process": ("Processes", "Prior and posterior: mean, variance, samples."),
    "mercer.linalg": ("Linear algebra", "How (K + W^-1)^-1 is applied; for authors of parts."),
    "mercer.export": ("Export", "Fitted machines as ONNX graphs."),
    "mercer.basis": ("Basis functions", "Functions without penalty beside the kernel."),
    "mercer.core.component": (
        "Components",
        "What every part can do: `fix`, `bound`, `prior`, copies.",
    ),
    "mercer.testing": ("Contracts", "The checks that every part passes, your own included."),
    "mercer.tables": ("Tables", "From a table to the best machine for it."),
    "mercer.plots": ("Plots", "Displays in scikit-learn's style: bands, calibration, regions."),
    "mercer.referee": ("Referee", "How far an approximate posterior is from the truth."),
    "mercer.rkhs": ("Functions", "Norms, inner products and the representer form of a model."),
}


def public_names(module: str) -> list[str]:
    """Return the public classes and functions of ``module``, sorted, submodules left out."""
    room = importlib.import_module(module)
    names = getattr(room, "__all__", None) or _defined(module)
    objects = {name: getattr(room, name) for name in names if not _elsewhere(module, name)}
    return sorted(
        (n for n, o in objects.items() if callable(o) and not inspect.ismodule(o)), key=str.lower
    )


def _elsewhere(module: str, name: str) -> bool:
    """Whether a class is on the page of ``mercer`` already: described twice it has two anchors."""
    top = importlib.import_module("mercer")
    return module != "mercer" and name in top.__all__ and isinstance(getattr(top, name), type)


def _defined(module: str) -> list[str]:
    room = importlib.import_module(module)
    return [
        name
        for name, value in vars(room).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]


def entries() -> set[str]:
    """Return the full names that have an API page: exported, and with a docstring of their own.

    A contract test asks whether ``"mercer.kernels.RBF"`` is in this set.
    """
    found = set()
    for module in ROOMS:
        room = importlib.import_module(module)
        for name in public_names(module):
            thing = getattr(room, name)
            text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
            if (text or "").strip():
                found.add(f"{module}.{name}")
    return found


def write_pages(folder: Path) -> None:
    """Write one page per module into ``folder``; unchanged pages keep their time stamp."""
    folder.mkdir(parents=True, exist_ok=True)
    for order, (module, (title, sentence)) in enumerate(ROOMS.items()):
        text = _page(module, title, sentence)
        path = folder / f"{order:02d}-{module}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _page(module: str, title: str, sentence: str) -> str:
    names = "\n".join(f"   {name}" for name in public_names(module))
    heading = f"{title} (``{module}``)"
    return f"""{heading}
{"=" * len(heading)}

{sentence.replace("`", "``")}

.. currentmodule:: {module}

.. autosummary::
   :toctree: names
   :nosignatures:

{names}
"""
