"""The commands and their options. Only click is imported here; the work is imported when run."""

from __future__ import annotations

import csv
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
from click import argument, option

from mercer.app.files.options import ASKED, DIALECT

_FILE = click.Path(dir_okay=False)
_OPEN_UNIT = click.FloatRange(0, 1, min_open=True, max_open=True)
_JSON = option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_SEED = option("--seed", default=0, show_default=True, help="Seed of the search's starts.")
_QUIET = option("--quiet", "-q", is_flag=True, help="Print neither progress nor result.")
_REPORT = option("--report", type=_FILE, help="Write a report with pictures, one HTML file.")


def _names(_: Any, parameter: Any, value: str | None) -> list[str] | None:
    """Split "a,b" into names; a name that contains a comma is quoted as in a CSV header."""
    if value is None:
        return None
    names = [name.strip() for name in next(csv.reader([value], skipinitialspace=True), [])]
    if not names or "" in names:
        raise click.BadParameter("give names separated by commas, one with a comma in quotes")
    return names


_FEATURES = option(
    "--features", callback=_names, metavar="A,B,...", help="Input columns. Default: all others."
)
_KIND = option(
    "--kind", type=click.Choice(["regression", "classification"]),
    help="What the target is, if its values mislead.",
)  # fmt: skip
_WEIGHTS = option(
    "--weights", "--weight", metavar="COLUMN",
    help="A column of weights, no input: weight 2 counts as two equal rows, 0 as none.",
)  # fmt: skip
_STRUCTURE = (
    option(
        "--group", metavar="COLUMN",
        help="Rows with the same value are left out together; no input.",
    ),
    option("--time", metavar="COLUMN", help="Rows are predicted from earlier ones alone."),
)  # fmt: skip


def _several(_: Any, parameter: Any, value: tuple[str, ...]) -> list[str] | None:
    """Split each "a,b" into names; the option may be given again for more."""
    return [name for one in value for name in _names(_, parameter, one) or []] or None


_CANDIDATES = option(
    "--candidates", "--candidate", callback=_several, metavar="A,B,...", multiple=True,
    help="Machines to try, by the names of the ranking. May be given again. Default: all.",
)  # fmt: skip
_BUDGET = option(
    "--time-budget", default=60.0, show_default=True, help="Seconds, about.",
    type=click.FloatRange(0, min_open=True),
)  # fmt: skip
_DROP = option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
_SINGLE = option("--single", is_flag=True, help="Keep one machine: no combination of several.")
_SEARCH = (*_STRUCTURE, _KIND, _CANDIDATES, _SINGLE, _BUDGET)
_PRINTED = (_QUIET, _JSON)
_READ = (*DIALECT, _SEED, *_PRINTED)


def _share(_: Any, parameter: Any, value: str | None) -> Any:
    """Return "auto" or the number."""
    if value is None or value == "auto":
        return value
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise click.BadParameter("give a number from 0 to below 1, or auto")
    return share


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mercer", message="mercer %(version)s", help=None)
def group() -> None:
    """Probabilistic kernel machines: fit a table, predict with honest uncertainty.

    Start with `mercer demo`.
    """


def _command(
    *options: Any, short_help: str | None = None, module: str | None = None, call: str = "run"
) -> Callable[[Callable[[], None]], click.Command]:
    """Make a command of a function that describes it; ``call`` of its module does the work."""

    def made(described: Callable[[], None]) -> click.Command:
        name = described.__name__

        def run(**given: Any) -> None:
            if "delimiter" in given:
                from mercer.tables.files import FileOptions

                given["asked"] = FileOptions(**{key: given.pop(key) for key in ASKED})
            place = module if module and module.startswith("mercer.") else None
            getattr(import_module(place or f"mercer.app.{module or name}"), call)(**given)

        run.__doc__ = described.__doc__
        for each in reversed(options):
            run = each(run)
        return group.command(name, short_help=short_help)(run)

    return made


@_command(_REPORT, _SEED, *_PRINTED)
def demo() -> None:
    """Fit a bundled table and show what comes out.

    The table: 400 simulated alternating-current circuits, their resistance, frequency, inductance
    and capacitance, and the impedance, measured with an error (Friedman 1991, from scikit-learn).
    """


