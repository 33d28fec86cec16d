"""The display of a check: what is drawn is what was found."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from mercer import GPRegressor, check_inference_on
from mercer.inference import MCMC
from mercer.kernels import RBF
from mercer.plots import InferenceDisplay


def test_every_figure_of_a_check():
    X = np.linspace(0.0, 3.0, 6)[:, None]
    y = np.array([2.0, 3, 5, 4, 1, 0])
    model = GPRegressor(2.0 * RBF(), loss="poisson", search=None).fit(X, y)
    quick = MCMC(samples=10, warmup=10)
    check = check_inference_on(model, X, y, X_new=X, inference=quick, runs=2)
    ax = Figure().add_subplot()
    for kind in ("mean", "sd"):
        display = InferenceDisplay.from_check(check, kind, ax=ax)
        assert np.array_equal(display.difference, getattr(check, kind).difference)
    InferenceDisplay.from_check(check, "evidence", ax=ax)
    words = [label.get_text() for label in ax.get_yticklabels()]
    assert words[0].startswith("at least")
    assert words[-1].startswith("at most")
    with pytest.raises(ValueError, match="y_new"):
        InferenceDisplay.from_check(check, "predictions", ax=ax)
    with pytest.raises(ValueError, match="no figure 'x'"):
        InferenceDisplay.from_check(check, "x", ax=ax)
    own = InferenceDisplay.from_predictions([1.0, 2.0], [1.0, 1.0], [0.1, 0.1], ax=ax)
    assert own.difference.tolist() == [0.0, 1.0]
