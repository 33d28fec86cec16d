"""What spreadsheets contain: one table in ten dialects is the same table, and what is open asks."""

from __future__ import annotations

import datetime
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.tables.data.frame import days
from mercer.tables.files import quick
from mercer.tables.files.dates import order_of, written
from mercer.tables.files.numbers import TextColumn, read_number
from mercer.tables.files.table import FileOptions, read_file

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

FILES = Path(__file__).parents[1] / "data" / "spreadsheets"
TAKEN = {  # encoding, separator, decimal mark, dates, thousands
    "excel-german.csv": ("cp1252", ";", ",", "day-first", "."),
    "excel-german-bom.csv": ("utf-8-sig", ";", ",", "day-first", "."),
    "excel-unicode.txt": ("utf-16", "\t", ",", "day-first", "."),
    "excel-us.csv": ("utf-8", ",", ".", "month-first", ","),
    "excel-british.csv": ("utf-8-sig", ",", ".", "day-first", ","),
    "excel-swiss.csv": ("cp1252", ";", ".", "day-first", "'"),
    "libreoffice.tsv": ("utf-8", "\t", ",", "day-first", "."),
    "months.csv": ("utf-8", ",", ".", "", ","),
    "book.xlsx": ("utf-8", ",", ".", "", ""),
}


@pytest.fixture(scope="module")
def plain():
    return mercer.read_table(FILES / "plain.csv.gz")


def same(one, other):
    assert one.names == other.names
    assert one.dates == other.dates
    for name in other.names:
        np.testing.assert_array_equal(one.columns[name], other.columns[name], err_msg=name)


@pytest.mark.parametrize("name", TAKEN)
def test_every_dialect_is_the_same_table(name, plain):
    table = mercer.read_table(FILES / name)
    same(table, plain)
    read = table.reading
    found = (read.encoding, read.delimiter, read.decimal, read.dates, read.thousands)
    assert found == TAKEN[name]
    assert read.months == (("verkauft am",) if name == "months.csv" else ())
    if name != "book.xlsx":
        assert read.shares == ("Rabatt",)
        assert read.money == ("Preis",)


