"""The referee: how far an approximate posterior is from the truth, on your own data."""

from mercer.referee.check import InferenceCheck
from mercer.referee.compared import Compared
from mercer.referee.evidence import EvidenceBracket
from mercer.referee.gaussian import gaussian_bound

__all__ = ["Compared", "EvidenceBracket", "InferenceCheck", "gaussian_bound"]
