"""Where a representation of many rows serves, and the sentence where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.linalg.representation import Inducing, Iterative

if TYPE_CHECKING:
    from mercer.estimators.shared.parts import Parts


def check_inducing(parts: Parts, given: Inducing, d: int) -> None:
    """Refuse inducing points where they do not serve, for a table of d columns."""
    given.check(d)
    if parts.kernel.pairwise:
        raise ValueError(
            "inducing points need a kernel of the inputs: of precomputed values give "
            "Precomputed(matrix) with row numbers as X, or gram='auto'"
        )
    if parts.loss.response == "multiclass" and parts.inference.has_evidence:
        raise ValueError(
            "a softmax couples its classes in an n x n matrix, and inducing points have none: "
            "give a binary loss ('probit' or 'logistic'), one machine per class against the "
            "rest on common inducing points, or take the mode by KernelClassifier"
        )
    if parts.loss.of_rows and parts.inference.needs_likelihood:
        raise ValueError(
            "inducing points are found on some of the rows, and the loss has a parameter for each "
            "row: give one for all, or gram='auto'"
        )
    if not parts.inference.serves_inducing:
        raise ValueError(
            f"inducing points do not serve {parts.inference!r}: use inference 'exact' for "
            "Gaussian noise, 'variational', 'ep' or 'laplace' for other losses, 'primal' "
            "for a mode"
        )
    if given.move is True and (parts.search is None or not parts.inference.has_evidence):
        raise ValueError("points are not moved without a search by the evidence: leave move='auto'")
    if parts.search is not None and (parts.search.samples_many or parts.criterion != "evidence"):
        raise ValueError(
            "inducing points are searched for by the evidence: give search='evidence' or None"
        )


def check_iterative(parts: Parts, given: Iterative, d: int) -> None:
    """Refuse an iterative solution where there is none, for a table of d columns."""
    from mercer.estimators.shared.parts import positional  # which asks here what serves

    given.check(d)
    if "quadratic" not in parts.inference.needs or parts.basis is not None:
        exact = "quadratic" in parts.inference.needs
        what = "no unpenalised basis" if exact else "Gaussian noise"
        raise ValueError(f"an iterative solution needs {what}: use gram='inducing', or gram='auto'")
    if parts.search is not None and (parts.search.samples_many or parts.criterion != "evidence"):
        raise ValueError(
            "an iterative solution takes hyperparameters from the evidence of some rows: give "
            "search='evidence' or None"
        )
    if positional(parts.kernel.signal()) or parts.kernel.pairwise:
        raise ValueError(
            "an iterative solution needs a kernel of the inputs alone: use gram='auto'"
        )


def check_kronecker(parts: Parts) -> None:
    """Refuse a grid where its eigenvectors do not solve the problem."""
    exact = "quadratic" in parts.inference.needs and parts.criterion in (None, "evidence")
    if not exact or parts.basis is not None:
        what = "no unpenalised basis" if exact else "Gaussian noise and search='evidence'"
        raise ValueError(f"gram='kronecker' needs {what}: use gram='auto'")
