"""FitCheck: what the residuals of a fit say of it, in words and in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from scipy.stats import kstest

from mercer.core.arrays import Array
from mercer.left_out.structure import Structure, along, among

LIKELY = 0.05  # probability of a false alarm, over all directions together
FAR, MOVED = 4.0, 2.0  # deviations: of an outlier; by which a row moves its own prediction
MOST_COLUMNS, SHOWN = 50, 5
ORDER = "in the order of the rows"
DEPENDENT = (
    "rows that follow each other are not independent (of time, of groups), and figures of rows "
    "left out are too good"
)


@dataclass(frozen=True)
class FitCheck:
    """Residuals, their structure, influential rows, and whether the parts are large enough.

    ``print(check)`` says it in words, ``check.flags`` lists what to look at, and
    ``mercer.plots.CheckDisplay(check).plot()`` draws it.

    Attributes
    ----------
    residuals : (n,) in predicted deviations: of an honest model about standard normal.
    fitted : (n,) what the fit of all rows predicts: a mean, or the probability of a class. That of
        rows left out is in the wrong order where it is nearly constant: away from the targets.
    left_out : whether each row was predicted from the others.
    normal : p-value of the residuals being standard normal (Kolmogorov and Smirnov), None where
        they need not be.
    spread : mean square of the residuals, 1 for honest deviations, and its standard error.
    structure : list of :class:`Structure`: along each column, the prediction, the order of the
        rows, and among neighbours in all columns.
    influence : (n,) by how many deviations each row moves its own prediction; None if unknown.
    remedy : what to do about structure.
    parts : list of (fine, sentence): convergence, bounds, inducing points, degrees of freedom.
    """

    residuals: Array
    fitted: Array
    left_out: bool
    normal: float | None
    spread: tuple[float, float]
    structure: list[Structure]
    influence: Array | None
    parts: list[tuple[bool, str]] = field(default_factory=list)
    remedy: str = "the model is too stiff there, or misses something"  # against structure

    @property
    def found(self) -> list[tuple[bool, str]]:
        """All sentences, each with whether it is fine."""
        own = [self._of_spread(), *self._of_shape(), *self._of_structure(), *self._of_influence()]
        return own + self.parts

    @property
    def flags(self) -> list[str]:
        """What to look at; empty if nothing stands out."""
        return [sentence for fine, sentence in self.found if not fine]

    def _of_spread(self) -> tuple[bool, str]:
        mean, error = self.spread
        fine = abs(mean - 1.0) < max(3.0 * error, 0.1)
        what = "as wide as they should be" if fine else "too narrow" if mean > 1.0 else "too wide"
        return fine, (
            f"the mean squared residual is {mean:.2f} (standard error {error:.2f}; 1 is honest): "
            f"the deviations that are predicted are {what}"
        )

    def _of_shape(self) -> list[tuple[bool, str]]:
        if self.normal is None:
            return []
        far = int(np.sum(np.abs(self.residuals) > FAR))
        fine = self.normal > 0.01
        said = f"residuals are {'' if fine else 'not '}normal as far as {len(self.residuals)} rows "
        said += f"show (p = {self.normal:.2g})"
        if not fine:
            said += ": another loss (student_t, a positive or counting one) may describe them"
        found = [(fine, said)]
        if far:
            said = f"{far} row{'s lie' if far > 1 else ' lies'} more than {FAR:.0f} deviations off"
            found.append((False, f"{said}: errors of the table, or noise with heavy tails"))
        return found

    def _of_structure(self) -> list[tuple[bool, str]]:
        told = [
            (
                False,
                f"neighbours {one.name} have like residuals (index {one.index:.2f}, "
                f"p = {one.p:.1g}): {DEPENDENT if one.name == ORDER else self.remedy}",
            )
            for one in sorted(self.structure, key=lambda s: s.p)[:SHOWN]
            if one.p * len(self.structure) < LIKELY
        ]
        if not told and self.structure:
            count = len(self.structure)
            told = [(True, f"no structure is left in the residuals, in {count} directions")]
        return told

    def _of_influence(self) -> list[tuple[bool, str]]:
        if self.influence is None or not len(self.influence):
            return []
        i = int(np.argmax(self.influence))
        most = float(self.influence[i])
        many = int(np.sum(self.influence > MOVED))
        said = f"row {i + 1} moves its own prediction most, by {most:.2g} deviations"
        if many > 1:
            said += f"; {many} rows move theirs by more than {MOVED:.0f}"
        return [(most <= MOVED, said)]

    def __str__(self) -> str:
        of = "rows left out" if self.left_out else "the training rows themselves"
        lines = [f"Check of {len(self.residuals)} residuals of {of}"]
        lines += [f"{'  ' if fine else '! '}{sentence}" for fine, sentence in self.found]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rest = str(self).splitlines()
        items = "".join(f"<li>{escape(line)}</li>" for line in rest)
        return f"<p>{escape(head)}</p><ul>{items}</ul>"


def check_of(
    residuals: Array,
    fitted: Array,
    X: Array,
    columns: Sequence[str],
    *,
    left_out: bool,
    normal: bool,
    influence: Array | None = None,
    parts: Sequence[tuple[bool, str]] = (),
    remedy: str = FitCheck.remedy,
) -> FitCheck:
    """Return the check of residuals (n,) with predictions ``fitted`` (n,) at X (n, d).

    ``normal``: whether the residuals of a true model are normal. Of more than 50 columns the first
    50 are looked along.
    """
    known = np.isfinite(residuals) & np.isfinite(fitted)
    r, at = residuals[known], np.flatnonzero(known)
    each: Mapping[str, Array] = {
        f"along '{name}'": X[known, j]
        for j, name in enumerate(columns[:MOST_COLUMNS])
        if np.ptp(X[known, j]) > 0.0
    }
    structure = [along(name, r, values) for name, values in each.items()]
    if np.ptp(fitted[known]) > 0.0:
        structure.append(along("along the prediction", r, fitted[known]))
    structure.append(along(ORDER, r, at.astype(np.float64)))
    if len(each) > 1:
        structure.append(among("in all inputs together", r, X[known]))
    n = max(1, len(r))
    spread = (float(np.mean(r**2)), float(np.std(r**2) / np.sqrt(n)))
    p = float(kstest(r, "norm").pvalue) if normal and len(r) >= 8 else None
    own = None if influence is None else influence[known]
    return FitCheck(r, fitted[known], left_out, p, spread, structure, own, list(parts), remedy)
