"""State of an online learner for model files: it continues bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.online.schema import check_online_state
from mercer.estimators.shared.schema import (
    Resolve,
    finite,
    packed,
    packed_classes,
    packed_frame,
    packed_units,
    unpacked_frame,
    unpacked_units,
)
from mercer.estimators.shared.state import part_of
from mercer.estimators.shared.stream import Prequential, freeze, frozen
from mercer.inference.stream.latent import PANEL, Explicit, Growing, Latent
from mercer.kernels.base import Kernel
from mercer.losses import Logistic
from mercer.process.stream import StreamPosterior


class OnlineState:
    """The two directions between a learner and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        stream: StreamPosterior = machine.stream_
        arrays: dict[str, Array] = {}
        seen: Prequential = machine.prequential_
        manifest = packed_frame(machine, arrays, **frozen(machine)) | {
            "kernel": packed(machine.kernel_, "kernel", arrays),
            "inside": packed(stream.kernel, "inside", arrays),
            "classes": packed_classes(machine.classes_),
            "form": "explicit" if stream.S is None else "growing",
            "gains": [float(latent.gain) for latent in stream.latents],
            "log_evidence": float(machine.log_evidence_),
            "prequential": [float(seen.weight), float(seen.log_loss_sum), float(seen.right)],
            "moved": float(stream.moved),
            "report": finite(machine._report),
        }
        arrays |= packed_units(machine.units_)
        arrays["points"] = stream.points
        if stream.S is not None and stream.w is not None:
            arrays |= {"labels": stream.S, "weights": stream.w}
        for j, latent in enumerate(stream.latents):
            arrays |= {f"{j}.{name}": value for name, value in latent.state().items()}
        arrays = {k: np.asarray(v, dtype=np.float64) for k, v in arrays.items()}
        check_online_state(manifest, arrays, set(manifest["params"]))  # what is written can be read
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        make = cast(Any, cls)
        check_online_state(manifest, arrays, set(make._get_param_names()))
        machine = unpacked_frame(make, manifest, arrays, resolve)
        freeze(machine)
        machine.units_ = unpacked_units(arrays)
        machine.kernel_ = part_of(Kernel, manifest["kernel"], arrays, resolve)
        machine.loss_ = Logistic()
        latents = []
        for j, gain in enumerate(manifest["gains"]):
            head = f"{j}."
            own = {k.removeprefix(head): v for k, v in arrays.items() if k.startswith(head)}
            latents.append(_read(manifest["form"], own, gain))
        inside = part_of(Kernel, manifest["inside"], arrays, resolve)
        labels, weights = arrays.get("labels"), arrays.get("weights")
        points, moved = arrays["points"], manifest["moved"]
        machine.posteriors_ = [
            StreamPosterior(inside, points, tuple(latents), labels, weights, moved)
        ]
        machine.log_evidence_ = manifest["log_evidence"]
        machine.prequential_ = Prequential(*manifest["prequential"])
        machine._report = manifest["report"]
        mean, var = machine.stream_.marginals(points[:1])
        if not (np.isfinite(mean).all() and np.isfinite(var).all()):
            raise ValueError("the parts of the model do not belong to its arrays")
        str(machine.summary())
        return cast(Self, machine)


def _read(form: str, own: Mapping[str, Array], gain: float) -> Latent:
    if form == "explicit":
        return Explicit(own["C"], own["alpha"], gain)
    panels = []
    for i in range(len(own) - 1):
        panel = np.zeros((PANEL, (i + 1) * PANEL))
        panel[: len(own[f"panel{i}"])] = own[f"panel{i}"]
        panels.append(panel)
    return Growing(tuple(panels), own["v"], gain, [len(own["v"])])
