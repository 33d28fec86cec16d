"""What every test shares: the data folder, and random numbers that repeat."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("MERCER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the variable MERCER_DATA does not name a folder with the data sets")
    return Path(folder)


# These fit whatever every estimator or the choice of a machine is tried on, small tables and noise
# among it; there a relevance vector machine says that it found nothing, and its own tests ask for
# that. Anywhere else it is an error.
NOISE = ("agreement", "app", "attacks", "benchmarks", "contracts", "documents", "export")
NOISE += ("papers", "persist", "reports", "statistics", "tables", "estimators/test_sklearn.py")


# The longest checks of scikit-learn that repeat one another with read-only rows or other bits: one
# of each is enough for every day.
AGAIN = ("check_classifiers_train(readonly_memmap", "check_regressors_train(readonly_memmap")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mark = pytest.mark.filterwarnings("ignore::mercer.core.errors.FoundNothingWarning")
    for item in items:
        if item.path.as_posix().removeprefix(f"{here.as_posix()}/").startswith(NOISE):
            item.add_marker(mark)
        if any(check in item.name for check in AGAIN):
            item.add_marker(pytest.mark.slow)