@_command(
    argument("table", type=_FILE),
    option("--target", "-t", required=True, help="The column to predict."),
    option("--output", "-o", required=True, type=_FILE, help="The model file to write."),
    _REPORT,
    _FEATURES,
    _WEIGHTS,
    option("--kernel", help="Try a Gaussian process with it: rbf, matern12, matern52, ..."),
    _DROP,
    *_SEARCH,
    option(
        "--check", type=click.IntRange(2), metavar="FOLDS",
        help="Check the chosen machine by cross-validation as well.",
    ),
    option(
        "--engine", type=click.Choice(["local", "dask"]),
        help="Read TABLE in blocks: here, or by the workers of Dask.",
    ),
    option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster. Default: processes here."),
    option(
        "--checkpoint", type=click.Path(file_okay=False), metavar="FOLDER",
        help="Keep what each pass found; the same command goes on from there.",
    ),
    option("--points", type=click.IntRange(1), help="Inducing points of a fit in blocks."),
    *_READ,
    short_help="Find the best kernel machine for a table.",
)  # fmt: skip
def fit() -> None:
    """Find the best kernel machine for TABLE (CSV, .xlsx or parquet) and write a model file.

    Numbers as target are a quantity; text, or two numbers, are classes; rows without a class are
    learned from as partly labelled rows. Columns may be numbers, categories, text or dates, and may
    have missing values: what is done to each is shown. The candidates are fitted to at most 500
    rows and ranked by the log density of rows left out; the best is fitted to all rows, or several
    are combined by weights if that predicts better.

    With --kernel a Gaussian process with that kernel is the candidate, alone unless --candidates
    names others.

    A CSV has a header line and may be compressed by gzip. Separator, decimal mark, encoding and the
    order of dates are found out and printed, with the options that say otherwise; what the file
    leaves open is asked for. Empty, NA, N/A, NaN, null and None are missing values; empty lines are
    skipped, and so is a first column without a name (a row index).

    With --engine, and where TABLE is too large for the memory, one Gaussian process on inducing
    points learns from all rows, block by block: columns of numbers without gaps, no candidates.
    TABLE may then be a pattern, 'part-*.parquet'.
    """


@_command(
    argument("model", type=_FILE),
    argument("tables", type=_FILE, nargs=-1, required=True),
    option(
        "--output", "-o", required=True, type=click.Path(),
        help="The table to write, by its name as .csv, .tsv, .csv.gz or .parquet, or a folder.",
    ),
    option("--coverage", default=0.9, type=_OPEN_UNIT, help="Of the intervals. Default: 0.9."),
    option(
        "--keep", callback=_names, metavar="A,B,...",
        help="Columns of a table to copy to the output, an id say.",
    ),
    _FEATURES,
    option("--allow-missing", is_flag=True, help="Leave rows with missing values empty."),
    *DIALECT,
    *_PRINTED,
)  # fmt: skip
def predict() -> None:
    """Predict every row of TABLES with MODEL.

    Writes one row per row of a table with the columns prediction, std, low and high, all of them
    for a new observation, noise included; for a classifier the class, and the probability of each
    class or, where the method has none, the score. A table is read and written in parts, and may
    be longer than the memory; - is standard input or, after -o, standard output, as CSV.

    Several tables, or a pattern like 'part-*.parquet', are predicted into a folder, -o out/, each
    under its own name.
    """


@_command(
    argument("model", type=_FILE),
    argument("table", type=_FILE),
    option("--count", "-n", default=1, show_default=True, type=click.IntRange(1), help="Rows."),
    option(
        "--by", default="auto", show_default=True,
        help="variance, information, error, improvement, bound or margin.",
    ),
    option("--maximize", is_flag=True, help="Look for the maximum (improvement, bound)."),
    option("--best", type=float, help="The value to improve on. Default: the best so far."),
    option("--kappa", default=2.0, show_default=True, help="Deviations of a bound."),
    option("--output", "-o", type=_FILE, help="Write the rows to this table."),
    _FEATURES,
    *DIALECT,
    *_PRINTED,
    short_help="Say which rows to observe next.",
    module="predict",
    call="propose",
)  # fmt: skip
def propose() -> None:
    """Say which rows of TABLE to observe next, so that MODEL learns most, or finds a minimum.

    Rows are picked one by one, each as if those before it had been observed. The default is what
    says most about the function (information); of a machine without error bars the rows whose
    classes are closest to each other (margin). Rows are counted from 1; score is given those
    before, alone is without.
    """


@_command(
    argument("model", type=_FILE),
    option("--target", "-t", help="Then MODEL is a table: rank the machines for this column."),
    _FEATURES,
    _WEIGHTS,
    *_SEARCH,
    *_READ,
    short_help="Print the ranking of the machines that were tried.",
)
def compare() -> None:
    """Print the ranking of the machines that were tried for MODEL, a file of `mercer fit`.

    For every machine: log density (log probability) and error of rows left out, calibration error,
    log evidence (not comparable between losses), bound of the leave-one-out error, seconds, and how
    many points it keeps. With --target, MODEL is a table, and nothing is written.
    """


@_command(
    argument("model", type=_FILE),
    argument("table", type=_FILE),
    option(
        "--top", default=5, show_default=True, type=click.IntRange(1),
        help="Inputs and rows to show.",
    ),
    *_READ,
    short_help="Say which inputs matter and what they do.",
)  # fmt: skip
def explain() -> None:
    """Say which inputs of MODEL matter, what they do, and which rows it leans on.

    Relevance is how much the predictions for TABLE (the training table, say) change when a column
    is shuffled. Effects are average predictions along an input, with a band. Influential are the
    training rows with the largest coefficients.
    """


