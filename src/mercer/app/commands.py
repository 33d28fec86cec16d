"""The commands and their options. Only click is imported here; the work is imported when run."""

from __future__ import annotations

from typing import Any

import click

_FILE = click.Path(dir_okay=False)
_OPEN_UNIT = click.FloatRange(0, 1, min_open=True, max_open=True)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_SEED = click.option("--seed", default=0, show_default=True, help="Seed of the search's starts.")
_QUIET = click.option("--quiet", "-q", is_flag=True, help="Print neither progress nor result.")
_REPORT = click.option("--report", type=_FILE, help="Write a report with pictures, one HTML file.")


def _names(context: click.Context, option: click.Parameter, value: str | None) -> list[str] | None:
    """Split "a,b" into names; a name that contains a comma is quoted as in a CSV header."""
    if value is None:
        return None
    import csv

    names = next(csv.reader([value], skipinitialspace=True), [])
    names = [name.strip() for name in names]
    if not names or "" in names:
        raise click.BadParameter("give column names separated by commas")
    return names


def _one_character(context: click.Context, option: click.Parameter, value: str) -> str:
    value = "\t" if value == "\\t" else value
    if len(value) != 1 or value in '"\r\n':
        raise click.BadParameter("give one character, or \\t for tabs")
    return value


_FEATURES = click.option(
    "--features", callback=_names, metavar="A,B,...", help="Input columns. Default: all others."
)
_DELIMITER = click.option(
    "--delimiter", default=",", callback=_one_character, help="What separates the fields of a CSV."
)


def _version(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"mercer {version('mercer')}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version)
def group() -> None:
    """Probabilistic kernel machines: fit a table, predict with honest uncertainty.

    Start with `mercer demo`.
    """


@group.command()
@_REPORT
@_SEED
@_QUIET
@_JSON
def demo(**options: Any) -> None:
    """Fit a bundled table and show what comes out.

    The table: 442 diabetes patients, ten measurements each, and the progress of the disease after a
    year (Efron, Hastie, Johnstone & Tibshirani 2004), from scikit-learn.
    """
    from mercer.app.demo import run

    run(**options)


@group.command()
@click.argument("table", type=_FILE)
@click.option("--target", "-t", required=True, help="The column to predict.")
@click.option("--output", "-o", required=True, type=_FILE, help="The model file to write.")
@_REPORT
@_FEATURES
@click.option("--weight", help="A column of weights: weight 2 counts as two equal rows.")
@click.option("--kernel", help="rbf (default), matern12, matern32, matern52, linear, ...")
@click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
@_DELIMITER
@_SEED
@_QUIET
@_JSON
def fit(**options: Any) -> None:
    """Fit a Gaussian process to TABLE (CSV or parquet) and write a model file.

    Columns and target are standardised inside; hyperparameters maximise the evidence.

    A CSV is UTF-8 with a header line, numbers have a decimal point; empty, NA, N/A, NaN, null and
    None are missing values.
    """
    from mercer.app.fit import run

    run(**options)


@group.command()
@click.argument("model", type=_FILE)
@click.argument("table", type=_FILE)
@click.option("--output", "-o", required=True, type=_FILE, help="The table to write.")
@click.option("--coverage", default=0.9, type=_OPEN_UNIT, help="Of the intervals. Default: 0.9.")
@_FEATURES
@click.option("--allow-missing", is_flag=True, help="Leave rows with missing values empty.")
@_DELIMITER
@_QUIET
def predict(**options: Any) -> None:
    """Predict every row of TABLE with MODEL.

    Writes one row per row of TABLE with the columns prediction, std, low and high, all of them for
    a new observation, noise included.
    """
    from mercer.app.predict import run

    run(**options)


@group.command()
@click.argument("model", type=_FILE)
@_JSON
def info(**options: Any) -> None:
    """Say what is in the model file MODEL."""
    from mercer.app.info import run

    run(**options)


@group.command()
@_JSON
def doctor(**options: Any) -> None:
    """Check the installation: versions, BLAS, threads, compiled core, extras, a known result."""
    from mercer.app.doctor import run

    run(**options)
