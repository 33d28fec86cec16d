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
