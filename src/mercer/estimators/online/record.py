"""The record of an online learner: it continues bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.core.kinds import Labels, Numbers, PartOf, Plain, PlainReport, Record
from mercer.core.record import COLUMNS, Each, Fields, Maybe, One
from mercer.estimators.shared.design.propose import Proposes
from mercer.estimators.shared.record import UNITS
from mercer.estimators.shared.stream import Freezes, Prequential
from mercer.estimators.shared.units import Units
from mercer.inference.stream import PANEL, Explicit, Growing
from mercer.kernels.base import Kernel
from mercer.losses import Logistic
from mercer.process.stream import StreamPosterior


def _growing(panels: list[Array], v: Array, gain: float) -> Growing:
    if len(panels) != -(-len(v) // PANEL):
        raise ValueError("the factor does not have a panel for every so many points")
    whole = []
    for i, rows in enumerate(panels):
        if rows.shape != (min(PANEL, len(v) - i * PANEL), (i + 1) * PANEL):
            raise ValueError(f"panel {i} of the factor has shape {rows.shape}")
        panel = np.zeros((PANEL, (i + 1) * PANEL))
        panel[: len(rows)] = rows
        whole.append(panel)
    return Growing(tuple(whole), v, gain, [len(v)])


def _used(latent: Growing) -> dict[str, Any]:
    """The rows of each panel that are the latent function's own."""
    panels = [latent.rows(i) for i in range(len(latent.panels))]
    return {"panels": panels, "v": latent.v, "gain": latent.gain}


def _settled(latent: Explicit) -> dict[str, Any]:
    return {name: getattr(latent.settled(), name) for name in ("C", "alpha", "gain")}


_PANEL = Fields(lambda rows: rows, {"rows": Numbers("a b")}, own="a b", parts=lambda a: {"rows": a})
_GROWING: Record = {"panels": Each(_PANEL), "v": Numbers("n"), "gain": Plain(float)}
_EXPLICIT: Record = {"C": Numbers("n n"), "alpha": Numbers("n"), "gain": Plain(float)}
_LATENT = One(
    {
        "Growing": Fields(_growing, _GROWING, parts=_used),
        "Explicit": Fields(Explicit, _EXPLICIT, parts=_settled),
    }
)
# k latent functions on n points
STREAM = Fields(
    StreamPosterior,
    {
        "kernel": PartOf(Kernel),
        "points": Numbers("n d"),
        "latents": Each(_LATENT, "k", make=tuple),
        "S": Maybe(Numbers("n k")),
        "w": Maybe(Numbers("n")),
        "moved": Plain(float),
    },
)


class OnlineRecord(Proposes, Freezes):
    """What a model file holds of a stream.

    ``_report`` are the figures that batches add to; ``report_`` is made of them.
    """

    classes_: NDArray[Any]
    posteriors_: list[StreamPosterior]
    units_: Units
    kernel_: Kernel
    loss_: Logistic
    prequential_: Prequential
    log_evidence_: float
    n_features_in_: int
    _report: dict[str, Any]

    @classmethod
    def _record(cls) -> Record:
        return {
            **COLUMNS,
            "classes_": Labels(),
            "units_": UNITS,
            "kernel_": PartOf(Kernel),
            "posteriors_": Each(STREAM, "1"),
            "log_evidence_": Plain(float),
            "prequential_": Fields(
                Prequential, dict.fromkeys(("weight", "log_loss_sum", "right"), Plain(float, 0.0))
            ),
            "_report": PlainReport(),
        }

    def _restored(self) -> None:
        super()._restored()
        self.loss_ = Logistic()

    def _check_fitted(self) -> None:
        stream = self.posteriors_[0]
        if not len(stream.points) or len(self.units_.y_scale) != len(stream.latents):
            raise ValueError("there are no points, or the units are not those of the machines")
        if len({type(latent) for latent in stream.latents}) != 1:
            raise ValueError("the latent functions are not of one form")
        grows = isinstance(stream.latents[0], Growing)
        if (stream.S is None) == grows or (stream.w is None) == grows:
            raise ValueError("labels and weights belong to a stream that is kept whole")
        if not all(np.isfinite(a).all() for a in stream.marginals(stream.points[:1])):
            raise ValueError("the parts of the model do not belong to its arrays")
