"""QueryRule: whether to ask for the label of a row that arrives, within a budget. Theory (D6)."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.losses.base import is_number

FIRST = 10  # labels that may be asked for at once, at the beginning and after a pause


class QueryRule:
    """Ask for the labels of the rows that say most, a given share of all rows that arrive.

    A row is scored as by ``model.propose``, those of a batch each given the ones asked for before.
    It is asked for if its score is among the highest ``share`` of the last ``window`` rows: what is
    much depends on what else arrives, and falls as the learner knows more. A fraction ``explore``
    of the questions is spent on rows at random, so that a change is noticed where the learner is
    sure. An account gets ``share`` for each row and pays one for each question: over any stretch
    the share is kept, up to ten questions.

    Parameters
    ----------
    share : in (0, 1], of the rows to ask for.
    by : the criterion of ``propose``: "auto", "information", "variance", "margin", ...
    window : rows with which a score is compared, at least 2.
    explore : in [0, 1], of the questions.
    random_state : seed of these.

    Attributes
    ----------
    seen, asked : rows so far, and for how many of them the label was asked.

    Reference: Zliobaite, Bifet, Pfahringer & Holmes, Active learning with drifting streaming data
    (2014), from which the random questions are taken.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import OnlineLogisticClassifier, QueryRule
    >>> rng = np.random.default_rng(0)
    >>> model, rule = OnlineLogisticClassifier(budget=50), QueryRule(share=0.2)
    >>> for _ in range(12):
    ...     X = rng.normal(size=(50, 2))
    ...     ask = rule.asks(model, X)
    ...     if ask.any():  # an oracle would be asked here
    ...         y = X[ask, 0] > X[ask, 1]
    ...         model = model.partial_fit(X[ask], y, classes=[False, True])
    >>> rule.seen, rule.asked < 200
    (600, True)
    >>> X = rng.normal(size=(200, 2))
    >>> bool(np.mean(model.predict(X) == (X[:, 0] > X[:, 1])) > 0.9)
    True
    """

    def __init__(
        self,
        share: float = 0.1,
        by: str = "auto",
        *,
        window: int = 200,
        explore: float = 0.1,
        random_state: int | None = None,
    ) -> None:
        if not (is_number(share, 0.0, 1.0) or share == 1.0):
            raise ValueError(f"share must lie above 0 and at most at 1, not {share!r}")
        if not (is_number(explore, 0.0, 1.0) or explore in (0.0, 1.0)):
            raise ValueError(f"explore must lie between 0 and 1, not {explore!r}")
        if isinstance(window, bool) or not isinstance(window, (int, np.integer)) or window < 2:
            raise ValueError(f"window must be a number of rows, at least 2, not {window!r}")
        self.share, self.by, self.window, self.explore = float(share), by, int(window), explore
        self.seen = self.asked = 0
        self._account = float(FIRST)
        self._scores: deque[float] = deque(maxlen=self.window)
        self._rng = np.random.default_rng(0 if random_state is None else random_state)

    def __repr__(self) -> str:
        return f"QueryRule(share={self.share}, by={self.by!r}): asked {self.asked} of {self.seen}"

    def asks(self, model: Any, X: Any) -> NDArray[np.bool_]:
        """Return for each row of X (b, d) whether to ask for its label: (b,).

        A model that has learned nothing yet asks for all rows.
        """
        b = len(X)
        ask = np.zeros(b, dtype=bool)
        if not b:
            return ask
        self._account = min(self._account + self.share * b, max(FIRST, self.share * b))
        if not hasattr(model, "classes_"):
            ask[:] = True
        else:
            found = model.propose(X, min(b, max(1, int(self._account))), self.by)
            level = self._level(found.every)
            self._scores.extend(found.every.tolist())
            picked = found.indices[found.scores >= level].tolist()
            by_chance = np.flatnonzero(self._rng.random(b) < self.share * self.explore).tolist()
            for row in dict.fromkeys(picked + by_chance):
                if self._account >= 1.0:
                    ask[row] = True
                    self._account -= 1.0
        self.seen, self.asked = self.seen + b, self.asked + int(ask.sum())
        return ask

    def _level(self, scores: Array) -> float:
        """Return the score that few enough of the last rows exceed, these included."""
        kept = np.concatenate([np.array(self._scores), scores])[-max(self.window, len(scores)) :]
        return float(np.quantile(kept, 1.0 - self.share * (1.0 - self.explore)))
