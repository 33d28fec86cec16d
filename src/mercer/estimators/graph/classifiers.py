"""Three classifiers of partly labelled rows, on the prior that the graph of all rows conditions.

``LapMEDClassifier`` is maximum-entropy discrimination, also in streams; ``LapSVC`` the support
vector machine, and ``LapLSClassifier`` the least squares of manifold regularisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.graph.base import GraphMachine
from mercer.estimators.graph.stream import GraphStream
from mercer.estimators.support_vector.base import SupportVectorMachine
from mercer.inference.base import Inference, Report
from mercer.inference.exact import Exact
from mercer.inference.med import MED
from mercer.inference.smo import SMO
from mercer.kernels import Kernel
from mercer.losses import Gaussian, Hinge
from mercer.losses.base import Loss
from mercer.losses.binary.margins import Margin

NEAR_ONE = 3.0  # C k(x, x) from which on there is little to learn


class LapMEDClassifier(GraphStream):
    """Maximum entropy discrimination of partly labelled rows, at once or batch by batch.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + sum_i w_i g_C(y_i (f(x_i) + b)): the sum is over the
    labelled rows, g_C is :class:`mercer.losses.Margin`, and L is the normalised Laplacian of the
    neighbourhood graph of all rows. The graph term turns the kernel into

        k_new(x, z) = k(x, z) - k(x, X) P k(X, z),    P = (I + 2 beta L K)^-1 2 beta L

    (a prior conditioned on smoothness), so that predictions at new points need nothing more. In
    :meth:`partial_fit` the posterior of a batch, kernel included, is the prior of the next.

    Parameters
    ----------
    C : > 1, default 100. Slack parameter, the same for every batch: the kernel shrinks by itself as
        rows come, and that averages over the batches. ``report_["slack"]`` says when C k_new(x, x)
        comes near 1, where nothing more is learned.
    beta : >= 0, default 0.5. Weight of the smoothness.
    gamma_A, gamma_I : > 0 and >= 0, default None. The weights of Belkin, Niyogi & Sindhwani, both
        or none, instead of C and beta: C = 1 / (2 l gamma_A), beta = gamma_I / (2 gamma_A n^2) for
        the n rows of a batch of which l are labelled.
    amplitude : > 0, default 1. Prior variance of f, a factor of the kernel.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; see :class:`SVC`. What depends on
        the data (``gamma="scale"``) is that of the first batch, unlabelled rows included.
    n_neighbors : >= 1, default 10. Neighbours of each row in the graph.
    heat : > 0, in squared units of X; default None. h in the weights exp(-d^2 / (4 h));
        ``numpy.inf`` makes all of them one, None is the median squared distance to the farthest of
        a row's neighbours, in each batch.
    unlabelled : default None. Rows whose label is None or NaN are unlabelled. A value given here
        marks them too: -1 for scikit-learn's convention (by default -1 is a label like others).
    class_weight : None (default, all 1), "balanced" (in ``fit`` only, over the labelled rows) or a
        dict from class to weight >= 0.
    budget : >= 0, default 2000. Rows up to which a stream is exact, at 8 budget^2 bytes; beyond,
        and from the first batch on if 0, it is carried by landmarks. None is exact whatever it
        takes, as ``fit`` is.
    landmarks : >= 0, default 20. Points of each batch, at most, that become landmarks.
    max_landmarks : >= 0, default 1000. Landmarks in all, at most.
    residual : default True, which keeps what the landmarks miss of the kernel; this needs the
        support vectors. False drops it, and memory no longer grows with the labelled rows.
    max_support : >= 0, default 5000. Support vectors that are kept beside the landmarks; those that
        matter least beyond are represented by the landmarks alone.
    merge : >= 1, default "auto". Rows that unlabelled batches must have together to make a graph;
        until then they wait (and join a batch with labels if one comes). "auto" is
        ``n_neighbors + 1``, 1 never waits.
    tol : > 0, default 1e-8. Duality gap at which a batch is solved, relative to the objective.
    max_iter : >= 1, default 200. Steps of the interior point at most; reaching it is a
        ConvergenceWarning.

    Attributes
    ----------
    posteriors_ : list with one :class:`mercer.process.Posterior`: mean f + b, k outputs, covariance
        k_new.
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ kernel_(support_vectors_, x) + intercept_``. Unlabelled rows are among them.
    support_ : (s,) their rows, counted from the beginning of the stream.
    stream_ : (2,) batches and rows learned.
    process_ : the prior of the next batch, a :class:`mercer.process.Posterior`: mean f without
        bias, covariance k_new.
    kernel_ : the kernel before any smoothing, amplitude included.
    memory_, waiting_ : what carries the stream, and (u, d) rows too few for a graph so far.
    left_out_ : None.
    report_ : ``inference`` (convergence, duality gap, objective), ``C``, ``beta``, ``labelled``
        rows, the ``graph`` (its edges and heat), ``margin_scale``, the median of C k_new(x, x) at
        the labelled rows, and the ``memory`` in use.
    classes_, n_features_in_, feature_names_in_

    References
    ----------
    Hou & Hero, Sequential maximum margin classifiers for partially labeled data, 2018, Theorem 2;
    Belkin, Niyogi & Sindhwani, Manifold regularization, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LapMEDClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> y = ["a", None, None, None, None, "b"]
    >>> model = LapMEDClassifier(n_neighbors=2).fit(X, y)
    >>> model.predict([[2.5], [5.5]])
    array(['a', 'b'], dtype='<U1')
    >>> model.partial_fit([[2.4], [3.0], [3.4]], [None, "a", None]).predict([[3.5]])
    array(['a'], dtype='<U1')
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        beta: float = 0.5,
        gamma_A: float | None = None,
        gamma_I: float | None = None,
        amplitude: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        n_neighbors: int = 10,
        heat: float | None = None,
        unlabelled: Any = None,
        class_weight: Any = None,
        budget: int | None = 2000,
        landmarks: int = 20,
        max_landmarks: int = 1000,
        residual: bool = True,
        max_support: int = 5000,
        merge: int | str = "auto",
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        self._set_all(locals())

    def _check_params(self) -> None:
        super()._check_params()
        if self.gamma_A is None and self.C <= 1.0:
            raise ValueError(
                f"C must be above 1, got {self.C!r}: at C <= 1 no row has any weight and nothing "
                "is learned; for a softer margin make the amplitude smaller"
            )

    def _scaled(self, kernel: Kernel) -> Kernel:
        return kernel if self.amplitude == 1.0 else float(self.amplitude) * kernel

    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """Theorem 2: the dual with the conditioned kernel."""
        if C <= 1.0:
            raise ValueError(
                f"gamma_A={self.gamma_A!r} makes C = 1 / (2 l gamma_A) = {C:.3g} for "
                f"{labelled:g} labelled rows; at C <= 1 nothing is learned: make gamma_A smaller"
            )
        return MED(self.tol, self.max_iter, near=self.intercept_), Margin(C)

    def _remarks(self, K: Array | None, C: float) -> dict[str, Any]:
        found = super()._remarks(K, C)
        if K is None:
            return found
        scale = C * float(np.median(K.diagonal()))
        if scale < NEAR_ONE:
            found["slack"] = (
                f"C k(x, x) is {scale:.3g} at the labelled rows of the last batch, near 1, below "
                "which a label has no weight: use a larger C or a smaller beta"
            )
        return found | {"margin_scale": scale}


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
