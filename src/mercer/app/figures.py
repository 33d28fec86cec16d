"""The pictures of a fit with their titles, captions and descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.app import pictures
from mercer.app.errors import shown
from mercer.app.fitted import Fitted
from mercer.app.inputs import effects_of_inputs, slice_along


def figures_of(fitted: Fitted) -> list[dict[str, Any]]:
    """Return, for each picture, title, source (an address), alt, caption and whether it is wide."""
    loo = fitted.model.loo_
    counted = loo.weights > 0
    y, mean, std = (np.asarray(a)[counted] for a in (fitted.y, loo.mean, loo.std))
    effects = effects_of_inputs(fitted)
    main = [int(j) for j in np.argsort(effects)[::-1][:3]]
    curves = [(fitted.names[j], *slice_along(fitted, j)) for j in main]
    share = fitted.loo_quality()["coverage90"]
    first = shown(fitted.names[main[0]], 40)
    others = "" if len(fitted.names) == 1 else " The other inputs stay at their medians."
    return [
        {
            "wide": False,
            "title": "Predictions with 90 % bands",
            "source": pictures.observed_against_predicted(y, mean, std, fitted.target),
            "alt": f"Observed against predicted values of {len(y)} rows with 90 % intervals; "
            f"{100 * share:.1f} % of the rows lie inside theirs.",
            "caption": "Every row is predicted from all the others (leave-one-out). The closer to "
            "the diagonal the better; the bands should contain nine rows out of ten.",
        },
        {
            "wide": False,
            "title": "Calibration of the intervals",
            "source": pictures.calibration(y, mean, std),
            "alt": "Share of left-out rows inside their interval against its probability; "
            f"at 90 % it is {100 * share:.1f} %.",
            "caption": "Honest intervals follow the diagonal within the shaded band. Below it the "
            "intervals are too narrow, above it too wide.",
        },
        {
            "wide": False,
            "title": "Residuals",
            "source": pictures.residuals(y, mean, std),
            "alt": "Residuals of the left-out rows in units of their predicted deviation, against "
            "the prediction, and their histogram beside the normal density.",
            "caption": "Nine residuals out of ten belong into the shaded band. A bend or a funnel "
            "says that the model misses a structure.",
        },
        {
            "wide": False,
            "title": "Relevance of the inputs",
            "source": pictures.relevance(effects, fitted.names),
            "alt": f"Bar chart of the effect of each input; the greatest is that of {first}.",
            "caption": "How far the predictions move when the values of one column are shuffled "
            "among the rows: root mean square, in standard deviations of the target.",
        },
        {
            "wide": True,
            "title": "Along the most relevant inputs",
            "source": pictures.slices(curves, fitted.target),
            "alt": f"Prediction with 90 % band along {len(curves)} inputs, the first is {first}.",
            "caption": "The prediction for a new observation and its 90 % band." + others,
        },
    ]
