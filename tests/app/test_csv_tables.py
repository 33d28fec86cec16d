"""Reading and writing tables: the rules, and a sentence for every way to break them."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

from mercer.app.files.outputs import check_outputs, check_table_output, written
from mercer.app.main import main
from mercer.app.terminal import AppError, require, shown
from mercer.tables.files.numbers import read_number
from mercer.tables.files.table import batches, read_file

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_numbers_by_name(write):
    table = read_file(write('\ufeffa, b ,"c,d"\n1,2,3\n-.5e1, +4. ,NA\n\n'))
    assert table.names == ["a", "b", "c,d"]
    np.testing.assert_array_equal(table.numbers(["c,d", "a"]), [[3, 1], [np.nan, -5]])
    assert table.places == ["line 2", "line 3"]


def test_quoted_line_breaks_count_as_lines(write):
    table = read_file(write('a,b\n1,"two\nlines"\n2,x\n'))
    with pytest.raises(ValueError, match=r"line 2: column 'b' holds 'two\\nlines', not a number"):
        table.numbers(["b"])
    assert table.places == ["line 2", "line 4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: a header"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "line 3: 1 fields, but the header has 2"),
        ("a,b\n1,2,3\n", "line 2: 3 fields"),
        ("a\n1\n\n3\n", "line 3: the line is empty, and rows follow after it; .* write NA"),
        ("a,,b\n1,2,3\n", "column 2 has no name"),
        (",a,\n0,1,2\n", "column 3 has no name"),
        ('{"a": [1, 2]}', "is JSON, not CSV: convert it"),
        ('[{"a": 1}]', "is JSON, not CSV"),
        (b"PAR1" + bytes(40), "is parquet, not CSV: let its name end in .parquet"),
        (b"BZh91AY&SY", "is compressed in a way that is not read here: unpack it"),
        (gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30], "is damaged"),
        ("a,b;c\n1,2;3\n", r"commas \(2 columns\) or semicolons \(2 columns\).*--delimiter"),
        (b"a,b\n1,\x81\n", "not UTF-8 text, nor cp1252"),
        ('a,b\n1,"x\n', "line 2: not valid CSV"),
        ("a,b\n1," + "9" * 200_000 + "\n", "not valid CSV"),
    ],
)
def test_broken_files(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_file(write(text))


def test_empty_lines_are_skipped_and_places_stay(write):
    table = read_file(write("\na,b\n1,2\n\n  \n3,4\n\n"))
    assert table.places == ["line 3", "line 6"]
    np.testing.assert_array_equal(table.numbers(["a", "b"]), [[1, 2], [3, 4]])


def test_an_index_without_a_name_is_left_out_and_said(write, tmp_path, capsys):
    rows = "".join(f"{i},{i % 7},{i % 7 + 0.1 * (i % 2)}\n" for i in range(20))
    path = write(",a,y\n" + rows)
    table = read_file(path)
    assert table.names == ["a", "y"]
    assert table.columns["a"][:2] == ["0", "1"]
    said = "has no name: it was left out as a row index"
    model = str(tmp_path / "m.mercer")
    assert main(["fit", path, "-t", "y", "-o", model, "--candidates", "linear"]) == 0
    assert said in capsys.readouterr().out
    assert main(["stream", write(",a,c\n" + "0,1,x\n1,2,y\n" * 9), "-t", "c"]) == 0
    assert capsys.readouterr().out.count(said) == 1


def test_compressed_text_is_read(write, monkeypatch):
    packed = gzip.compress(b"a,b\n1,2\n\n3,4\n")
    table = read_file(write(packed, "t.csv.gz"))
    np.testing.assert_array_equal(table.numbers(["a", "b"]), [[1, 2], [3, 4]])
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(packed)))
    monkeypatch.setattr("sys.stdin", stdin)
    (part,) = batches(["-"], None, 10)
    assert part.path == "standard input"
    assert part.columns == table.columns
    assert not stdin.closed


@pytest.mark.parametrize("text", ["1_000", "1,5", "0x10", "١٢", "1e", "--1", "yes", "1 2", "+-1"])
def test_what_is_not_a_number(text):
    assert read_number(text) is None


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "nan", "NULL", "None"])
def test_what_is_missing(text):
    assert np.isnan(read_number(text).value)


@pytest.mark.parametrize("text", ["inf", "Infinity", "1e999"])
def test_infinity_is_refused(write, text):
    with pytest.raises(ValueError, match=r"line 2: column 'a' holds"):
        read_file(write(f"a\n{text}\n")).numbers(["a"])


def test_missing_columns_are_named(write):
    table = read_file(write("Price,area\n1,2\n"))
    with pytest.raises(
        ValueError, match=r"no column 'prise' \(the target\); did you mean 'Price'\?"
    ):
        table.check(["prise"], "the target")
    with pytest.raises(ValueError, match=r"lacks 2 columns .*'u', 'v'"):
        table.check(["u", "v"], "an input")
    with pytest.raises(ValueError, match=r"no column 'zzz' .*; its columns are 'Price', 'area'"):
        table.check(["zzz"], "an input")


def test_missing_values_are_refused_or_masked(write):
    table = read_file(write("a,b\n1,2\n3,\n,NA\n"))
    values = table.numbers(["a", "b"])
    with pytest.raises(ValueError, match=r"line 3: column 'b' has no value \(2 of 3 .* --cure"):
        table.complete(values, ["a", "b"], "--cure")
    assert table.complete(values, ["a", "b"], None).tolist() == [True, False, False]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_written_tables_read_back(tmp_path, name):
    path = str(tmp_path / name)
    columns = {"x": np.array([0.1, 1e-300, np.nan]), "y": np.array([1.0, 2.0, 1 / 3])}
    with written(path) as write:
        write({name: column[:2] for name, column in columns.items()})
        write({name: column[2:] for name, column in columns.items()})
    again = read_file(path)
    assert again.names == ["x", "y"]
    np.testing.assert_array_equal(again.numbers(["x", "y"]), np.stack([*columns.values()], axis=1))


def test_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    path = str(tmp_path / "t.parquet")
    frame = {"a": [1, None], "flag": [True, False], "text": ["1.5", "x"], "inf": [1.0, np.inf]}
    polars.DataFrame(frame).write_parquet(path)
    table = read_file(path)
    np.testing.assert_array_equal(table.numbers(["a", "flag"]), [[1, 1], [np.nan, 0]])
    with pytest.raises(ValueError, match="row 2: column 'text' holds 'x', not a number"):
        table.numbers(["text"])
    with pytest.raises(ValueError, match="row 2: column 'inf' holds a number that is not finite"):
        table.numbers(["inf"])


def test_rubbish_is_not_parquet(write):
    with pytest.raises(ValueError, match="not a parquet file"):
        read_file(write("a,b\n1,2\n", "t.parquet"))
    with pytest.raises(FileNotFoundError):
        read_file("nowhere.parquet")


def test_outputs_do_not_overwrite_inputs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    with pytest.raises(AppError, match="would overwrite"):
        check_outputs([str(link), None], [str(path)])
    with pytest.raises(AppError, match="would overwrite"):
        check_outputs(["x", "./x"], [])


def test_text_is_shown_harmlessly():
    assert shown("a\x1b[31m\u202e") == "a\\x1b[31m\\u202e"
    assert len(shown("x" * 500, 20)) == 20


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(AppError, match=r'needs polars.*pip install "mercer\[data\]"'):
        require("polars", "reading parquet")


@pytest.mark.parametrize("name", ["p.xlsx", "p.JSON", "p.csv.zip", "p.feather"])
def test_what_cannot_be_written_is_refused_by_its_name(tmp_path, name):
    with pytest.raises(AppError, match=r"cannot be written; let the name end in \.csv"):
        check_table_output(str(tmp_path / name), [])


@pytest.mark.parametrize(("name", "tab"), [("p.tsv", "\t"), ("p.csv.gz", ","), ("p.out", ",")])
def test_the_name_says_what_is_written(tmp_path, name, tab):
    path = str(tmp_path / name)
    check_table_output(path, [])
    with written(path) as write:
        write({"a": np.array([1.5]), "b": ["x"]})
    table = read_file(path)
    assert table.reading.delimiter == tab
    assert table.columns == {"a": ["1.5"], "b": ["x"]}
