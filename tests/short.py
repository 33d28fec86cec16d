"""Short searches, for tests of what does not depend on how well a search ends."""

from mercer.search import Optimize

FEW = Optimize(restarts=0, max_iter=3)
SHORT = {
    "AdditiveRegressor": {"search": FEW},
    "GPClassifier": {"search": FEW},
    "MultiOutputGPRegressor": {"search": FEW},
    "ProbabilisticLeastSquaresClassifier": {
        "search": Optimize(criterion="plsc", restarts=0, max_iter=3)
    },
    "QuantileRegressor": {"search": None},
    "RVClassifier": {"search": None},
    "TableClassifier": {"candidates": ["linear"]},
    "TableRegressor": {"candidates": ["linear"]},
}
