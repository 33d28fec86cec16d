"""The record of an online learner, from which it continues bit for bit, and what it tells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Labels, Numbers, PartOf, Plain, PlainReport, Record
from mercer.core.record import COLUMNS, Each, Fields, Later, Maybe, One
from mercer.estimators.shared.design.propose import Proposes
from mercer.estimators.shared.record import UNITS
from mercer.estimators.shared.stream import POWERS, Freezes, Prequential, Sharpening
from mercer.estimators.shared.summary import Rows, Summarised
from mercer.estimators.shared.units import Units, describe_units
from mercer.inference.base import Report
from mercer.inference.stream import PANEL, Explicit, Growing
from mercer.kernels.base import Kernel
from mercer.losses import Logistic
from mercer.process.stream import StreamPosterior
from mercer.process.weights import Examples, WeightLatent, WeightStream


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
_WEIGHTS: Record = {
    "R": Numbers("p p", upper=True, diagonal="positive"),
    "v": Numbers("p"),
}
_LATENT = One(
    {
        "Growing": Fields(_growing, _GROWING, parts=_used),
        "Explicit": Fields(Explicit, _EXPLICIT, parts=_settled),
        "WeightLatent": Fields(WeightLatent, _WEIGHTS),
    }
)


def _stream(
    kernel: Kernel,
    points: Array,
    latents: tuple[Any, ...],
    S: Array | None,
    w: Array | None,
    moved: float,
    offset: Array | None,
) -> StreamPosterior | WeightStream:
    if not all(isinstance(latent, WeightLatent) for latent in latents):
        return StreamPosterior(kernel, points, latents, S, w, moved, offset)
    if (S is None) != (w is None):
        raise ValueError("labels and weights of a stream come together")
    examples = None if S is None or w is None else Examples.of(points, S, w)
    return WeightStream(kernel, latents, points.shape[1], examples, offset)


# f latent functions on n points, or of p weights
STREAM = Fields(
    _stream,
    {
        "kernel": PartOf(Kernel),
        "points": Numbers("n d"),
        "latents": Each(_LATENT, "f", make=tuple),
        "S": Maybe(Numbers("n f")),
        "w": Maybe(Numbers("n")),
        "moved": Plain(float),
        "offset": Later(Maybe(Numbers("f"))),
    },
)


NOT_KEPT = (
    "a stream is learned in one pass and its rows are not kept, so none can be left out; "
    "prequential_ has the figures of each row predicted before it was learned"
)
COMPUTED = (
    "calibration",
    "standardize",
    "search",
    "gram",
    "degrees_of_freedom",
    "left_out",
)  # in report_


class OnlineRecord(Proposes, Summarised, Freezes):
    """What a model file holds of a stream.

    ``_report`` are the figures that batches add to; ``report_`` is made of them.
    """

    classes_: NDArray[Any]
    posteriors_: list[StreamPosterior | WeightStream]
    units_: Units
    kernel_: Kernel
    loss_: Logistic
    prequential_: Prequential
    sharpening_: Sharpening | None
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
            "sharpening_": Later(Maybe(Fields(Sharpening, {"sums": Numbers(str(len(POWERS)))}))),
            "_report": PlainReport(),
        }

    def _restored(self) -> None:
        super()._restored()
        self.loss_ = Logistic()

    def _check_fitted(self) -> None:
        stream = self.posteriors_[0]
        rows = np.ones((1, self.n_features_in_)) if stream.weighs else stream.points[:1]
        c, functions = len(self.classes_), len(stream.latents)
        if functions not in ((1, 2) if c == 2 else (c, c + 1)):
            raise ValueError("there is not a function for each class")
        if not len(rows) or len(self.units_.y_scale) != functions:
            raise ValueError("there are no points, or the units are not those of the machines")
        if len({type(latent) for latent in stream.latents}) != 1:
            raise ValueError("the latent functions are not of one form")
        grows = isinstance(stream.latents[0], Growing)
        if not stream.weighs and ((stream.S is None) == grows or (stream.w is None) == grows):
            raise ValueError("labels and weights belong to a stream that is kept whole")
        if not all(np.isfinite(a).all() for a in stream.marginals(rows)):
            raise ValueError("the parts of the model do not belong to its arrays")

    # ------------------------------------------------------------------ what is told
    @property
    def left_out_(self) -> None:
        """None: see ``report_["left_out"]``."""
        check_is_fitted(self, "posteriors_")

    loo_ = left_out_

    @property
    def report_(self) -> dict[str, Any]:
        """What was done; the divergence lost to the budget is computed when it is asked for."""
        check_is_fitted(self, "posteriors_")
        figures = self._report
        sharp = getattr(self, "sharpening_", None)
        return figures | {
            "calibration": None if sharp is None else {"power": sharp.power},
            "standardize": {"on": figures["scales"]["standardize"]} | describe_units(self.units_),
            "search": None,
            "inference": Report().plain() | figures["inference"],
            "gram": "weights" if self.posteriors_[0].weighs else "dense",
            "degrees_of_freedom": None,
            "left_out": NOT_KEPT,
            "budget": figures["budget"] | {"divergence_lost": self.posteriors_[0].lost()},
        }

    @report_.setter
    def report_(self, given: dict[str, Any]) -> None:
        """Entries of the caller's are kept, in model files too, and batches add to the others."""
        self._report = {key: value for key, value in given.items() if key not in COMPUTED}

    def _summary_rows(self) -> Rows:
        report, seen = self.report_, self.prequential_
        rows, kept = report["rows"], report["budget"]
        sure = "about" if "laplace" in report["inference"]["name"].lower() else "at least"
        lines = [
            ("Data", "rows", f"{rows['seen']}, batches: {rows['batches']}"),
            ("Data", "columns", str(self.n_features_in_)),
            ("Model", "kernel", repr(self.kernel_)),
            ("Model", *self._size()),
            ("Quality", f"log evidence, {sure}", f"{self.log_evidence_:.4f}"),
        ]
        if seen.weight:
            text = f"log loss {seen.log_loss:.4f}, accuracy {seen.accuracy:.4f}"
            lines.append(("Quality", "before each update", text))
        if kept["projections"]:
            lines.append(("Numerics", "divergence lost", f"{kept['divergence_lost']:.4g}"))
        return lines

    def _size(self) -> tuple[str, str]:
        stream = self.posteriors_[0]
        if isinstance(stream, WeightStream):
            return "weights", str(len(stream.latents[0].v))
        return "points kept", str(len(stream.points))
