"""What MEDClassifier and the classifiers on graphs share: parameters, report and summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mercer.core.arrays import Array, Index
from mercer.estimators.support_vector.base import OneAgainstRest
from mercer.inference.base import Inference, Solution
from mercer.kernels import Kernel
from mercer.linalg.dense.gram import DenseGram
from mercer.losses.base import Loss, is_number

FOLDS = 5
FEW, MANY = 60, 10  # labels that are left out one by one, and the folds of more


@dataclass(frozen=True)
class BatchProblem:
    """K (n, n), Y (n, k) of -1 and +1, classes and weights (n,), and the scores before (n, k)."""

    K: Array
    Y: Array
    codes: Index
    weights: Array
    before: Array | None

    def solve(self, inference: Inference, loss: Loss) -> Solution:
        """Return what is learned from the batch, with a free bias."""
        gram, one, w = DenseGram.given(self.K), np.ones((len(self.K), 1)), self.weights
        return inference.solve(gram, self.Y, loss, mean=self.before, basis=one, weights=w)

    def held_out(self, inference: Inference, loss: Loss, order: Index) -> Array | None:
        """Return f without bias (n, k) of each row by a fit that has not seen it: five folds.

        The folds are stratified by class, fewer where a class has fewer rows; None if one has a
        single row. The rows are dealt out in an ``order`` (n,) of their own, not that of the table.
        """
        folds = min(FOLDS, self._rarest)
        if folds < 2:
            return None
        scores = np.empty(self.Y.shape)
        split = StratifiedKFold(folds, shuffle=True, random_state=0)
        for parts in split.split(order, self.codes[order]):
            train, test = (np.sort(order[part]) for part in parts)
            scores[test] = self._without(train, test, inference, loss)[0]
        return scores

    def left_out(self, inference: Inference, loss: Loss) -> Array | None:
        """Return f + b (n, k) of each row by a fit without its label, None if a class has but one.

        Exact: the rows are left out one by one, and the machine is fitted again. More than 60 are
        left out in ten stratified folds.
        """
        n = len(self.codes)
        if self._rarest < 2:
            return None
        parts: Any = ((np.delete(np.arange(n), i), np.array([i])) for i in range(n))
        if n > FEW:
            folds = StratifiedKFold(min(MANY, self._rarest), shuffle=True, random_state=0)
            parts = folds.split(self.codes, self.codes)
        scores = np.empty(self.Y.shape)
        for train, test in parts:
            scores[test] = sum(self._without(train, test, inference, loss))
        return scores

    @property
    def _rarest(self) -> int:
        """The rows of the rarest class that occurs, 0 if there is only one class."""
        counts = np.bincount(self.codes)
        return int(counts[counts > 0].min()) if np.count_nonzero(counts) > 1 else 0

    def _without(
        self, train: Index, test: Index, inference: Inference, loss: Loss
    ) -> tuple[Array, Array]:
        """Return f at the rows ``test``, and b, by a fit to the rows ``train``."""
        K, before = np.ascontiguousarray(self.K[np.ix_(train, train)]), self.before
        rows = (self.Y[train], self.codes[train], self.weights[train])
        found = BatchProblem(K, *rows, None if before is None else before[train]).solve(
            inference, loss
        )
        coefficients = np.ascontiguousarray(found.alpha.T)
        f = self.K[np.ix_(test, train)] @ coefficients.T
        assert found.beta is not None
        return f if before is None else before[test] + f, found.beta[0]


@dataclass(eq=False, repr=False, kw_only=True)
class MarginClassifier(OneAgainstRest):
    """The classifier behind MEDClassifier and those on graphs; a child states how it learns."""

    _words: ClassVar[tuple[tuple[str, str], ...]] = ()  # parameters that may be a word, and which
    _no_left_out: ClassVar[str] = (
        "none: there is no formula for the scores without one of the rows; "
        "sklearn.model_selection.cross_val_predict fits again without some of them"
    )

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("C", "amplitude", "tol"):
            value = getattr(self, name, 1.0)
            if not (is_number(value, 0.0, np.inf) or (name, value) in self._words):
                raise ValueError(f"{name} must be a positive finite number, got {value!r}")

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
