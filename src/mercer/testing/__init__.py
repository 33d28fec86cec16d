"""Contracts, shipped: one call checks that a part of your own fits the house.

Each function raises AssertionError; the message begins with the name of the clause that is broken
and says what was expected.
"""

from mercer.testing.clauses import check_component
from mercer.testing.estimator import check_estimator
from mercer.testing.inference import check_evidence_gradient, check_inference
from mercer.testing.kernel import check_kernel
from mercer.testing.loss import check_loss
from mercer.testing.process import check_gram, check_process
from mercer.testing.record import check_record

__all__ = [
    "check_component",
    "check_estimator",
    "check_evidence_gradient",
    "check_gram",
    "check_inference",
    "check_kernel",
    "check_loss",
    "check_process",
    "check_record",
]