@_command(
    argument("files", type=click.Path(dir_okay=False, allow_dash=True), nargs=-1),
    option("--target", "-t", required=True, help="The column to learn."),
    option("--checkpoint", "-o", type=_FILE, help="The model file to write, again and again."),
    option(
        "--every", default=10, show_default=True, type=click.IntRange(1),
        help="Batches from one checkpoint to the next.",
    ),
    option("--resume", is_flag=True, help="Go on where the checkpoint stopped, if it exists."),
    option("--from", "start", type=_FILE, help="Begin with the learner in this model file."),
    option(
        "--learner", type=click.Choice(["logistic", "regressor", "med", "lapmed"]),
        help="Default: regressor for a quantity, logistic for classes. lapmed learns from "
        "unlabelled rows too.",
    ),
    option(
        "--batch", default=100, show_default=True, type=click.IntRange(1), help="Rows of a batch."
    ),
    option("--classes", callback=_names, metavar="A,B,...", help="All labels of the stream."),
    option("--quarantine", type=_FILE, help="A CSV for rows that cannot be read, and the reasons."),
    _FEATURES,
    option("--kernel", help="rbf, matern52, linear, ... Default: rbf."),
    option(
        "--budget", type=click.IntRange(1), help="Points to keep. Default: 300 (logistic)."
    ),
    option(
        "--forget", type=click.FloatRange(0, 1, min_open=True), metavar="RHO",
        help="What remains of older rows after each batch; 1 forgets nothing.",
    ),
    option(
        "--drift", callback=_share, metavar="SHARE",
        help="Share of the function that is renewed before each batch, or auto.",
    ),
    _DROP,
    *DIALECT,
    *_PRINTED,
    short_help="Learn quantities or classes batch by batch, from files or a pipe.",
    module="stream.command",
)  # fmt: skip
def stream() -> None:
    """Learn from FILES (CSV or parquet), batch by batch, or from standard input (CSV).

    Every batch is predicted before it is learned: RMSE and NLPD of a quantity, error and log loss
    of classes are printed, with --json as one line of JSON each. The inputs are columns of numbers
    or of words; an empty label is an unlabelled row, from which lapmed learns.

    An interrupt ends the batch and writes the checkpoint. The same command with --resume passes
    over the rows that were learned and goes on, to the same result as without a break.
    """


@_command(
    option(
        "--models", default="models", show_default=True, type=click.Path(file_okay=False),
        metavar="FOLDER", help="Where models and their logs are kept.",
    ),
    option("--port", default=8787, show_default=True, type=click.IntRange(0, 65535)),
    option("--host", default="127.0.0.1", show_default=True, help="The address to listen at."),
    option("--token-file", type=_FILE, help="Holds the token. Default: FOLDER/token."),
    option("--max-body", default=16.0, show_default=True, help="Megabytes of a request.",
        type=click.FloatRange(0, min_open=True)),
    option("--max-rows", default=100_000, show_default=True, type=click.IntRange(1)),
    option("--max-columns", default=1000, show_default=True, type=click.IntRange(1)),
    option("--max-models", default=100, show_default=True, type=click.IntRange(1)),
    option(
        "--history", default=5, show_default=True, type=click.IntRange(1),
        help="Checkpoints to keep: how far a model can be rolled back.",
    ),
    short_help="Serve models over HTTP; they learn and never lose a batch.",
    module="mercer.serve.command",
)  # fmt: skip
def serve() -> None:
    """Serve models over HTTP: predict, learn batch by batch, fit tables.

    A batch is on disk before it is acknowledged, and is learned exactly once, whatever happens to
    the process or the machine. Requests carry the token of the token file, which is made at the
    first start: Authorization: Bearer TOKEN. An address that others can reach needs --host and
    --token-file.
    """


@_command(
    argument("model", type=_FILE),
    argument("output", type=_FILE),
    option("--single", is_flag=True, help="Inputs and outputs in single precision."),
    option("--no-std", is_flag=True, help="Of a quantity the mean alone: a smaller file."),
    *_PRINTED,
)
def export() -> None:
    """Write MODEL as an ONNX graph, which predicts without mercer and without Python.

    OUTPUT is by custom NAME.onnx; like every output, it takes the place of an older one. The
    preprocessing of columns is part of the graph: a model that `mercer fit` chose has an input for
    each column, by its name, any other one input, X. Names, types and shapes are printed.
    """


@_command(argument("model", type=_FILE), _JSON)
def info() -> None:
    """Say what is in the model file MODEL."""


@_command(_JSON, short_help="Check the installation.")
def doctor() -> None:
    """Check the installation: versions, BLAS, threads, compiled core, extras, a known result."""
