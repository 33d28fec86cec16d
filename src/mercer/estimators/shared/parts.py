"""Parts: what the user gave, turned into components that fit together, before any work."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer import inference as inferences
from mercer.core.arrays import Array, column_sums
from mercer.core.basis import Basis, PolynomialBasis, as_basis
from mercer.core.component import Component
from mercer.core.device.accelerator import Accelerator
from mercer.core.memory import require_bytes
from mercer.estimators.shared.represent import (
    check_device,
    check_inducing,
    check_iterative,
    check_kronecker,
)
from mercer.estimators.shared.units import Units
from mercer.inference.base import Inference
from mercer.kernels import Kernel, Linear, Several, Stationary, as_kernel
from mercer.kernels.convert import one_for_each
from mercer.kernels.equality import Coregionalised
from mercer.kernels.features.explicit import width_of
from mercer.kernels.markov import process_of
from mercer.kernels.stationary.base import tied_scales
from mercer.linalg.dense.gram import DenseGram, RecycledGrams
from mercer.linalg.dense.several import several_gram
from mercer.linalg.gram import Covariance, Gram
from mercer.linalg.line import LineGram, Ordering
from mercer.linalg.reduced.weights import FROM, WeightGram, pays
from mercer.linalg.representation import Inducing, Iterative
from mercer.linalg.structured.kronecker import kronecker_gram
from mercer.linalg.structured.outputs import outputs_gram
from mercer.losses.base import Loss
from mercer.search import GramMaker, Search

LINE_FROM = 256  # points from which "auto" walks along the line: below, dense is as fast
NAMES = ("auto", "dense", "markov", "weights", "inducing", "iterative", "kronecker")
AMPLITUDES = ("variance", "value")  # of a scaled kernel, of a constant

OTHERS = 0.5  # variance at which named kernels of further latent functions, of no unit, start

# Noise of a loss given by name: where it starts and how far it may go, relative to var(y).
NOISE_START, NOISE_BOUNDS = 0.1, (1e-8, 1e2)
SCALE_BOUND = 1e4  # of a robust loss, in units of the spread of the targets


def kept_gram(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
    """Return a dense Gram that keeps K for repeated factorisations."""
    return DenseGram(kernel, points, keep=True, scratch=scratch)


@dataclass
class Parts:
    """The parts of a fit."""

    kernel: Kernel
    loss: Loss
    inference: Inference
    search: Search | None
    basis: Basis | None
    make_gram: GramMaker
    named_kernel: bool  # it came by name: its parameters are the machine's to start
    named_loss: bool
    standardize: bool  # whether the fit runs on standardised columns
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)  # by full name
    amplitudes: tuple[float, float] | None = None  # of each variance and constant without its own
    linear: bool = False  # no n x n array is formed for many points
    weights: str = "dense"  # "auto" may, "weights" must work with the weights of few features
    inducing: Inducing | None = None  # the function is known through its values at few points
    iterative: Iterative | None = None  # solutions by products alone
    points: Array | None = None  # (m, d) the inducing points, where they were given
    device: Accelerator | None = None  # where n x n arrays are; None is the memory of the CPU
    offset: float = 0.0  # from the criterion to the user's units, for those who watch the search
    centred: bool = False  # on the mean of the targets, and no flat constant that is known does it

    @property
    def criterion(self) -> str | None:
        """The name of what the search makes best, if it has one."""
        return None if self.search is None else self.search.get_params().get("criterion")

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel of each latent function where these have their own, else the one kernel."""
        return list(self.kernel._parts().values()) if self.kernel.separate else [self.kernel]

    @property
    def by_row(self) -> bool:
        """Whether a row is more than its inputs: then repeated rows cannot be merged."""
        return positional(self.kernel) or self.loss.of_rows

    @property
    def arrays(self) -> int:
        """How many n x n arrays the fit needs at most: factor, inverse and the kernel's own."""
        if self.linear or self.device is not None:
            return 0
        given = {} if self.search is None else self.search.get_params(deep=False)
        one_by_one = not given.get("n_jobs") and not (self.search and self.search.samples_many)
        if "quadratic" in self.inference.needs and self.criterion != "loo" and one_by_one:
            # K, its factor and the inverse lie in one array, each written over the last
            return 1 + max(1, self.kernel.workspace())
        return 2 + max(1, self.kernel.workspace()) + 4 * (self.criterion == "loo")

    def beyond(self) -> list[str]:
        """Return the grams that hold no n x n array and serve these parts."""
        found, inference = [], self.inference
        if not inference.has_evidence:  # the mode on few points has an inference of its own
            inference = inferences.on_landmarks(self.loss)
        for name in ("iterative", "inducing"):
            try:
                inference.check(self.loss)
                replace(self, inference=inference).choose_gram(name, 1)
            except ValueError:
                continue
            found.append(name)
        return found

    @property
    def has_constant(self) -> bool:
        """Whether a constant is among the flat directions of the prior, as far as is known."""
        return isinstance(self.basis, PolynomialBasis)

    def free_constant(self, n: int) -> None:
        """Give a straight line by name a flat constant, on n points, in place of centring.

        Columns and targets of mean zero make the sum of f and of y zero. With as many columns as
        rows a noise of zero then has any evidence, and each row is minus the sum of the others.
        """
        inner = self.kernel.children().get("kernel") if self.named_kernel else None
        gaussian = "quadratic" in self.inference.needs
        if isinstance(inner, Linear) and self.standardize and gaussian and n > 2:
            self.basis = PolynomialBasis(0) if self.basis is None else self.basis

    def choose_gram(self, name: Any, d: int) -> None:
        """Set the Gram of a fit on d columns; "auto" chooses among exact ones only."""
        few = inducing_of(name)
        if self.kernel.separate:
            if not (isinstance(name, str) and name in ("auto", "dense")):
                raise ValueError(
                    "several latent functions with kernels of their own need the dense algebra: "
                    "use gram='auto', with at most some thousands of rows"
                )
            self.make_gram = several_gram
            return
        if few is not None:
            check_inducing(self, few, d)
            self.inducing, self.linear = few, True
            return
        if isinstance(name, Iterative) or (isinstance(name, str) and name == "iterative"):
            given = Iterative() if isinstance(name, str) else name
            check_iterative(self, given, d)
            self.iterative, self.linear = given, True
            return
        if not isinstance(name, str) or name not in NAMES:
            raise ValueError(
                f"unknown gram {name!r}; known are {', '.join(map(repr, NAMES))}, and with "
                "settings of your own mercer.linalg.Inducing(...) and Iterative(...)"
            )
        if name == "kronecker":
            check_kronecker(self)
            self.make_gram, self.linear = kronecker_gram, True
            return
        if isinstance(self.kernel, Coregionalised) and name == "auto":
            self.make_gram = outputs_gram
            return
        self.weights = name
        against = self._against_the_line(d)
        if name == "markov" and against:
            raise ValueError(f"gram='markov' does not serve here: {against}; use gram='auto'")
        if name in ("dense", "weights") or against:
            return
        dense, least = self.make_gram, 0 if name == "markov" else LINE_FROM
        ordering: Ordering | None = None  # points are sorted once, not for every kernel

        def make(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
            nonlocal ordering
            if len(points) < least:
                return dense(kernel, points, scratch=scratch)
            assert isinstance(kernel, Kernel)
            gram = LineGram(kernel, points, scratch=scratch, ordering=ordering)
            ordering = gram.line.ordering
            return gram

        self.make_gram, self.linear = make, True

    def weigh(self, X: Array) -> None:
        """Work with the weights of the kernel's features where they are few beside rows X (N, d).

        "auto" does from 256 points and 4 for each weight: below, dense is as fast.
        """
        if self.weights not in ("auto", "weights") or self.linear:
            return
        forced = self.weights == "weights"
        if not forced and len(X) < FROM:
            return
        m, dense = width_of(self.kernel, X), self.make_gram
        against = self._against_weights(m)
        if forced and against:
            raise ValueError(f"gram='weights' does not serve here: {against}; use gram='auto'")
        if m is None or against or not (forced or pays(len(X), m)):
            return
        require_bytes(
            6 * 8 * len(X) * m, f"a fit of {len(X)} rows by {m} weights", "give fewer rows"
        )

        def make(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
            assert isinstance(kernel, Kernel)
            if forced or pays(len(points), width_of(kernel, points) or len(points)):
                return WeightGram(kernel, points)
            return dense(kernel, points, scratch=scratch)

        self.make_gram, self.linear = make, True

    def _against_weights(self, m: int | None) -> str:
        """Say why m weights cannot be used, or nothing."""
        if m is None:
            return "the kernel has infinitely many features, or does not state them"
        if not (self.inference.serves_inducing or self.inference.takes_weights):
            return f"{type(self.inference).__name__} needs the dense algebra"
        if np.any(np.asarray(getattr(self.loss, "noise", 1.0)) == 0.0):
            return "few weights cannot meet every row, and the loss has no noise"
        if self.loss.response == "multiclass" and self.kernel.noise_free() is not self.kernel:
            return "a softmax takes no noise parts of the kernel"
        return ""

    def limits(self, kernel: Kernel) -> dict[str, tuple[float, float]]:
        """Return the bounds of a search by full name."""
        bounds, every = dict(self.bounds), self.amplitudes
        for path, owner, name in kernel.differentiable():
            if every is not None and name in AMPLITUDES and owner.mark(name).bounds is None:
                bounds[f"kernel__{path}"] = every
        return bounds

    def _against_the_line(self, d: int) -> str:
        """Say why the O(n) algebra cannot be used, or nothing."""
        markov = self.kernel.state_space() or self.kernel.markov_process()
        if markov is None or process_of(self.kernel, d) is None:
            return (
                "the kernel must be a Markov process on one column: Matern of half an odd nu, "
                "Operator, OrnsteinUhlenbeck, Cosine, Constant, and sums and products of them of "
                "at most 16 states"
            )
        if self.basis is not None and "quadratic" not in self.inference.needs:
            return f"{type(self.inference).__name__} takes a basis by the dense algebra alone"
        if not self.inference.works_in_linear_time or self.loss.response == "multiclass":
            return f"{type(self.inference).__name__} needs the dense algebra"
        if self.criterion not in (None, "evidence"):
            return f"the search by {self.criterion!r} needs the dense algebra"
        return ""

    def start(self, X: Array, y: Array, weights: Array, units: Units) -> None:
        """Convert the parts to standardised units; initialise default parameters from the data.

        X (n, d) and y (n, m) are in these units. What a kernel takes from data, it takes here.
        """
        self.kernel = self.kernel.frozen(X, weights)
        if self.device is not None:
            check_device(self, self.device, X, y.shape[1])
        if self.inducing is not None and not isinstance(self.inducing.m, (str, int, np.integer)):
            self.points = units.standardised(self.inducing.given())
        count = 0 if self.inducing is None else self.inducing.m
        count = count if isinstance(count, (int, np.integer)) else 0
        if count >= len(X):
            raise ValueError(
                f"{count} inducing points for {len(X)} distinct rows save nothing: use gram='auto'"
            )
        self.centred = bool(np.any(units.y_shift)) and not self.has_constant
        total = weights.sum()
        exact = self.loss.offers("quadratic")
        robust = self.standardize and self.loss.offers("in_units") and not exact
        if robust or self.loss.response in ("binary", "multiclass"):
            mean_square, latent = 1.0, y  # by the units: outliers have no say
        else:  # of y itself, or of its logarithm, ...
            latent = np.column_stack([self.loss.centers(c).mean(axis=0) for c in y.T])
            mean_square = float((weights @ latent**2).mean() / total)
        share = least_noise(self.kernel)
        if robust and self.named_loss and share and self.loss.units.get("scale") == 1.0:
            self.bounds["loss__scale"] = (float(np.sqrt(share)), SCALE_BOUND)
        if self.named_loss and "noise" in self.loss.domains:
            centred = latent - weights @ latent / total
            variance = float((weights @ centred**2).mean() / total) or mean_square or 1.0
            variance = 1.0 if robust else variance
            self.loss.set_params(noise=NOISE_START * variance)
            least = max(NOISE_BOUNDS[0], share) * variance
            self.bounds["loss__noise"] = (least, NOISE_BOUNDS[1] * variance)
        elif np.any(units.y_scale != 1.0) and not self.named_loss and self.loss.units:
            scale = units.y_scale[0]
            if np.ptp(units.y_scale) > 1e-9 * scale:
                raise ValueError(
                    "a loss object states its noise in your units, and the outputs have different "
                    "scales; give loss='gaussian', or scale y yourself and set standardize=False"
                )
            self.loss = self.loss.in_units(1.0 / float(scale))
        if self.named_kernel and not positional(self.kernel):
            start_length(self.kernel, X, weights)
            for j, kernel in enumerate(self.kernels):
                kernel.set_params(variance=(mean_square or 1.0) if j == 0 else OTHERS)


def least_noise(kernel: Kernel) -> float:
    """Return the least noise, as a share of the variance, that a kernel leaves to the search."""
    shares = (getattr(owner, "least_noise", 0.0) for _, owner, _ in kernel.differentiable())
    return max(shares, default=0.0)


def start_length(kernel: Kernel, X: Array, weights: Array) -> None:
    """Set tied length scales to the total standard deviation of X (n, d), 1 if that is zero.

    Kernels that state ``starting_scales`` have one for each column.
    """
    total = weights.sum()
    spread = column_sums(weights, (X - column_sums(weights, X) / total) ** 2) / total
    for owner in tied_scales(kernel):  # the order of the columns does not even round otherwise
        each = getattr(owner, "starting_scales", None)
        one = float(np.sqrt(np.sort(spread).sum())) or 1.0
        owner.set_params(length_scale=one if each is None else each(np.sqrt(spread)))


def data_scales(kernel: Kernel, X: Array, y: Array, weights: Array) -> dict[str, float | Array]:
    """Return length scales, amplitudes and noise at the data's own scale, by full name.

    A length scale of each column is sqrt(d) deviations, a tied one the length of their vector.
    """
    total = weights.sum()
    spread = np.sqrt(weights @ (X - weights @ X / total) ** 2 / total)
    square = float((weights @ y**2).mean() / total)
    found: dict[str, float | Array] = {}
    if square > 0.0:
        found["loss__noise"] = NOISE_START * square
    for path, owner, name in kernel.differentiable():
        own = not kernel.separate or path.startswith("0__")  # others are in other units
        if name == "variance" and square > 0.0 and own:
            found[f"kernel__{path}"] = square
        elif name == "length_scale" and isinstance(owner, Stationary) and np.all(spread > 0.0):
            if np.ndim(owner.length_scale) == 0:
                found[f"kernel__{path}"] = float(np.sqrt((spread**2).sum()))
            elif np.size(owner.length_scale) == X.shape[1]:
                found[f"kernel__{path}"] = np.sqrt(X.shape[1]) * spread
    return found


def given_loss(loss: Any, also: str = "") -> Loss:
    """Return the loss that a user gave, by name or as an object; ``also`` says what else may be."""
    found = Loss.by_name(loss) if isinstance(loss, str) else loss
    if not isinstance(found, Loss):
        raise TypeError(f"loss must be {also}a Loss or the name of one, not {loss!r}")
    return found


def resolve(
    names: Any,
    d: int,
    *,
    kernel: Any,
    loss: Any,
    inference: Any,
    search: Any,
    gram: str,
    basis: Any = None,
    standardize: bool | str,
) -> Parts:
    """Return the parts of an estimator for d columns of these names, or refuse with a sentence."""
    named_loss, loss = isinstance(loss, str), given_loss(loss)
    kernel, named_kernel = resolve_kernels(kernel, loss, names, d)
    if isinstance(inference, str) and inference == "auto" and inducing_of(gram) is not None:
        inference = inferences.on_landmarks(loss)
    inference = inferences.by_name(inference, loss)
    inference.check(loss)
    search = Search.given(search)
    if search is not None and not inference.has_evidence and search.needs_evidence:
        others = [repr(name) for name in ("laplace", "variational", "ep") if _takes(name, loss)]
        other = f", or an inference with an evidence ({', '.join(others)})" if others else ""
        raise ValueError(
            f"the search maximises a density, and {type(inference).__name__}, the inference for "
            f"{type(loss).__name__}, finds a mode that has none; give search=None and the kernel's "
            f"parameters{other}"
        )
    lacking = set(() if search is None else search.needs_reports) - set(inference.reports)
    if lacking:
        raise ValueError(
            f"search by {type(search).__name__} reads {', '.join(sorted(lacking))} in the report "
            f"of a solution, which {type(inference).__name__} lacks: use inference='newton' "
            "or 'dual', or another search"
        )
    parts = Parts(
        kernel,
        loss.__sklearn_clone__(),
        inference,
        search,
        None if basis is None else as_basis(basis),
        kept_gram if inference.factors_repeatedly else RecycledGrams(),
        named_kernel,
        named_loss,
        standardizes(standardize, named_kernel and not positional(kernel)),
    )
    parts.choose_gram(gram, d)
    return parts


def inducing_of(gram: Any) -> Inducing | None:
    """Return what a user's ``gram`` says of inducing points; None if it says nothing."""
    if isinstance(gram, str):
        return Inducing() if gram == "inducing" else None
    return gram if isinstance(gram, Inducing) else None


def _takes(name: str, loss: Loss) -> bool:
    """Whether the inference of this name accepts the loss: a remedy must not be refused."""
    try:
        inferences.by_name(name).check(loss)
    except ValueError:
        return False
    return True


def resolve_kernel(given: Any, names: Any, d: int) -> tuple[Kernel, bool]:
    """Return the kernel for d columns, and whether it came by name (None is "rbf"): then scaled."""
    named = given is None or isinstance(given, str)
    kernel = as_kernel("rbf" if given is None else given).__sklearn_clone__()
    kernel = kernel.resolve(None if names is None else [str(name) for name in names], d)
    return (1.0 * kernel if named and not positional(kernel) else kernel), named


def resolve_kernels(given: Any, loss: Loss, names: Any, d: int) -> tuple[Kernel, bool]:
    """Return the kernel, or one for each latent function of the loss; and whether all are named."""
    each = one_for_each(given, type(loss).__name__, loss.latents, loss.joint)
    if each is None:
        return resolve_kernel(given, names, d)
    pairs = [resolve_kernel(one, names, d) for one in each]
    return Several([one for one, _ in pairs]), all(named for _, named in pairs)


def standardizes(given: Any, possible: bool) -> bool:
    """Return whether the columns are standardised: "auto" is wherever that is possible."""
    if isinstance(given, str) and given == "auto":
        return possible
    if not isinstance(given, (bool, np.bool_)):
        raise ValueError(f"standardize must be True, False or 'auto', not {given!r}")
    if given and not possible:
        raise ValueError(
            "standardize=True needs a kernel given by name: the parameters of a kernel object are "
            "in your units; scale the columns with sklearn.preprocessing.StandardScaler in a "
            "pipeline instead"
        )
    return bool(given)


def positional(kernel: Component) -> bool:
    """Whether some part of the kernel depends on which row it is, not only on the inputs."""
    inside = kernel.children().values()
    return getattr(kernel, "positional", False) or any(positional(part) for part in inside)
