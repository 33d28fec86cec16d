"""A file can name only classes that are known, or handed over."""

from __future__ import annotations

import pytest

from mercer.persist import ModelFileError, load
from tests.persist.common import OWN, Machine, with_manifest


def test_own_parts_must_be_handed_over(saved):
    with pytest.raises(ModelFileError, match=r"parts=\[Machine\]"):
        load(saved)
    with pytest.raises(ModelFileError, match=r"parts=\[Bump\]"):
        load(saved, parts=[Machine])


@pytest.mark.parametrize(
    "name",
    ["os.system", "kernels.os", "kernels.base.Kernel", "kernels.Kernel.mro", "builtins.eval", 3],
)
def test_a_file_cannot_name_other_code(saved, name):
    def change(manifest):
        manifest["state"]["part"]["class"] = name

    with pytest.raises(ModelFileError, match="cannot be loaded"):
        load(with_manifest(saved, change), parts=OWN)


@pytest.mark.parametrize("name", ["kernels", "load", "os", "__builtins__", "sklearn.svm.SVC", ""])
def test_a_file_cannot_name_other_estimators(saved, name):
    def change(manifest):
        manifest["estimator"] = name

    with pytest.raises(ModelFileError, match="an estimator"):
        load(with_manifest(saved, change), parts=OWN)


def test_unknown_parameters_are_refused(saved):
    def change(manifest):
        manifest["state"]["part"]["params"]["__class__"] = 1

    with pytest.raises(ModelFileError, match="do not fit together"):
        load(with_manifest(saved, change), parts=OWN)