@pytest.mark.parametrize("name", [n for n in TAKEN if n != "book.xlsx"])
def test_the_quick_reader_agrees_with_the_rows(name, monkeypatch):
    slow = read_file(str(FILES / name))
    monkeypatch.setattr(quick, "LARGE", 0)
    monkeypatch.setattr(quick.read_quick, "__defaults__", (None, None, 0))
    fast = read_file(str(FILES / name))
    assert isinstance(next(iter(fast.columns.values())), TextColumn)
    assert fast.names == slow.names
    assert all(fast.columns[n] == slow.columns[n] for n in slow.names)
    assert fast.places == slow.places
    assert (fast.reading, fast.notes) == (slow.reading, slow.notes)


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n\n3,4\n", "a,b\n1\n", 'a,b\n1,x"y\n', 'a,b\n"1"2,3\n', "a,b\r1,2\r", 'a,b\n1,"2\n'],
)
def test_what_is_not_regular_is_read_by_rows(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    assert quick.read_quick(str(path), least=0) is None


def test_fit_and_predict_in_other_dialects(tmp_path, capsys):
    model = str(tmp_path / "m.mercer")
    call = ["fit", str(FILES / "excel-german.csv"), "-t", "Tage", "-o", model]
    assert main([*call, "--candidates", "linear"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "cp1252, separated by semicolons, decimal comma, 1.234 is 1234 (column 'Preis')" in said
    assert "--encoding, --delimiter, --decimal, --thousands, --dates, --percent" in said
    assert mercer.load(model).reading_ == mercer.load(model).reading_
    outputs = set()
    for name in [*TAKEN, "plain.csv.gz"]:
        out = tmp_path / "out.csv"
        assert main(["predict", model, str(FILES / name), "-o", str(out)]) == 0
        lines = out.read_text().splitlines()
        outputs.add("\n".join(lines[:37]))
    assert len(outputs) == 1
    said = capsys.readouterr().out
    assert "had percent signs in training and has none here" in said


def test_the_model_remembers_what_a_file_leaves_open(tmp_path):
    rows = [f"{i % 28 + 1:02}/{i % 12 + 1:02}/2025;{i % 7},{i % 5}25;{i % 7}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["day;x;y", *rows]))
    model = str(tmp_path / "m.mercer")
    given = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", model, "-q"]
    assert main([*given, "--candidates", "linear"]) == 0
    fitted = mercer.load(model)
    (tmp_path / "new.csv").write_text("day\tx\n03/04/2025\t1,125\n")  # open by itself
    with pytest.raises(ValueError, match=r"may be a fraction or thousands"):
        mercer.read_table(tmp_path / "new.csv")
    assert main(["predict", model, str(tmp_path / "new.csv"), "-o", str(tmp_path / "o.csv")]) == 0
    known = mercer.read_table(tmp_path / "new.csv", decimal=",", dates="day-first")
    found = float((tmp_path / "o.csv").read_text().splitlines()[1].split(",")[0])
    assert found == fitted.predict(known)[0]


def test_options_say_otherwise(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a;b;c\n1.234;5 %;3/4/2026\n".encode("utf-16-le"))
    table = mercer.read_table(path, decimal=",", percent="number", dates="month-first")
    assert table.columns["a"].tolist() == [1234.0]
    assert table.columns["b"].tolist() == [5.0]
    assert table.columns["c"].tolist() == [days(datetime.date(2026, 3, 4))]
    text = mercer.read_table(path, decimal=",", thousands="none", dates="month-first")
    assert text.columns["a"].tolist() == ["1.234"]
    path.write_text("a,b;c\n1,2;3\n")
    assert mercer.read_table(path, delimiter=",").names == ["a", "b;c"]
    path.write_bytes("a,b\n1,ß\n".encode("cp850"))
    assert mercer.read_table(path, encoding="cp850").columns["b"].tolist() == ["ß"]
    assert mercer.read_table(FILES / "book.xlsx", sheet="ab Zeile 4").n == 36


def test_columns_of_the_same_name(tmp_path, capsys):
    table = mercer.read_table(FILES / "same-names.csv")
    assert "Fläche_2" in table.names
    assert "occurs twice" in table.reading.notes[0]
    call = ["fit", str(FILES / "same-names.csv"), "-o", str(tmp_path / "m"), "-t", "Fläche"]
    assert main(call) == 1
    assert "more than one column 'Fläche', and it is the target" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("open-dates.csv", r"1/1/2026.*--dates day-first or --dates month-first"),
        ("mixed-encodings.csv", "UTF-8 in some places and not in others"),
    ],
)
def test_what_is_open_is_asked_for(name, message):
    with pytest.raises(ValueError, match=message):
        mercer.read_table(FILES / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b;c\n1,5;2.5;3\n", "column 'a' has 1,5, and column 'b' has 2.5.*--decimal|column 'b'"),
        ("a\tb\n1,234\t2\n", "1,234, which may be a fraction or thousands"),
        ("a;b\n1.234;2\n", "1.234, which may be a fraction or thousands"),
        ("a,b\n5 %,2\n5,2\n", "numbers with no sign and '%'"),
        ("a,b\n$5,2\n5 €,2\n", r"numbers with '\$' and '€'"),
        ("a,b\n31/12/2026,2\n12/31/2026,2\n", "day first and others with the month first"),
        ("a,b\n31/12/2026,12/31/2026\n", "'a' have the day first, those of 'b' the month"),
        ("a,b\n1,2\n1,x\n2,3\n", "line 3: column 'b' holds 'x', not a number"),
        ("a;b\n1,5;2\n1.5;3\n2,5;1\n", "column 'a' has 1.5 and 1,5: mend it.*--decimal"),
    ],
)
def test_contradictions_are_refused(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        mercer.read_table(path)


def bomb(path, size, lie):
    """Write a .xlsx whose sheet unpacks to ``size`` bytes; its directory may lie about that."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * size)
    raw = data.getvalue()
    if lie:
        raw = raw.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    path.write_bytes(raw)


@pytest.mark.parametrize("lie", [False, True])
def test_a_bomb_is_not_unpacked(tmp_path, lie):
    path = tmp_path / "t.xlsx"
    bomb(path, 70_000_000, lie)
    with pytest.raises(ValueError, match=r"unpacks from 0\.1 MB to more than 67 MB"):
        mercer.read_table(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "has a password, or is an old .xls"),
        (b"PK\x03\x04" + bytes(99), "is a damaged .xlsx"),
        (b"a,b\n1,2\n", "is no .xlsx: it does not begin like one"),
        (b"PK\x05\x06" + bytes(18), "is not a spreadsheet that can be read"),
    ],
)
def test_broken_books(tmp_path, data, message):
    path = tmp_path / "t.xlsx"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        mercer.read_table(path)


def test_a_book_of_the_old_kind_is_refused_with_what_to_do(tmp_path, capsys):
    call = ["fit", str(FILES / "book.xls"), "-t", "Tage", "-o", str(tmp_path / "m.mercer")]
    assert main(call) == 1
    assert "is an old spreadsheet (.xls)" in (said := capsys.readouterr().err)
    assert "save it as .xlsx" in said


@pytest.mark.parametrize("place", ["XFD1048576", "A1048576 XFD2"])
def test_a_cell_far_away_is_not_a_sheet_of_that_size(tmp_path, place):
    """The reader would take 32 bytes for each cell before it, 550 GB, and end the process."""
    path = tmp_path / "t.xlsx"
    rows = "".join(
        f'<row><c r="{at}"><v>1</v></c></row>' for at in place.split()
    )  # in a row without a number
    with zipfile.ZipFile(FILES / "book.xlsx") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            end = f"{rows}</sheetData>".encode()
            new.writestr(name, old.read(name).replace(b"</sheetData>", end))
    with pytest.raises(ValueError, match="as far as row 1048576 and column 16384"):
        mercer.read_table(path)


def test_months_by_name_are_shown(tmp_path, capsys):
    model = str(tmp_path / "m.mercer")
    call = ["fit", str(FILES / "months.csv"), "-t", "Tage", "-o", model, "--candidates", "linear"]
    assert main(call) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "months by name, 3 Jan 2024 is 2024-01-03 (column 'verkauft am')" in said
    assert mercer.load(model).reading_.months == ("verkauft am",)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("3 Jan 2024", (2024, 1, 3)),
        ("Jan 3, 2024", (2024, 1, 3)),
        ("March 31st, 2024", (2024, 3, 31)),
        ("03-Jan-24", (2024, 1, 3)),
        ("03-JAN-71", (1971, 1, 3)),
        ("2024-Sep-30", (2024, 9, 30)),
        ("3. Jänner 2024", (2024, 1, 3)),
        ("29. Mrz. 2024", (2024, 3, 29)),
        ("1er août 2024", (2024, 8, 1)),
        ("9 févr. 2024", (2024, 2, 9)),
        ("31 Foo 2024", None),
        ("3 jui 2024", None),  # juin or juillet
        ("Jan 2024", None),
        ("Jan-24", None),
        ("3 Jan 0024", None),
    ],
)
def test_months_by_name(text, day):
    found = written(text)
    assert (None if found is None else found[:3]) == day
    assert found is None or (found.named and order_of([found]) == "")


def test_a_day_that_no_month_has_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,y\n30 Jan 2024,1\n30 Feb 2024,2\n")
    with pytest.raises(ValueError, match="'when' has dates that are none, such as the 31st"):
        mercer.read_table(path)
    path.write_text("when,y\n30 Jan 2024 2:30 PM,1\n28-Feb-24,2\n")
    known = [days(datetime.datetime(2024, 1, 30, 14, 30)), days(datetime.date(2024, 2, 28))]
    assert mercer.read_table(path).columns["when"].tolist() == known


def test_sheets_by_name():
    with pytest.raises(ValueError, match=r"'leer' is empty; name another with --sheet"):
        mercer.read_table(FILES / "book.xlsx", sheet="leer")
    with pytest.raises(ValueError, match=r"no sheet 'Verkaufe'; did you mean 'Verkäufe'"):
        mercer.read_table(FILES / "book.xlsx", sheet="Verkaufe")
    assert read_file(str(FILES / "book.xlsx"), FileOptions(sheet="ab Zeile 4")).places[0] == "row 5"


def test_a_packed_text_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(quick, "available_bytes", lambda: 1000)
    with pytest.raises(ValueError, match=r"unpacks to more than .* than the memory can take"):
        mercer.read_table(FILES / "plain.csv.gz")


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("1,234,567.8", ".", 1234567.8),
        ("1 234 567,8", ",", 1234567.8),
        ("1\u202f234,5", ",", 1234.5),
        ("\u221212", ".", -12.0),
        ("-$3.50", ".", -3.5),
        ("(1,234.00)", ".", -1234.0),
        ("12 %", ".", 12.0),
        ("1,23,456", ".", None),
        ("1.2.3", ".", None),
        ("$5 %", ".", None),
        ("12,5", ".", None),
        ("1.5", ",", None),
        ("5 kg", ".", None),
    ],
)
def test_numbers_as_they_are_written(text, decimal, value):
    found = read_number(text, decimal)
    assert (None if found is None else found.value) == value


def test_the_order_of_dates_is_one_of_the_column():
    texts = ["03/04/2026", "13/04/2026"]
    assert order_of([written(t) for t in texts]) == "day-first"
    assert written("2026-13-99 25:00") is None
    assert written("1/2/26 2:30 PM").seconds == 52200
    assert written("31.12.202") is None
