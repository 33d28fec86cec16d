"""Schema of what MEDClassifier keeps beyond a support vector machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.discrimination.calibration import WINDOW

_EXTRA = ("stream_", "feature_weights_", "slope_", "offsets_", "_held")


def check_med_state(manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Refuse a stream, weights or a calibration that no machine can have had."""
    found = {name: arrays.get(f"extra.{name}") for name in _EXTRA}
    if any(value is None for value in found.values()):
        raise ValueError(f"the further attributes must be arrays: {', '.join(_EXTRA)}")
    stream, weights, slope, offsets, held = (np.asarray(found[name]) for name in _EXTRA)
    k = len(arrays["intercept_"])
    whole = stream.shape == (2,) and np.array_equal(stream, np.floor(stream))
    if not (whole and np.all(stream >= 1.0)):
        raise ValueError("stream_ must be the numbers of batches and rows")
    if weights.ndim != 2 or len(weights) != k or (weights.size and manifest["support"]):
        raise ValueError("feature_weights_ has other machines, or there are support vectors, too")
    if (slope.shape, offsets.shape) not in (((0,), (0,)), ((1,), (k,))):
        raise ValueError("slope_ and offsets_ must be empty, or one slope and an offset for each")
    if held.ndim != 2 or held.shape[1] != k + 2 or len(held) > WINDOW or (len(slope) > len(held)):
        raise ValueError("the held-out scores do not fit the machines or their calibration")
    codes = held[:, k]
    known = (codes >= 0.0) & (codes < max(2, k)) & (codes == np.floor(codes))
    if not (known.all() and (held[:, k + 1] > 0.0).all()):
        raise ValueError("the held-out scores have classes or weights that cannot be")
