"""LapLSClassifier: regularised least squares on a graph."""

from __future__ import annotations

from mercer.estimators.graph.base import GraphMachine
from mercer.inference.base import Inference
from mercer.inference.exact import Exact
from mercer.losses import Gaussian
from mercer.losses.base import Loss


class LapLSClassifier(GraphMachine):
    """Least-squares classification of partly labelled rows, on labels -1 and +1.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + C sum_i w_i (y_i - f(x_i) - b)^2 over functions f on
    the whole space: the sum is over the labelled rows, L is the normalised Laplacian of the
    neighbourhood graph of all rows. The prior is that of :class:`LapMEDClassifier`: all but C,
    parameters and attributes, is described there.

    Parameters
    ----------
    C : > 0, default 100. Weight of the squares, 1 / (2 noise variance of a label).
    beta, gamma_A, gamma_I : default 0.5, None, None.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; "scale" counts all rows.
    n_neighbors, heat, unlabelled : default 10, None, None.
    class_weight : None (default, all 1), "balanced" (over the labelled rows) or a dict.

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

    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """Exact regression with noise 1/(2 C)."""
        return Exact(), Gaussian(noise=0.5 / C)
