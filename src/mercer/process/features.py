"""FeatureProcess: functions that are linear in the explicit features of a kernel.

mean(x) = phi(x)'w + b,    cov(x, z) = k(x, z) = phi(x)'phi(z)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.process.process import BATCH_BYTES, Process


class FeatureProcess(Process):
    """Formulas (1) and (2) in weight space, for a mode: the covariance is that of the kernel.

    What was learned is in the weights, so that memory does not grow with the rows seen.

    Parameters
    ----------
    kernel : k, which offers the features phi.
    weights : (k, m) weights of the m features, one row for each of k functions.
    bias : (k,) constants b, zero if None.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> FeatureProcess(Linear(), np.array([[1.0, -2.0]]), np.array([0.5])).mean(np.eye(2))
    array([[ 1.5],
           [-1.5]])
    """

    def __init__(self, kernel: Kernel, weights: Array, bias: Array | None = None) -> None:
        self.kernel = kernel
        self.weights = weights
        self.bias = bias

    def of_features(self, F: Any) -> Array:
        """Return the mean without the bias for features F (q, m), which may be sparse: (q, k)."""
        return np.asarray(F @ self.weights.T)

    def mean(self, X: Any) -> Array:
        """See :meth:`Process.mean`; X may be sparse where the kernel takes it so."""
        k, m = self.weights.shape
        size = max(1, BATCH_BYTES // (16 * m))
        starts = range(0, X.shape[0], size)
        parts = [self.of_features(self.kernel.features(X[i : i + size])) for i in starts]
        f = np.concatenate([np.zeros((0, k)), *parts])
        return f if self.bias is None else f + self.bias

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """See :meth:`Process.__call__`."""
        return self.kernel(X, Z)

    def diag(self, X: Array) -> Array:
        """See :meth:`Process.diag`."""
        return self.kernel.diag(X)
