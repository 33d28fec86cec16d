"""What MEDClassifier and the classifiers on graphs share: parameters, report and summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.support_vector.base import OneAgainstRest
from mercer.inference.base import Inference, Report
from mercer.kernels import Kernel
from mercer.losses.base import is_number

NO_LEFT_OUT = (
    "none: there is no formula for the scores without one of the rows; "
    "sklearn.model_selection.cross_val_predict fits again without some of them"
)


@dataclass(eq=False, repr=False, kw_only=True)
class MarginClassifier(OneAgainstRest):
    """The classifier behind MEDClassifier and those on graphs; a child states how it learns."""

    def _check_params(self) -> None:
        super()._check_params()
        params = self.get_params(deep=False)
        for name in ("C", "amplitude", "tol"):
            if not is_number(params.get(name, 1.0), 0.0, np.inf):
                raise ValueError(f"{name} must be a positive finite number, got {params[name]!r}")

    def _check_slack(self, C: float) -> None:
        """Refuse a slack parameter of :class:`mercer.losses.Margin` with which f stays zero."""
        if C <= 1.0:
            raise ValueError(
                f"C must be above 1, got {C!r}: at C <= 1 no row has any weight and nothing "
                "is learned; for a softer margin make the amplitude smaller"
            )

    def _check_stream_weights(self) -> None:
        """Refuse class weights that batches to come would change."""
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once: give a dict"
            )

    def _signal(self, X: Any, weights: Array) -> Kernel:
        """Return the kernel without its noise parts, what it takes from data taken from X."""
        kernel = self._resolved(X, weights).noise_free()
        if kernel is None:
            raise ValueError("a kernel of noise alone has nothing to say of new rows")
        return kernel

    def _tell_batch(
        self, inference: Inference | None, report: Report, rows: dict[str, Any], **more: Any
    ) -> None:
        """Set ``report_`` of a batch; ``inference`` is None of one without labels."""
        name = None if inference is None else type(inference).__name__
        self._tell(name, report, rows, left_out=NO_LEFT_OUT, **more)

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        ended = self.report_["inference"]
        text = "converged" if ended["converged"] else "not converged"
        if ended["iterations"] is not None:
            text += f" in {ended['iterations']} steps"
        if ended["gap"] is not None:
            text += f", gap {ended['gap']:.2g}"
        rows = [
            ("Data", "columns", str(self.n_features_in_)),
            ("Data", "classes", ", ".join(str(label) for label in self.classes_)),
            ("Model", "kernel", repr(self.kernel_)),
            ("Numerics", "last batch", text),
        ]
        if ended.get("jitter"):
            text = f"{ended['jitter']:.1g} of the largest kernel value, in the equations of a step"
            rows.append(("Numerics", "added to a diagonal", text))
        return rows
