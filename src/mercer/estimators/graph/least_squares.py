"""LapLSClassifier: regularised least squares on a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.graph.base import GraphFit, GraphMachine
from mercer.inference.exact import Exact
from mercer.kernels import Precomputed
from mercer.linalg.dense.gram import DenseGram
from mercer.losses import Gaussian


class LapLSClassifier(GraphMachine):
    """Least-squares classification of partly labelled rows, on labels -1 and +1.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + C sum_i w_i (y_i - f(x_i) - b)^2 over functions f on
    the whole space: the sum is over the labelled rows, L is the normalised Laplacian of the
    neighbourhood graph of all rows. The prior is that of :class:`LapMEDClassifier`.

    Parameters
    ----------
    C : weight of the squares, 1 / (2 noise).
    beta, gamma_A, gamma_I : see :class:`LapMEDClassifier`.
    kernel, degree, gamma, coef0 : see :class:`SVC`; ``gamma="scale"`` counts all rows.
    n_neighbors, heat, unlabelled : see :class:`LapMEDClassifier`.
    class_weight : None, "balanced" (over the labelled rows) or a dict.

    Attributes
    ----------
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ kernel_(support_vectors_, x) + intercept_``.
    support_ : (s,) their rows.
    report_ : C and beta, and the graph: its edges and the heat parameter.
    classes_, kernel_, n_features_in_, feature_names_in_

    References
    ----------
    Belkin, Niyogi & Sindhwani, Manifold regularization, 2006, section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LapLSClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> model = LapLSClassifier(n_neighbors=2).fit(X, ["a", None, None, None, None, "b"])
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

    def _machine(self, K: Array, y: Array, w: Array, C: float) -> GraphFit:
        """Exact regression with noise 1/(2 C) and a free constant."""
        places, one = np.arange(len(y), dtype=np.float64)[:, None], np.ones((len(y), 1))
        gram = DenseGram(Precomputed(0.5 * (K + K.T)), places)
        loss = Gaussian(noise=0.5 / C)
        solution = Exact().solve(gram, y[:, None], loss, basis=one, weights=w)
        assert solution.beta is not None
        return GraphFit(solution.alpha[:, 0], float(solution.beta[0, 0]), solution.report.plain())

    def _joined(self, reports: list[dict[str, Any]]) -> dict[str, Any]:
        """What the factorisation of the (only) kernel matrix said."""
        return reports[0] | {"converged": True, "iterations": 1}
