"""The flow of support vector machines that solve a dual by SMO."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from mercer.core.arrays import Array, Index
from mercer.estimators.shared.labels import read_labels
from mercer.estimators.shared.machine import LANDMARKS, generator
from mercer.estimators.shared.summary import passed, represented
from mercer.estimators.shared.table import merged, read_rows, restored_on_error
from mercer.estimators.support_vector import landmarks
from mercer.estimators.support_vector.base import (
    NAMED,
    OneAgainstRest,
    SupportVectorMachine,
    describe_constant,
    require_square,
)
from mercer.inference.base import Solution
from mercer.inference.mode.programme import Programme
from mercer.inference.primal import Primal
from mercer.inference.smo import SMO
from mercer.kernels import Kernel, Precomputed
from mercer.linalg.representation import Inducing
from mercer.linalg.rows import RowGram
from mercer.losses.base import Loss

HARD_MARGIN_STEPS = 1_000_000
LARGEST = 1e140  # targets whose squares are numbers
SAMPLE = 200  # points by which a kernel of the user's own is judged


@dataclass(frozen=True)
class SupportProblem:
    """A fit of N rows of d columns, with equal ones merged to n points."""

    X: Array  # (N, d)
    values: Array  # (N,) targets, or classes as numbers: rows are merged where these are equal
    weights: Array  # (N,) how often each row counts, class weights included
    first: Index  # (n,) a row of each point
    place: Index  # (N,) the point of each row, -1 for one of weight zero
    total: Array  # (n,) total weights
    Y: Array  # (n, k) the target of each machine
    gram: RowGram  # K on the points


@dataclass(eq=False, repr=False, kw_only=True)
class DualMachine(SupportVectorMachine):
    """The flow of SVC, SVR, NuSVC, NuSVR and OneClassSVM; a child states its targets and its dual.

    read -> targets -> kernel -> merge -> solve -> condition -> report
    """

    _hard_margin: ClassVar[bool] = False  # whether C = inf has a meaning
    _scale_of_all: ClassVar[bool] = True
    gram: Any = "auto"
    tol: float = 1e-3
    cache_size: float = 1000.0
    max_iter: int = -1

    def _check_params(self) -> None:
        for name in ("C", "tol", "cache_size"):
            value = getattr(self, name, 1.0)
            if not (isinstance(value, (int, float, np.number)) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if getattr(self, "C", 1.0) == np.inf and not self._hard_margin:
            raise ValueError("C must be finite: only SVC has a hard margin")
        if not self._takes_all_rows():
            self._check_landmarks(landmarks.given(self.gram))
        super()._check_params()

    # ------------------------------------------------------------------ what a child states
    @abstractmethod
    def _targets(self, y: Any, sample_weight: Any, n: int) -> tuple[Array, Array]:
        """Return targets and weights of n rows (n,), checked; a classifier keeps its classes."""

    @abstractmethod
    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """Return the dual of one machine with targets y (n,)."""

    def _loss(self) -> Loss | None:
        """Return the loss of which f is the mode, for landmarks; None where it is not of one."""
        return None

    def _takes_all_rows(self) -> bool:
        return self.gram is None or (isinstance(self.gram, str) and self.gram == "auto")

    def _check_landmarks(self, rule: Inducing) -> None:
        """Refuse what does not go with landmarks."""
        name = type(self).__name__
        if np.inf == getattr(self, "C", 1.0):
            raise ValueError("a hard margin has no meaning on landmarks: choose a finite C")
        if self._loss() is None:
            others = {"NuSVC": "SVC(C=...)", "NuSVR": "SVR(C=..., epsilon=...)"}
            other = f"{others[name]} with this gram, or " if name in others else ""
            raise ValueError(
                f"{name} has no landmarks: nu counts rows by their multipliers, and landmarks have "
                f"none; use {other}gram='auto'"
            )

    def _read(self, X: Any, y: Any) -> tuple[Array, Any]:
        """Return the table (N, d) and its targets."""
        return read_rows(self, X, y)

    def _columns(self, values: Array) -> Array:
        """Return the target of each machine (n, k)."""
        return values[:, None]

    def _learned_kernel(self, X: Any, y: Any, sample_weight: Any) -> Kernel | None:
        """Return the kernel if it is learned from the table as it was given."""
        return None

    def _solved(self, problem: SupportProblem) -> tuple[object, Solution]:
        """Return the solver, and what it found."""
        columns = np.ascontiguousarray(problem.Y.T)
        programmes = [self._programme(column, problem) for column in columns]
        limit = self.max_iter
        if getattr(self, "C", 1.0) == np.inf and limit < 0:
            limit = HARD_MARGIN_STEPS  # classes that cannot be separated would climb forever
        solver = SMO(self.tol, limit, self.cache_size)
        return solver, self._ascended(solver, problem.gram, programmes)

    def _ascended(self, solver: SMO, gram: RowGram, programmes: list[Programme]) -> Solution:
        """Return the solution of the programmes."""
        return solver.ascend(gram, programmes)

    def _function(self, solution: Solution, problem: SupportProblem) -> tuple[Array, Array]:
        """Return the coefficients (k, n) and the biases (k,) of the functions that were found."""
        assert solution.beta is not None
        return solution.alpha.T, solution.beta[0]

    def _remarks(self) -> dict[str, Any]:
        """Return what else to report."""
        return {}

    def _conclude(
        self, problem: SupportProblem | None, solution: Solution | None, sample_weight: Any
    ) -> None:
        """Do what is left to do with a fitted machine; there is no dual problem on landmarks."""

    # ------------------------------------------------------------------ the flow
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and targets y (n,), which OneClassSVM does not need.

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        estimator stays as it was.
        """
        with restored_on_error(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        table, y = self._read(X, y)
        self._check_params()
        values, weights = self._targets(y, sample_weight, len(table))
        kernel = self._learned_kernel(X, y, sample_weight)
        kernel = self._resolved(table, weights) if kernel is None else kernel
        first, total, place = merged(table, values, weights)
        Y, told = self._columns(values[first]), dict[str, Any]()
        if not kernel.pairwise:
            told |= describe_constant(table, weights, getattr(self, "feature_names_in_", None))
        rows = {
            "used": int(np.count_nonzero(weights > 0.0)),
            "distinct": len(first),
            "weight": float(total.sum()),
        }
        self.kernel_ = kernel
        if not self._takes_all_rows():
            points = np.ascontiguousarray(table[first])
            self._fit_landmarks(points, values[first], Y, total, {"rows": rows} | told)
            self._conclude(None, None, sample_weight)
            return
        gram = _rows_on_demand(kernel, table, first)
        problem = SupportProblem(table, values, weights, first, place, total, Y, gram)
        solver, solution = self._solved(problem)
        coefficients, bias = self._function(solution, problem)
        support = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        support = support[np.argsort(first[support])]  # by row of the table
        self.support_ = first[support]
        self.support_vectors_ = np.ascontiguousarray(table[self.support_])
        self.dual_coef_ = np.ascontiguousarray(coefficients[:, support])
        self.intercept_ = np.asarray(bias, dtype=np.float64)
        told |= {"gram": "rows on demand", "precision": solution.report.details["precision"]}
        named = isinstance(self.kernel, str) and self.kernel in NAMED
        note = None if named else _indefinite(gram)
        told |= {} if note is None else {"kernel": note}
        self._tell(solver, solution.report, rows, **told, **self._remarks())
        self._conclude(problem, solution, sample_weight)

    def _solver(self) -> Primal:
        """Return what finds the mode on landmarks."""
        return Primal(self.tol) if self.max_iter < 0 else Primal(self.tol, self.max_iter)

    def _fit_blocks(self, table: Any) -> Self:
        from mercer.estimators.blocks.support import supported

        supported(self, table)
        return self

    def _fit_landmarks(
        self, points: Array, values: Array, Y: Array, total: Array, told: dict[str, Any]
    ) -> None:
        """Learn on landmarks of the points (n, d), chosen in each class."""
        rule, loss = landmarks.given(self.gram), self._loss()
        assert loss is not None
        if (top := float(np.abs(Y).max())) > LARGEST:
            raise ValueError(
                f"the targets reach {top:.3g}: their squares leave the range of floating-point "
                "numbers; give y in other units"
            )
        solver = self._solver()
        solver.check(loss)
        rng = generator(getattr(self, "random_state", None))
        classes = values if hasattr(self, "classes_") else None
        single = solver.takes_single
        gram = landmarks.reduced(self.kernel_, points, classes, total, rule, rng, single)
        basis = np.ones((len(points), 1)) if getattr(self, "bias", True) else None
        solution = solver.solve(gram, Y, loss, basis=basis, weights=total)
        self.support_, self.support_vectors_ = np.zeros(0, dtype=np.intp), gram.support
        self.dual_coef_ = np.ascontiguousarray(gram.carry(solution.alpha).T)
        k = Y.shape[1]
        self.intercept_ = np.zeros(k) if solution.beta is None else solution.beta[0].copy()
        told |= {"gram": gram.name, "left_out": LANDMARKS}
        chosen = rule.described(gram.signal, classes is not None)
        told["inducing"] = {"chosen": chosen} | gram.report()
        self._tell(solver, solution.report, **told)

    # ------------------------------------------------------------------ summary
    def _summary_rows(self) -> list[tuple[str, str, str]]:
        report = self.report_
        ended = report.get("inference", report)  # files of version 0.1 have one level less
        rows = [("Data", "columns", str(len(self.support_vectors_.T)))]
        if "rows" in report:
            counts = report["rows"]
            distinct = f" ({counts['distinct']} distinct)" if "distinct" in counts else ""
            rows.insert(0, ("Data", "rows", f"{counts['used']}{distinct}"))
            if "blocks" in report:
                rows.insert(1, ("Data", "blocks", str(passed(report))))
            if counts["weight"] != counts["used"]:
                rows.append(("Data", "total weight", f"{counts['weight']:.6g}"))
        if "constant_columns" in report:
            text = ", ".join(map(str, report["constant_columns"]))
            rows.append(("Data", "constant columns, which change gamma='scale'", text))
        classes = getattr(self, "classes_", None)
        if classes is not None:
            rows.append(("Data", "classes", ", ".join(str(label) for label in classes)))
        rows.append(("Model", "kernel", repr(self.kernel_)))
        if "kernel" in report:
            rows.append(("Model", "remark on the kernel", report["kernel"]))
        names = [name for name in ("C", "nu", "epsilon") if hasattr(self, name)]
        rows += [("Model", name, f"{getattr(self, name):g}") for name in names]
        if hasattr(self, "epsilon_"):
            rows.append(("Model", "half width of the tube, found", f"{self.epsilon_:.4g}"))
        free = ""
        if "free" in ended:
            free, bounded = (" + ".join(map(str, ended[key])) for key in ("free", "bounded"))
            free = f": {free} free, {bounded} at the bound"
        if "inducing" in report:
            rows.append(("Model", "landmarks", str(represented(report))))
        else:
            rows.append(("Model", "support vectors", f"{len(self.support_)}{free}"))
        rows += [("Quality", label, value) for label, value in self._quality()]
        text = "converged" if ended["converged"] else f"not converged ({ended['message']})"
        text += f" after {ended['iterations']} steps"
        if "violation" in ended:
            text += f", largest violation {ended['violation']:.2g}"
        gap = ended.get("gap")
        if gap is not None:
            text += f", duality gap {gap:.2g}"
        if "inducing" in report:
            rows.append(("Numerics", "Newton steps", f"{text} of {ended['objective']:.4g}"))
            return rows
        rows.append(("Numerics", ended.get("name") or "SMO", text))
        rows.append(("Numerics", "rows of the kernel matrix", str(report["precision"])))
        return rows

    def _quality(self) -> list[tuple[str, str]]:
        """Return labels and values of the summary on rows left out."""
        return [("rows left out", str(self.report_.get("left_out", self._no_left_out)))]


@dataclass(eq=False, repr=False, kw_only=True)
class SupportClassifier(OneAgainstRest, DualMachine):
    """The flow for classes."""

    def _targets(self, y: Any, sample_weight: Any, n: int) -> tuple[Array, Array]:
        given = read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        self.classes_ = given.classes
        return given.codes.astype(np.float64), given.weights

    def _columns(self, values: Array) -> Array:
        return self._signs(values.astype(np.intp))

    def _by_folds(self, X: Array, codes: Index, weights: Array) -> Array:
        """Return the outputs (N, k) of the rows by machines that were fitted without them."""
        if np.bincount(codes).min() < 5:
            raise ValueError(
                "probability='cv' needs at least five rows of each class; use 'loo', which "
                "multi_class='ovr' has"
            )
        outputs = np.empty((len(codes), len(self.dual_coef_)))
        given = getattr(self, "random_state", None)
        seed = 0 if given is None else given
        for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, codes):
            part = clone(self).set_params(probability=None)
            part.fit(X[train], self.classes_[codes[train]], weights[train])
            outputs[test] = part._latent(X[test])
        return outputs


def _rows_on_demand(kernel: Kernel, X: Array, first: Index) -> RowGram:
    """Return K on the points X[first]; a precomputed X becomes a matrix and its row numbers."""
    if not kernel.pairwise:
        return RowGram(kernel, np.ascontiguousarray(X[first]))
    require_square(kernel, X, len(first))
    return RowGram(Precomputed(X), first[:, None].astype(np.float64))


def _indefinite(gram: RowGram) -> str | None:
    """Say that the kernel is not positive semidefinite on some of the points, or None."""
    pick = np.unique(np.linspace(0, len(gram.points) - 1, SAMPLE).astype(np.intp))
    values = np.linalg.eigvalsh(gram.kernel(np.ascontiguousarray(gram.points[pick])))
    if values[0] >= -1e-8 * np.abs(values).max():
        return None
    return (
        f"not positive semidefinite: on {len(pick)} points its eigenvalues reach from "
        f"{values[0]:.3g} to {values[-1]:.3g}, and where the steps ended is not known to be the "
        "optimum"
    )
