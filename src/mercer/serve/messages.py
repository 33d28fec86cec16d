"""The messages of the service: what requests and answers consist of.

The OpenAPI document is made of these classes, so that it says what is read and written.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mercer.serve.limits import NAME

Cell = int | float | str | bool | None
Kind = Literal["logistic", "med", "lapmed", "quantity"]
Name = Annotated[str, Meta(pattern=f"^{NAME}$")]
Text = Annotated[str, Meta(max_length=200)]


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What all requests share: a field that is not known is refused."""


class Reply(msgspec.Struct, kw_only=True):
    """What all answers share."""


class RowsSent(Request):
    """Rows, in one of three forms."""

    rows: Annotated[
        list[dict[str, Cell]] | None, Meta(description="one object per row, by column name")
    ] = None
    columns: Annotated[
        dict[str, list[Cell]] | None, Meta(description="one array per column, by name")
    ] = None
    X: Annotated[
        list[list[Cell]] | None, Meta(description="one array per row, in the order of the inputs")
    ] = None
    y: Annotated[list[Cell] | None, Meta(description="the target of each row of X")] = None


class LearnerOptions(Request):
    """Parameters of an online learner; what is left out has the default of `mercer stream`."""

    kernel: Text | None = None
    budget: Annotated[int, Meta(ge=1, le=5000)] | None = None
    forget: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    drift: Annotated[float, Meta(ge=0.0, lt=1.0)] | Literal["auto"] | None = None

    def given(self) -> dict[str, Any]:
        """Return those that are given."""
        every = msgspec.structs.asdict(self)
        return {name: value for name, value in every.items() if value is not None}


class Creation(Request):
    """An online learner to be made, with its first batch if there is one already."""

    learner: Kind
    target: Text
    inputs: Annotated[list[Text], Meta(min_length=1)] | None = None
    classes: Annotated[list[Cell], Meta(min_length=2, max_length=100)] | None = None
    options: LearnerOptions = msgspec.field(default_factory=LearnerOptions)
    batch: RowsSent | None = None


class Rollback(Request):
    """A version to go back to."""

    version: Annotated[int, Meta(ge=0)]


class FitRequest(Request):
    """A table, of which `mercer.fit` makes a model."""

    target: Text
    table: RowsSent
    kind: Literal["regression", "classification"] | None = None
    features: list[Text] | None = None
    time_budget: Annotated[float, Meta(gt=0.0, le=3600.0)] = 60.0
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 0


class Health(Reply):
    """That the service is there."""

    status: Literal["ok", "stopping"]
    version: str


class Scores(Reply):
    """Figures of rows that were predicted before they were learned; null where there are none."""

    rows: int
    accuracy: float | None = None
    log_loss: float | None = None
    rmse: float | None = None
    log_density: float | None = None


class Learned(Reply):
    """A batch that is learned and on disk."""

    model: str
    version: int
    rows: int
    repeated: Annotated[bool, Meta(description="this key had been learned before")]
    scores: Scores | None = None


class Predicted(Reply):
    """Predictions, one value per row in each column."""

    model: str
    version: int
    columns: dict[str, list[Cell]]


class ModelState(Reply):
    """What a model is and how far it has come."""

    name: str
    estimator: Annotated[str | None, Meta(description="null before the first batch")]
    learns: bool
    version: int
    inputs: list[str] | None
    words: list[str]
    target: str | None
    classes: list[Cell] | None
    rows: int
    points: int | None
    scores: Scores
    waiting: int
    oldest: Annotated[int, Meta(description="the oldest version to roll back to")]
    trouble: str | None
    notes: list[str]


class Models(Reply):
    """All models."""

    models: list[ModelState]


class BatchScore(Reply):
    """One version of a model, the figures of its batch and those of all batches so far."""

    version: int
    at: Annotated[float, Meta(description="seconds since 1970")]
    what: Literal["batch", "rollback"]
    batch: Scores
    total: Scores
    change: Annotated[
        float | None, Meta(description="share of the function that drift renewed, if looked for")
    ] = None


class History(Reply):
    """The last batches of a model, oldest first."""

    model: str
    batches: list[BatchScore]


class Versions(Reply):
    """To which versions a model can be rolled back: all from the oldest to the newest."""

    model: str
    oldest: int
    newest: int
    checkpoints: list[int]


class Deleted(Reply):
    """A model that is no more."""

    deleted: str


class JobState(Reply):
    """A fit of a table: it becomes a model when it is done."""

    id: str
    model: str
    status: Literal["waiting", "running", "done", "failed", "stopped"]
    progress: dict[str, Any]
    seconds: float
    message: str | None


class Jobs(Reply):
    """The fits, newest first."""

    jobs: list[JobState]


class Reason(Reply):
    """Why nothing was done."""

    code: str
    message: str
    row: Annotated[int | None, Meta(description="the first row that was refused, from 1")] = None
    column: str | None = None


class Trouble(Reply):
    """The answer to a request that is refused."""

    error: Reason
