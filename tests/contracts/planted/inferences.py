"""Inferences with one mistake each, beside the parent without it and the clause that names it."""

from __future__ import annotations

from dataclasses import replace

from mercer.inference import Exact, Laplace, Report
from mercer.losses import Gaussian, Poisson


class NoExtraTerm(Laplace):
    def evidence(self, *args, **kwargs):
        return replace(super().evidence(*args, **kwargs), U=None, V=None)


class OneInAThousand(Laplace):
    def evidence(self, *args, **kwargs):
        found = super().evidence(*args, **kwargs)
        return replace(found, value=1.001 * found.value)


class WrongSites(Exact):
    def solve(self, *args, **kwargs):
        found = super().solve(*args, **kwargs)
        return replace(found, z=1.01 * found.z)


class Constant(Laplace):
    def evidence(self, *args, **kwargs):
        found = super().evidence(*args, **kwargs)
        return replace(found, value=found.value + 0.5)


class IgnoresWeights(Laplace):
    def solve(self, gram, y, loss, *, weights=None, **kwargs):
        found = super().solve(gram, y, loss, **kwargs)
        return found if weights is None else replace(found, weights=weights)


class IgnoresMean(Laplace):
    def solve(self, gram, y, loss, *, mean=None, **kwargs):
        return super().solve(gram, y, loss, **kwargs)


class IgnoresBasis(Exact):
    def solve(self, gram, y, loss, *, basis=None, **kwargs):
        return super().solve(gram, y, loss, **kwargs)


class IgnoresSpread(Exact):
    def evidence(self, gram, y, loss, solution, *, spread=None):
        return super().evidence(gram, y, loss, solution)


class ReturnsItsStart(Laplace):
    def solve(self, gram, y, loss, *, start=None, **kwargs):
        return start or super().solve(gram, y, loss, **kwargs)


class EmptyReport(Laplace):
    def solve(self, *args, **kwargs):
        return replace(super().solve(*args, **kwargs), report=Report())


class SilentNeeds(Laplace):
    needs = ()


PARENTS = [(Laplace(), Poisson()), (Exact(), Gaussian(0.3))]
PLANTED = [
    (NoExtraTerm(), Poisson(), "gradient of kernel__"),
    (OneInAThousand(), Poisson(), "gradient of kernel__"),
    (WrongSites(), Gaussian(0.3), "z"),
    (Constant(), Poisson(), "evidence"),
    (IgnoresWeights(), Poisson(), "weights"),
    (IgnoresMean(), Poisson(), "mean"),
    (IgnoresBasis(), Gaussian(0.3), "basis"),
    (IgnoresSpread(), Gaussian(0.3), "spread"),
    (ReturnsItsStart(), Poisson(), "start"),
    (EmptyReport(), Poisson(), "report"),
    (SilentNeeds(), Poisson(), "needs"),
]
