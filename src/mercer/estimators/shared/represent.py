"""Where a representation of many rows serves, or a device, and the sentence where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.core.arrays import Array, host
from mercer.core.device.accelerator import Accelerator, accelerator
from mercer.linalg.dense.gram import DenseGram, RecycledGrams
from mercer.linalg.gram import Covariance, Gram
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


def accelerate(parts: Parts, device: Any, gram: Any, n: int) -> None:
    """Hold the n x n arrays of a fit of n rows on a device; refuse what is not written for it.

    "auto" takes a device only where it serves. An algebra without such arrays needs none.
    """
    found = accelerator(device, n, _arrays(parts))
    if found is None or (parts.linear and isinstance(gram, str) and gram == "auto"):
        return
    against = _against(parts)
    if against and device == "auto":
        return
    if against:
        raise ValueError(f"device={device!r} does not serve here: {against}; use device='cpu'")

    def kept(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
        return DenseGram(kernel, points, keep=True, scratch=scratch, device=found)

    parts.make_gram = kept if parts.inference.factors_repeatedly else RecycledGrams(found)
    parts.device = found


def check_device(parts: Parts, device: Accelerator, X: Array, outputs: int) -> None:
    """Refuse a fit that the device cannot hold or evaluate, before any n x n array is made.

    The kernel is tried on some of the points X (n, d): it needs a formula in arrays.
    """
    if outputs > 1 and parts.inference.factors_repeatedly:
        raise ValueError(
            f"{outputs} latent functions with sites of their own are not written for a device: "
            "use device='cpu', or fit them one by one (sklearn.multiclass.OneVsRestClassifier)"
        )
    device.require(len(X), _arrays(parts))
    few, kernel = X[:5], parts.kernel
    told = f"{kernel} has no form on a device"
    try:
        K = host(kernel(device.put(few)))
        kernel.pullback(device.put(few), None, device.put(np.ones((len(few), len(few)))))
    except (TypeError, ValueError, NotImplementedError, AttributeError, IndexError) as error:
        what = str(error).splitlines()[0][:200]
        raise ValueError(f"{told} ({what}): use device='cpu'") from error
    known = kernel(few)
    if K.shape != known.shape or not np.allclose(K, known, rtol=1e-9, atol=1e-12 * np.ptp(known)):
        raise ValueError(f"{told}: its values there are others; use device='cpu'")


def _arrays(parts: Parts) -> int:
    """Return how many n x n arrays are there at a time.

    K, its factor and its inverse lie in one, and a second is formed while the first is held; where
    K is factored again and again it is kept beside two factors and an inverse.
    """
    return 4 if parts.inference.factors_repeatedly else 2


def _against(parts: Parts) -> str:
    """Say why the arrays of a fit cannot be on a device, or nothing."""
    if parts.linear or parts.kernel.separate:
        return "it holds the dense algebra of one kernel, gram='auto' or 'dense'"
    if not parts.inference.serves_device or parts.loss.response == "multiclass":
        return (
            f"{type(parts.inference).__name__} with {type(parts.loss).__name__} is not written for "
            "it (exact, Laplace, EP and variational inference of one latent function are)"
        )
    if parts.inference.factors_repeatedly and not (parts.loss.convex and parts.basis is None):
        return "beside Gaussian noise it takes convex losses without a basis"
    if parts.criterion not in (None, "evidence"):
        return f"the search by {parts.criterion!r} is not written for it"
    search = parts.search
    if search is not None and (search.samples_many or search.get_params(deep=False).get("n_jobs")):
        return "draws of hyperparameters and n_jobs would hold n x n arrays each"
    if parts.kernel.pairwise or parts.kernel.noise_free() is not parts.kernel:
        return "it takes kernels of the inputs alone, without noise parts"
    return ""
