"""Pictures are drawn without a screen and closed after each test."""

from __future__ import annotations

import matplotlib
import pytest

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def closed():
    import matplotlib.pyplot as plt

    plt.close("all")  # what a test of another folder left in this process
    yield
    plt.close("all")
