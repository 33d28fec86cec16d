"""Every part is found by itself: example, export, reference, docs entry, contract."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import mercer
from mercer import inference, kernels, losses, search
from mercer.core.component import Component
from mercer.inference import Inference
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.testing import check_component, check_kernel, check_loss

ROOMS = {Kernel: kernels, Loss: losses, Inference: inference, search.HyperPrior: search}
DOCS = Path(__file__).parents[2] / "docs"

for module in pkgutil.walk_packages(mercer.__path__, "mercer."):
    if not module.name.startswith(("mercer.app", "mercer._native")):
        importlib.import_module(module.name)


def subclasses(base: type) -> list[type]:
    found = []
    for child in base.__subclasses__():
        if child.__module__.startswith("mercer."):
            found += [child, *subclasses(child)]
    return sorted(set(found), key=lambda c: c.__name__)


def concrete(base: type) -> list[type]:
    """Classes that can be used: those that make an example."""
    return [
        c for c in subclasses(base) if not vars(c).get("abstract", False) and c.__name__[0] != "_"
    ]


PARTS = [(base, cls) for base in ROOMS for cls in concrete(base)]
IDS = [cls.__name__ for _, cls in PARTS]


def test_there_are_parts() -> None:
    for base in ROOMS:
        assert concrete(base), f"no {base.__name__} is found"


@pytest.mark.parametrize(("base", "cls"), PARTS, ids=IDS)
def test_part_is_exported(base: type, cls: type) -> None:
    room = ROOMS[base]
    assert cls.__name__ in room.__all__, f"{cls.__name__} is missing in {room.__name__}.__all__"
    assert getattr(room, cls.__name__) is cls


@pytest.mark.parametrize(("base", "cls"), PARTS, ids=IDS)
def test_part_is_documented(base: type, cls: type) -> None:
    text = cls.__doc__ or ""
    assert "Reference" in text, f"{cls.__name__} names no reference"
    assert ">>>" in text, f"{cls.__name__} has no runnable example"


@pytest.mark.parametrize(("base", "cls"), PARTS, ids=IDS)
def test_part_has_an_example_and_fulfils_the_contract(base: type, cls: type[Component]) -> None:
    part = cls.example()
    assert type(part) is cls
    check_component(part)
    if isinstance(part, Kernel):
        check_kernel(part)
    if isinstance(part, Loss):
        check_loss(part)


def test_parts_are_not_estimators() -> None:
    from sklearn.base import BaseEstimator

    for _, cls in PARTS:
        assert not issubclass(cls, BaseEstimator)
