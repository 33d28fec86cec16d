"""LapSVC: the support vector machine of manifold regularisation."""

from __future__ import annotations

from typing import Any

from mercer.estimators.graph.base import GraphMachine
from mercer.estimators.support_vector.base import SupportVectorMachine
from mercer.inference.base import Inference, Report
from mercer.inference.smo import SMO
from mercer.losses import Hinge
from mercer.losses.base import Loss


class LapSVC(GraphMachine):
    """Support vector classification of partly labelled rows.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + C sum_i w_i (1 - y_i (f(x_i) + b))_+ over functions f
    on the whole space: the sum is over the labelled rows, L is the normalised Laplacian of the
    neighbourhood graph of all rows. The loss is that of :class:`SVC`, to which it falls back
    without unlabelled rows and with ``beta=0``. The prior is that of :class:`LapMEDClassifier`:
    all but C, tol and max_iter, parameters and attributes, is described there.

    Parameters
    ----------
    C : > 0, default 100. Weight of the hinge loss, and the largest coefficient a row can get.
    beta, gamma_A, gamma_I : default 0.5, None, None.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; "scale" counts all rows.
    n_neighbors, heat, unlabelled : default 10, None, None.
    class_weight : None (default, all 1), "balanced" (over the labelled rows) or a dict.
    tol : > 0, default 1e-6. Largest violation of optimality, in units of f.
    max_iter : default -1, no limit. Steps at most; reaching it is a ConvergenceWarning.

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

    tol: float
    max_iter: int

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
        self._set_all(locals())

    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """The dual of the hinge, as in SVC (GPML 6.38)."""
        return SMO(tol=self.tol, max_iter=self.max_iter), Hinge(C)

    def _warn(self, report: Report) -> None:
        SupportVectorMachine._warn(self, report)  # what SMO has to say
