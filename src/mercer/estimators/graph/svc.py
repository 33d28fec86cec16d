"""LapSVC: the support vector machine of manifold regularisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.graph.base import GraphFit, GraphMachine
from mercer.estimators.shared.summary import warn_machine
from mercer.estimators.support_vector.base import joined
from mercer.inference.programme import dual_of
from mercer.inference.smo import SMO
from mercer.kernels import Precomputed
from mercer.linalg.rows import RowCache
from mercer.losses import Hinge


class LapSVC(GraphMachine):
    """Support vector classification of partly labelled rows.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + C sum_i w_i (1 - y_i (f(x_i) + b))_+ over functions f
    on the whole space: the sum is over the labelled rows, L is the normalised Laplacian of the
    neighbourhood graph of all rows. The prior is that of :class:`LapMEDClassifier`, the loss that
    of :class:`SVC`, to which it falls back without unlabelled rows and with ``beta=0``.

    Parameters
    ----------
    C : weight of the hinge loss.
    beta, gamma_A, gamma_I : see :class:`LapMEDClassifier`.
    kernel, degree, gamma, coef0 : see :class:`SVC`; ``gamma="scale"`` counts all rows.
    n_neighbors, heat, unlabelled : see :class:`LapMEDClassifier`.
    class_weight : None, "balanced" (over the labelled rows) or a dict.
    tol : largest violation of optimality.
    max_iter : steps at most, -1 for no limit; reaching it is a ConvergenceWarning.

    Attributes
    ----------
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ kernel_(support_vectors_, x) + intercept_``. Unlabelled rows are among them.
    support_ : (s,) their rows.
    report_ : convergence, C and beta, and the graph: its edges and the heat parameter.
    classes_, kernel_, n_features_in_, feature_names_in_

    References
    ----------
    Belkin, Niyogi & Sindhwani, Manifold regularization, 2006, section 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LapSVC
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> model = LapSVC(n_neighbors=2).fit(X, ["a", None, None, None, None, "b"])
    >>> model.predict([[2.5], [5.5]])
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        beta: float = 0.5,
        gamma_A: float | None = None,
        gamma_I: float | None = None,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        n_neighbors: int = 10,
        heat: float | None = None,
        unlabelled: Any = None,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = -1,
    ) -> None:
        self.C = C
        self.beta = beta
        self.gamma_A = gamma_A
        self.gamma_I = gamma_I
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_neighbors = n_neighbors
        self.heat = heat
        self.unlabelled = unlabelled
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter

    def _machine(self, K: Array, y: Array, w: Array, C: float) -> GraphFit:
        """The dual of the hinge, as in SVC (GPML 6.38)."""
        n = len(y)
        programme = dual_of(Hinge(), y, C * w, bias=True)
        places = np.arange(n, dtype=np.float64)[:, None]
        rows = RowCache(Precomputed(0.5 * (K + K.T)), places, 8.0 * n * n, single=False)
        optimum = SMO(self.tol, self.max_iter).climb(programme, rows)
        return GraphFit(optimum.beta, float(optimum.level[0]), optimum.report.plain())

    def _joined(self, reports: list[dict[str, Any]]) -> dict[str, Any]:
        report = joined(reports)
        warn_machine("LapSVC", self.get_params(deep=False), report)
        return report
