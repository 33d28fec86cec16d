"""Components: parameters, marks, copies, repr, dictionary form."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from sklearn.base import clone

from mercer.core.component import POSITIVE, Component, Mark
from mercer.kernels import RBF, Constant, Function, Linear, Matern
from mercer.losses import Gaussian
from mercer.search import LogNormal, Optimize, Space, Uniform
from mercer.testing import check_component


def nested() -> Component:
    return 2.0 * RBF(np.array([1.0, 2.0])).on([0, 1]) + Matern(nu=1.5).on(2) * Constant(0.3)


def _all(part: Component) -> list[Component]:
    marks = [m.prior for m in getattr(part, "_marks", {}).values() if m.prior is not None]
    return [part, *marks, *(c for k in part.children().values() for c in _all(k))]


def test_parameters_by_path() -> None:
    kernel = nested()
    params = kernel.get_params()
    assert params["0__variance"] == 2.0
    np.testing.assert_array_equal(params["0__kernel__kernel__length_scale"], [1.0, 2.0])
    assert kernel.get_params(deep=False).keys() == {"parts"}
    kernel.set_params(**{"0__variance": 5.0, "1__1__value": 0.7})
    assert kernel.get_params()["0__variance"] == 5.0
    assert kernel.get_params()["1__1__value"] == 0.7


def test_unknown_parameters_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="RBF has no parameter 'lengthscale'; it has: length_sc"):
        RBF().set_params(lengthscale=1.0)
    with pytest.raises(ValueError, match=r"no differentiable parameter 'noise'.*variance"):
        (2.0 * RBF()).fix("noise")
    with pytest.raises(ValueError, match="no differentiable parameter"):
        RBF().bound(variance=(0.1, 1.0))
    with pytest.raises(ValueError, match="low < high"):
        RBF().bound(length_scale=(2.0, 1.0))


def test_what_is_free() -> None:
    kernel = nested()
    assert set(kernel.free) == {
        "0__variance", "0__kernel__kernel__length_scale", "1__0__kernel__length_scale",
        "1__1__value",
    }  # fmt: skip
    assert kernel.free["0__variance"] is POSITIVE
    some = kernel.fix("0__variance", "1__1__value")
    assert set(some.free) == {"0__kernel__kernel__length_scale", "1__0__kernel__length_scale"}
    assert kernel.fix().free == {}


def test_marks_are_copies_and_add_up() -> None:
    plain = RBF(2.0)
    marked = plain.bound(length_scale=(0.5, 3.0)).prior(length_scale=LogNormal(0, 1))
    assert plain.mark("length_scale") == Mark()
    assert marked.mark("length_scale") == Mark(False, (0.5, 3.0), LogNormal(0, 1))
    assert marked.fix().mark("length_scale") == Mark(True, (0.5, 3.0), LogNormal(0, 1))
    assert marked != plain


def test_a_prior_that_is_none_is_refused() -> None:
    """A prior must not be dropped silently."""
    with pytest.raises((TypeError, ValueError), match="prior"):
        Space({"kernel": RBF(2.0).prior(length_scale=Linear())})
    with pytest.raises((TypeError, ValueError), match="prior"):
        Space({"kernel": RBF(2.0).prior(length_scale=LogNormal)})


def test_copies_are_deep() -> None:
    kernel = nested().bound(**{"0__variance": (0.1, 10.0)})
    for twin in (copy.deepcopy(kernel), clone(kernel), kernel.__sklearn_clone__()):
        assert twin == kernel
        twin.set_params(**{"0__variance": 9.0})
        twin.parts[0].kernel.kernel.length_scale[0] = 77.0
        assert kernel.get_params()["0__variance"] == 2.0
        assert kernel.parts[0].kernel.kernel.length_scale[0] == 1.0


def test_equality() -> None:
    assert RBF(2.0) == RBF(2.0)
    assert RBF(2.0) != RBF(2.0).fix()
    assert RBF(2.0) != RBF(np.array([2.0]))
    assert RBF(np.array([1.0, 2.0])) == RBF(np.array([1.0, 2.0]))
    assert RBF() != Linear()
    assert RBF() != 3
    assert (RBF() + Linear()) != (Linear() + RBF())
    with pytest.raises(TypeError):
        hash(RBF())


@pytest.mark.parametrize("value", [1e-20, 3.5e-13, 0.1, 1.0, 123456.789, 4.2e9, 1e300])
def test_repr_shows_the_value(value: float) -> None:
    """A variance of 1e-20 (targets in tiny units) is not zero."""
    text = repr(Gaussian(noise=value)).removeprefix("Gaussian(").removeprefix("noise=")
    shown = float(text.removesuffix(")") or 1.0)
    assert math.isclose(shown, value, rel_tol=1e-5)


def test_repr_leaves_out_the_defaults() -> None:
    assert repr(RBF()) == "RBF()"
    assert repr(2.0 * RBF(3.0)) == "Scale(kernel=RBF(length_scale=3.0), variance=2.0)"
    assert repr(Optimize(restarts=5)) == "Optimize(restarts=5)"


@pytest.mark.parametrize(
    "part",
    [
        nested(),
        nested().fix("0__variance").bound(**{"1__1__value": (0.1, 2.0)}),
        RBF(2.0).prior(length_scale=Uniform(0.5, 4.0)),
        Gaussian(noise=np.array([0.1, 0.2])),
        Gaussian(noise=np.float64(0.25)),
        Optimize(restarts=2, n_jobs=2),
    ],
    ids=lambda p: type(p).__name__,
)
def test_dictionary_form(part: Component) -> None:
    check_component(part)
    known = {type(p).part_name(): type(p) for p in _all(part)}
    data = part.to_dict()
    assert data["class"] == type(part).part_name()
    back = Component.from_dict(data, known.__getitem__)
    assert back == part
    assert back.to_dict().keys() == data.keys()


def test_dictionary_form_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(TypeError, match="function cannot be written to a model file"):
        Function(lambda X, Z: X @ Z.T).to_dict()
    data = RBF(2.0).to_dict()
    data["params"]["colour"] = "red"
    with pytest.raises(ValueError, match=r"kernels.RBF has no parameter \['colour'\]"):
        Component.from_dict(data, {"kernels.RBF": RBF}.__getitem__)


def test_names_of_parts() -> None:
    class Own(RBF):
        pass

    assert RBF.part_name() == "kernels.RBF"
    assert Gaussian.part_name() == "losses.Gaussian"
    assert Own.part_name() == f"{__name__}.Own"
