"""scikit-learn's conventions, completely."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import GPRegressor, KernelRegressor
from mercer.kernels import RBF, Matern
from tests.short import SHORT

# Their searches take most of the time, and what is checked does not depend on them: a few steps
# here, of tables the machine alone, and with all their defaults among the slow tests.
ESTIMATORS = [
    cls(**SHORT.get(name, {}))
    for name in mercer.__all__
    if isinstance(cls := getattr(mercer, name), type) and hasattr(cls, "fit")
]


def test_estimators_are_found() -> None:
    assert {type(e).__name__ for e in ESTIMATORS} >= {"GPRegressor", "KernelRegressor"}


# Checks whose data a method excludes, with the reason; each is repeated on suitable data beside
# (tests/estimators/test_support_vector.py).
NU = "the check's classes are so unbalanced that nu=0.5 is infeasible, which is refused"
ONE_COLUMN = (
    "the check's data have several columns, and a smoothing spline is of one column: all checks "
    "are repeated on one in test_splines_sklearn.py"
)
OF_SEVERAL_COLUMNS = [
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
]
MANY_POLYNOMIALS = (
    "the check's data have more unpenalised polynomials of their columns than rows, which is "
    "refused: all checks are repeated on two columns in test_thin_plate_sklearn.py"
)
OF_MANY_COLUMNS = [
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_n_features_in_after_fitting",
    "check_regressor_data_not_an_array",
    "check_regressor_multioutput",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
]
SEVERAL = (
    "the check wants one number for each row, and three levels are three: the checks are repeated "
    "for one level in test_quantiles.py"
)
EXCLUDED = {
    "QuantileRegressor": {"check_regressors_train": SEVERAL},
    "ThinPlateSpline": dict.fromkeys(OF_MANY_COLUMNS, MANY_POLYNOMIALS),
    "SmoothingSpline": dict.fromkeys(OF_SEVERAL_COLUMNS, ONE_COLUMN),
    "NuSVC": {
        "check_class_weight_classifiers": NU,
        "check_dtype_object": NU,
        "check_sample_weight_equivalence_on_dense_data": NU,
    },
}


def excluded(estimator: object) -> dict[str, str]:
    return EXCLUDED.get(type(estimator).__name__, {})


@pytest.mark.usefixtures("unjudged")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=excluded)
def test_conventions(estimator: object, check: object, request: pytest.FixtureRequest) -> None:
    failing = request.node.get_closest_marker("xfail")
    if failing is not None:  # not run: the report of a failure takes longer than the check
        pytest.xfail(failing.kwargs["reason"])
    check(estimator)  # type: ignore[operator]


@pytest.mark.slow
@parametrize_with_checks(
    [getattr(mercer, name)() for name in SHORT], expected_failed_checks=excluded
)
def test_conventions_with_all_defaults(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def table(rng: np.random.Generator, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def test_grid_search_reaches_into_the_kernel(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = make_pipeline(StandardScaler(), KernelRegressor(1.0 * RBF(), search=None))
    grid = {"kernelregressor__kernel__kernel__length_scale": [0.1, 1.0, 10.0]}
    found = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert found.best_params_["kernelregressor__kernel__kernel__length_scale"] == 1.0


def test_clone_does_not_share_the_kernel() -> None:
    model = GPRegressor(2.0 * RBF())
    twin = clone(model)
    twin.set_params(kernel__variance=7.0)
    assert model.kernel.variance == 2.0
    assert twin.get_params()["kernel__kernel__length_scale"] == 1.0


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns(rng: np.random.Generator, frame: type) -> None:
    X, y = table(rng)
    named = frame({"age": X[:, 0], "bmi": X[:, 1]})
    kernel = 1.0 * RBF().on(["age"]) + 1.0 * Matern().on("bmi")
    model = GPRegressor(kernel).fit(named, y)
    assert list(model.feature_names_in_) == ["age", "bmi"]
    plain = GPRegressor(1.0 * RBF().on([0]) + 1.0 * Matern().on(1)).fit(X, y)
    np.testing.assert_allclose(model.predict(named), plain.predict(X), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"bmi": X[:, 1], "age": X[:, 0]}))


def test_unknown_column_is_named(rng: np.random.Generator) -> None:
    X, y = table(rng)
    named = pd.DataFrame({"age": X[:, 0], "bmi": X[:, 1]})
    with pytest.raises(ValueError, match="age"):
        GPRegressor(1.0 * RBF().on(["aeg"])).fit(named, y)


def test_html_repr(rng: np.random.Generator) -> None:
    X, y = table(rng)
    assert "GPRegressor" in GPRegressor().fit(X, y)._repr_html_()
