"""The hinge seen by a statistician: what it lacks to be a likelihood, and the weights it hides.

Theory (S7), (S9).
"""

from __future__ import annotations

import numpy as np
from scipy import special

from mercer.arrays import Array
from mercer.losses.base import check_positive


def hinge_normaliser(f: Array, C: float = 1.0) -> Array:
    """Return nu(f; C), the total mass that the hinge gives to the two labels at f.

        nu(f; C) = kappa [e^{-C (1 - f)_+} + e^{-C (1 + f)_+}],    kappa = 1 / (1 + e^{-2 C})

    A likelihood would have a mass free of f. The hinge's has its maximum 1 at f = +-1, is sech C at
    f = 0 and tends to kappa far out: for no C > 0 is it constant, so exp(-hinge) is no probability
    of a label. The missing mass would belong to a third answer, "do not know", that nobody gave;
    :class:`~mercer.losses.NormalizedHinge` divides it out.

    Parameters
    ----------
    f : array of any shape, the latent value.
    C : > 0, slope of the hinge.

    Returns
    -------
    Array of the shape of f, between min(kappa, sech C) and 1.

    Reference: GPML (6.39); kappa as in Sollich (2002), which makes the largest mass one.

    Examples
    --------
    >>> import numpy as np
    >>> hinge_normaliser(np.array([-1.0, 0.0, 1.0]), C=1.0).round(6)
    array([1.      , 0.648054, 1.      ])
    """
    check_positive("hinge_normaliser", C=C)
    a = np.abs(np.asarray(f, dtype=np.float64))
    nearer = -C * np.maximum(1.0 - a, 0.0)  # exponents of the two labels, largest first
    farther = -C * (1.0 + a)
    return np.asarray(np.exp(np.logaddexp(nearer, farther) + special.log_expit(2.0 * C)))


def reweight(u: Array) -> Array:
    """Return the weight w~(u) that turns the logistic loss of a margin u = y f into the hinge's.

        w~(u) = (1 - u)_+ / log(1 + e^-u),    sum_i (1 - u_i)_+ = sum_i w~(u_i) log(1 + e^-u_i)

    A support vector classifier is then a kernel logistic regression whose data are reweighted as it
    learns: rows beyond the margin count nothing, rows inside it most (1.5422 at u = -0.6121), and
    the weight tends to 1 for rows far on the wrong side, where boosting's e^-u has no bound. With
    S = sum_i w~_i, the weights w~_i / S and the kernel's variance times S / n state the same
    problem. For pictures and diagnosis: nothing is trained with it.

    Parameters
    ----------
    u : array of any shape, margins y f.

    Returns
    -------
    Array of the shape of u, >= 0.

    Reference: M. Seeger's thesis (2.36)-(2.38), figure 2.4; the maximum is 1.5422, not "roughly
    1.6".

    Examples
    --------
    >>> import numpy as np
    >>> reweight(np.array([-1e6, -0.6121, 0.0, 1.0])).round(4)
    array([1.    , 1.5422, 1.4427, 0.    ])
    """
    u = np.asarray(u, dtype=np.float64)
    inside = np.minimum(u, 1.0)  # beyond the margin the weight is zero: no 0/0 for large u
    return np.asarray(np.maximum(1.0 - u, 0.0) / -special.log_expit(inside))
