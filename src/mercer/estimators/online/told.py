"""The record of an online regressor, from which it continues bit for bit, and what it tells."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, PartOf, Plain, PlainReport, Record
from mercer.core.record import COLUMNS, Each, Fields, Later, Maybe
from mercer.estimators.online.record import NOT_KEPT
from mercer.estimators.online.reservoir import DriftWatch, Latest
from mercer.estimators.online.scale import NoiseLevel, PrequentialValues
from mercer.estimators.online.spread import KNOTS, NoiseByLevel
from mercer.estimators.shared.design.propose import Proposes
from mercer.estimators.shared.record import UNITS
from mercer.estimators.shared.stream import Freezes
from mercer.estimators.shared.summary import Rows, Summarised
from mercer.estimators.shared.units import Units, describe_units
from mercer.inference.base import Report
from mercer.kernels.base import Kernel
from mercer.losses.base import Loss
from mercer.process.inducing import InducedStream


def _stream(
    kernel: Kernel, points: Array, L: Array, root: Array, tau: float, offset: float
) -> InducedStream:
    if np.any(np.triu(L, 1)) or np.any(np.triu(root, 1)) or root[-1, -1] != 1.0:
        raise ValueError("the factors of the stream are not triangular")
    return InducedStream(kernel, points, L, root.T, tau, offset)


def _parts(stream: InducedStream) -> dict[str, Any]:
    names = ("kernel", "points", "L", "tau", "offset")
    # by rows, as files have them: the triangle is kept by columns
    return {name: getattr(stream, name) for name in names} | {"root": np.tril(stream.A.T)}


INDUCED = Fields(
    _stream,
    {
        "kernel": PartOf(Kernel),
        "points": Numbers("p d"),
        "L": Numbers("p p", diagonal="positive"),
        "root": Numbers("r r", diagonal="nonzero"),
        "tau": Plain(float, 0.0),
        "offset": Plain(float),
    },
    parts=_parts,
)
_K = str(len(KNOTS))
SPREAD = Fields(
    NoiseByLevel,
    {
        "centre": Plain(float),
        "unit": Plain(float, 0.0, above=True),
        "weights": Numbers(_K),
        "precision": Numbers(f"{_K} {_K}", diagonal="positive"),
        "gain": Plain(float),
    },
)
_NUMBERS = ("mean", "square", "total")
COMPUTED = (
    "calibration",
    "search",
    "gram",
    "degrees_of_freedom",
    "left_out",
    "scale",
)  # in report_


class ValuesRecord(Proposes, Summarised, Freezes):
    """What a model file holds of a stream of quantities.

    ``_report`` are the figures that batches add to; ``report_`` is made of them.
    """

    posteriors_: list[InducedStream]
    units_: Units
    kernel_: Kernel
    loss_: Loss
    losses_: list[Loss]
    scale_: NoiseLevel
    spread_: NoiseByLevel | None
    latest_: Latest
    watch_: DriftWatch
    prequential_: PrequentialValues
    log_evidence_: float
    n_features_in_: int
    _report: dict[str, Any]

    @classmethod
    def _record(cls) -> Record:
        plain = Plain(float, 0.0)
        return {
            **COLUMNS,
            "units_": UNITS,
            "kernel_": PartOf(Kernel),
            "loss_": PartOf(Loss),
            "losses_": Each(PartOf(Loss), "1"),
            "posteriors_": Each(INDUCED, "1"),
            "log_evidence_": Plain(float),
            "scale_": Fields(
                NoiseLevel,
                {
                    "a": Plain(float, 0.0, above=True),
                    "b": Plain(float, 0.0, above=True),
                    "known": Plain(bool),
                },
            ),
            "spread_": Later(Maybe(SPREAD)),
            "latest_": Fields(Latest, {"table": Numbers("q e", finite=True)}),
            "watch_": Fields(
                DriftWatch,
                {"rows": Plain(int, 0), "risen": Plain(int, 0)}
                | {name: Plain(float) for name in _NUMBERS},
            ),
            "prequential_": Fields(
                PrequentialValues,
                {"weight": plain, "log_density_sum": Plain(float), "square_sum": plain},
            ),
            "_report": PlainReport(),
        }

    def _check_fitted(self) -> None:
        stream, loss = self.posteriors_[0], self.losses_[0]
        if len(self.units_.y_scale) != 1 or not len(stream.points):
            raise ValueError("there are no points, or the units are not those of one target")
        if len(stream.A) != len(stream.points) + 1:
            raise ValueError("the root of the stream does not belong to its points")
        if self.latest_.table.shape[1] != self.n_features_in_ + 3:
            raise ValueError("the latest rows do not have the columns of the model")
        if np.any(self.latest_.w <= 0.0):
            raise ValueError("the latest rows do not have positive weights")
        if loss.offers("quadratic") and not (
            np.ndim(loss.noise) == 0 and loss.noise > 0.0  # type: ignore[attr-defined]  # the Gaussian has it
        ):
            raise ValueError("the noise of the stream is not a positive number")
        if self.spread_ is not None and np.linalg.eigvalsh(self.spread_.precision)[0] <= 0.0:
            raise ValueError("the precision of the noise by level is not positive definite")
        if not all(np.isfinite(a).all() for a in stream.marginals(stream.points[:1])):
            raise ValueError("the parts of the model do not belong to its arrays")

    # ------------------------------------------------------------------ what is told
    @property
    def left_out_(self) -> None:
        """None: see ``report_["left_out"]``."""
        check_is_fitted(self, "posteriors_")

    loo_ = left_out_

    @property
    def report_(self) -> dict[str, Any]:
        """What was done."""
        check_is_fitted(self, "posteriors_")
        figures, scale = self._report, self.scale_
        inside = {"on": figures["standardize"]} | describe_units(self.units_)
        known = {"known": scale.known, "level": scale.level, "degrees": 2.0 * scale.a}
        spread, calibration = self.spread_, None
        if spread is not None:
            at = spread.centre + spread.unit * KNOTS
            calibration = {
                "used": spread.used,
                "gain": spread.gain,
                "levels": self.units_.y_in_user_units(at[:, None])[:, 0].tolist(),
                "factors": spread.factors(at).tolist(),
            }
        return figures | {
            "calibration": calibration,
            "standardize": inside,
            "search": figures["kernel"]["search"],
            "inference": Report().plain() | figures["inference"],
            "gram": "inducing",
            "scale": known,
            "degrees_of_freedom": None,
            "left_out": NOT_KEPT,
        }

    @report_.setter
    def report_(self, given: dict[str, Any]) -> None:
        """Entries of the caller's are kept, in model files too, and batches add to the others."""
        kept = {key: value for key, value in given.items() if key not in COMPUTED}
        if isinstance(kept.get("standardize"), dict):
            kept["standardize"] = bool(kept["standardize"]["on"])
        self._report = kept

    def _summary_rows(self) -> Rows:
        report, seen = self.report_, self.prequential_
        rows, learned, drift = report["rows"], report["kernel"], report["drift"]
        how = "as given" if learned["search"] is None else f"evidence of {learned['rows']} rows"
        lines = [
            ("Data", "rows", f"{rows['seen']}, batches: {rows['batches']}"),
            ("Data", "columns", str(self.n_features_in_)),
            ("Model", "kernel", f"{self.kernel_!r} ({how})"),
            ("Model", "loss", repr(self.loss_)),
            ("Model", "points", str(len(self.posteriors_[0].points))),
            ("Quality", "log evidence", f"{self.log_evidence_:.4f}"),
        ]
        if not self.scale_.known:
            text = f"{self.scale_.level:.4g} times that of the first rows"
            lines.insert(4, ("Model", "level of the noise", text))
        if self.spread_ is not None and self.spread_.used:
            factors = report["calibration"]["factors"]
            text = f"{min(factors):.3g} to {max(factors):.3g} times, by the level of the function"
            lines.insert(5, ("Model", "noise", text))
        if seen.weight:
            text = f"NLPD {seen.nlpd:.4f}, RMSE {seen.rmse:.4g}"
            lines.append(("Quality", "before each update", text))
        if drift["changes"]:
            at = ", ".join(str(row) for row in drift["rows"][-5:])
            again = f"kernel learned again {learned['again']} times"
            lines.append(("Quality", "foreseen worse after rows", f"{at}; {again}"))
        return lines
