"""The operators C of posteriors in ONNX: what is subtracted from the prior variance.

With the cross-covariances K = k(X, P) (q, n) of new rows, C = M'M turns k'C k into the squared
length of K M', whose rounding cannot make it negative.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mercer.core.arrays import Array, half_solve
from mercer.core.errors import ExportError
from mercer.core.memory import require_memory
from mercer.export.expression import Value
from mercer.linalg.line import LineOperator
from mercer.linalg.operators import (
    BasisOperator,
    CholeskyOperator,
    ContrastOperator,
    ExplicitOperator,
    PosteriorOperator,
    SeveralOperator,
    _product,
)
from mercer.process.process import Posterior, Prior


def reduce_diag(posterior: Posterior, K: Value, h: Value | None) -> Value:
    """k'C k less the basis term for each row: (q, 1); h (q, b) are the basis functions."""
    operator = posterior.operator
    n = len(posterior.points)
    require_memory(n, 3, "the graph of a variance", "export")
    if isinstance(operator, LineOperator):
        return (K @ _line_half(posterior, operator).T).square().sum()
    if isinstance(operator, ContrastOperator):
        assert h is not None
        return _contrast(operator, K, h)
    if isinstance(operator, BasisOperator):
        assert h is not None
        u = K @ operator.half(np.eye(n)).T
        k = len(operator.R)
        r = h @ solve_triangular(operator.R, np.eye(k), trans="T").T - u @ operator.Q
        return u.square().sum() - r.square().sum()
    return _plain(operator, K)


def reduced_blocks(operator: SeveralOperator, K: Value) -> list[list[Value]]:
    """k'C_ce k (q, 1) for each pair of functions; zero between independent ones."""
    m, zero = len(operator.operators), 0.0 * K.take([0])
    own = [_plain(each, K) for each in operator.operators]
    if operator.shared is None:
        return [[own[c] if c == e else zero for e in range(m)] for c in range(m)]
    eye = np.eye(len(operator.shared))
    halves = [K @ half_solve(operator.shared, _product(each, eye)).T for each in operator.operators]
    return [
        [
            (own[c] if c == e else zero) - (halves[min(c, e)] * halves[max(c, e)]).sum()
            for e in range(m)
        ]
        for c in range(m)
    ]


def _plain(operator: PosteriorOperator, K: Value) -> Value:
    if isinstance(operator, CholeskyOperator):
        return (K @ operator.half(np.eye(len(operator.scale))).T).square().sum()
    if isinstance(operator, ExplicitOperator) and operator.C is not None:
        return ((K @ operator.C) * K).sum()
    raise ExportError(f"the operator {type(operator).__name__} has no form in ONNX")


def _line_half(posterior: Posterior, operator: LineOperator) -> Array:
    """M (n, n) with M'M = (K + W^-1)^-1, K of a Markov kernel formed after all."""
    assert isinstance(posterior.parent, Prior)
    K, W = posterior.parent.signal(posterior.points), operator.W
    if np.all(W > 0.0):
        K.flat[:: len(K) + 1] += 1.0 / W
        scale = np.ones(len(K))
    else:  # rows of weight zero: S (I + S K S)^-1 S with S = W^1/2
        scale = np.sqrt(W)
        K *= scale[:, None] * scale
        K.flat[:: len(K) + 1] += 1.0
    L = cholesky(K, lower=True)
    return np.asarray(solve_triangular(L, np.diag(scale), lower=True))


def _contrast(operator: ContrastOperator, K: Value, h: Value) -> Value:
    """See :meth:`ContrastOperator.reduce_diag`."""
    c = K - h @ operator.cross.T
    total = ((2.0 * (K @ operator.anchor) - h @ operator.block) * h).sum()
    total = total + (c @ operator.half.T).square().sum()
    if operator.gain is None or operator.tilt is None:
        return total
    return total - (c @ operator.gain.T + h @ operator.tilt.T).square().sum()
