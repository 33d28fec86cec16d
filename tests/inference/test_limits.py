"""Tolerances and limits: what is refused, and what a search makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPClassifier
from mercer.inference import EP, Bound, Laplace, Newton, Variational
from mercer.inference.base import Inference
from mercer.kernels import RBF
from mercer.losses import Logistic
from mercer.search import Optimize

ITERATIVE = [EP, Laplace, Bound, Variational]


@pytest.mark.parametrize("kind", ITERATIVE)
@pytest.mark.parametrize("tol", [0.0, -1e-6, np.inf, np.nan, "1e-6", None])
def test_a_tolerance_is_a_positive_number(kind: type[Inference], tol: object) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} needs a positive finite tol"):
        kind(tol=tol)


@pytest.mark.parametrize("kind", ITERATIVE)
@pytest.mark.parametrize("max_iter", [0, -3, 2.5, np.inf, np.nan, "10", True, None])
def test_iterations_are_counted(kind: type[Inference], max_iter: object) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} needs a whole number max_iter >= 1"):
        kind(max_iter=max_iter)


@pytest.mark.parametrize("kind", [*ITERATIVE, Newton])
def test_limits_set_later_are_refused_before_any_work(kind: type[Inference]) -> None:
    with pytest.raises(ValueError, match="needs a positive finite tol"):
        kind().set_params(tol=-1.0).check(Logistic())


def test_numbers_of_numpy_are_numbers() -> None:
    assert EP(tol=np.float32(1e-3), max_iter=np.int64(7)).max_iter == 7


@pytest.mark.parametrize(
    ("tol", "inner"), [(1e-6, 1e-5), (1e-8, 1e-7), (1e-5, 1e-5), (1e-3, 1e-3), (5e-6, 1e-5)]
)
def test_a_search_may_be_rougher_than_its_result(tol: float, inner: float) -> None:
    ep = EP(tol=tol, max_iter=77)
    rough = ep.searching()
    assert isinstance(rough, EP)
    assert rough.tol == pytest.approx(inner)
    assert rough.max_iter == 77
    assert ep.tol == tol
    assert (rough is ep) == (tol == inner)


def test_the_rougher_search_is_reported_and_the_result_is_not_rough() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=60) > 0
    kernel = 2.0 * RBF(length_scale=1.0)
    fits = [
        GPClassifier(kernel, inference=EP(tol=tol), search=Optimize(restarts=0)).fit(X, y)
        for tol in (1e-6, 1e-10)
    ]
    assert fits[0].report_["search"]["inner_tol"] == pytest.approx(1e-5)
    assert fits[0].report_["inference"]["residual"] <= 1e-6
    assert fits[0].log_evidence_ == pytest.approx(fits[1].log_evidence_, abs=1e-8)
    laplace = GPClassifier(kernel, inference="laplace", search=Optimize(restarts=0)).fit(X, y)
    assert "inner_tol" not in laplace.report_["search"]
