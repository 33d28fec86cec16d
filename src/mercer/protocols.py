"""The whole vocabulary on one page: names, shapes and signs of the contracts.

n points, d columns, m outputs that share one kernel, k basis functions, p points of another set.
A loss is minimised; E is a log evidence, to be maximised. The classes that fulfil the contracts do
the shared work in their own rooms (``kernels.base``, ``losses.base``, ``linalg.gram``,
``inference.base``, ``process``, ``search.optimize``); nothing in mercer asks for more than this.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from mercer.arrays import Array, Index


@runtime_checkable
class KernelLike(Protocol):
    """What is smooth."""

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Return k(X, Z) (n, p), fresh."""

    def diag(self, X: Array) -> Array:
        """Return k(x_i, x_i) (n,)."""

    def pullback(self, X: Array, Z: Array | None, Q: Array) -> dict[str, float | Array]:
        """d<Q, k(X, Z)>/d name for each differentiable parameter; never an n x n x p tensor."""


@runtime_checkable
class LossLike(Protocol):
    """What is observed. Only ``value`` is required; an inference names what else it needs."""

    def value(self, y: Array, f: Array) -> Array:
        """Return g(y, f); for a normalised loss -log p(y | f)."""


@runtime_checkable
class FactorLike(Protocol):
    """C = (K + W^-1)^-1 for one Gram and weights W (n,)."""

    def solve(self, V: Array) -> Array:
        """C V."""

    def quad(self, A: Array, B: Array) -> Array:
        """A' C B."""

    def diag(self) -> Array:
        """Return the diagonal of C."""

    def cov_diag(self) -> Array:
        """Return the diagonal of K - K C K."""

    def logdet(self) -> float:
        """log |I + K W|."""


@runtime_checkable
class GramLike(Protocol):
    """How C is applied."""

    points: Array
    exact: bool

    def __matmul__(self, V: Array) -> Array:
        """K V."""

    def diag(self) -> Array:
        """Return the diagonal of K."""

    def rows(self, index: Index) -> Array:
        """Return rows of K."""

    def factor(self, W: Array) -> FactorLike:
        """Return C for W."""

    def pullback(
        self, alpha: Array, factor: Any, U: Array | None = None, V: Array | None = None
    ) -> dict[str, float | Array]:
        """Contract dE/dK = (alpha alpha' - C)/2 + U V' with dK/d name: formula (3)."""


@runtime_checkable
class InferenceLike(Protocol):
    """How alpha and W are found."""

    needs: tuple[str, ...]

    def solve(self, gram: Any, y: Array, loss: Any, **options: Any) -> Any:
        """Return Solution(alpha, W, z, factor, beta, weights, report)."""

    def evidence(self, gram: Any, y: Array, loss: Any, solution: Any, **options: Any) -> Any:
        """Return Evidence(value, U, V, loss_gradient)."""


@runtime_checkable
class ProcessLike(Protocol):
    """A prior or a posterior over functions."""

    def mean(self, X: Array) -> Array:
        """Return the mean (n, m)."""

    def var(self, X: Array) -> Array:
        """Return the variance (n,)."""

    def cov(self, X: Array) -> Array:
        """Return the covariance (n, n)."""

    def sample(self, X: Array, n_samples: int, rng: Any) -> Array:
        """Return draws (n, m, n_samples)."""

    def condition(self, X: Array, solution: Any, basis: Any = None) -> Any:
        """Return the posterior, which is a process again."""


@runtime_checkable
class SearchLike(Protocol):
    """Which hyperparameters."""

    def run(self, criterion: Any, space: Any, rng: Any) -> list[Any]:
        """Return the draws: one for a maximum, many for a sampler."""
