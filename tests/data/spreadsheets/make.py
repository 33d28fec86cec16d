"""Write the files of this folder: one small table as different programs export it.

    python tests/data/spreadsheets/make.py

Each is what the program in its name writes; ``plain.csv.gz`` is the table by the book.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import math
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ["Fläche", "Preis", "Rabatt", "verkauft am", "Ort", "Bemerkung", "Tage"]


def table():
    """Return the rows: size, price, discount as a share, date, town, remark, target."""
    rows = []
    for i in range(36):
        size = 20.0 + 7.5 * ((i * 7) % 36)
        price = round(1250.5 * size / 10 + 137.25 * (i % 5), 2)
        share = 0.005 * (i % 9)
        day = datetime.date(2025, 1, 28) + datetime.timedelta(days=11 * i)
        town = ["Köln", "Zürich", "Ulm"][i % 3]
        remark = ["", "Altbau", "Balkon,\nSüdseite", 'mit "Garten"'][i % 4]
        target = round(30 + 10 * math.sin(size / 60) + 3 * (town == "Ulm") + 0.5 * (i % 2), 2)
        rows.append([size, price, share, day, town, remark, target])
    return rows


def grouped(value, mark, decimal):
    text = f"{value:,.2f}"
    return text.replace(",", "\0").replace(".", decimal).replace("\0", mark)


def german(row):
    size, price, share, day, town, remark, target = row
    comma = [f"{v:.2f}".replace(".", ",") for v in (size, 100 * share, target)]
    return [comma[0], grouped(price, ".", ",") + " €", comma[1] + " %",
            f"{day.day}.{day.month}.{day.year}", town, remark, comma[2]]  # fmt: skip


def american(row):
    size, price, share, day, town, remark, target = row
    return [f"{size:.1f}", "$" + grouped(price, ",", "."), f"{100 * share:.1f}%",
            f"{day.month}/{day.day}/{day.year}", town, remark, f"{target:.2f}"]  # fmt: skip


def british(row):
    return [*american(row)[:3], f"{row[3]:%d/%m/%Y}", *american(row)[4:]]


def swiss(row):
    size, price, share, day, town, remark, target = row
    return [f"{size:.1f}", "CHF " + grouped(price, "'", "."), f"{100 * share:.1f}%",
            f"{day:%d.%m.%Y}", town, remark, f"{target:.2f}"]  # fmt: skip


def english(row):
    day = row[3]
    forms = [f"{day.day} {day:%b} {day.year}", f"{day:%b} {day.day}, {day.year}", f"{day:%d-%b-%y}"]
    return [*american(row)[:3], forms[day.day % 3], *american(row)[4:]]


def plain(row):
    size, price, share, day, town, remark, target = row
    return [repr(size), repr(price), repr(round(share, 6)), day.isoformat(), town, remark,
            repr(target)]  # fmt: skip


def text(style, delimiter, end="\r\n", quote=csv.QUOTE_MINIMAL, names=NAMES):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quote)
    writer.writerow(names)
    writer.writerows(style(row) for row in table())
    return out.getvalue()


def write(name, content, encoding="utf-8"):
    data = content.encode(encoding)
    if name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    (HERE / name).write_bytes(data)


def escaped(value):
    for a, b in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        value = value.replace(a, b)
    return value


def cell(column, row, value, style=0):
    at = f"{chr(65 + column)}{row}"
    if isinstance(value, str):
        return f'<c r="{at}" t="inlineStr"><is><t>{escaped(value)}</t></is></c>' if value else ""
    return f'<c r="{at}" s="{style}"><v>{value!r}</v></c>'


def book(name, sheets):
    """Write a workbook; ``sheets`` are lists of rows of (value, style) by name."""
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packed = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packed}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{kind}.styles+xml"/>'
        + "".join(f'<Override PartName="/xl/worksheets/sheet{i}.xml" '
                  f'ContentType="{kind}.worksheet+xml"/>' for i in range(1, len(sheets) + 1))
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{packed}/relationships"><Relationship Id="rId1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        + "".join(f'<sheet name="{n}" sheetId="{i}" r:id="rId{i}"/>'
                  for i, n in enumerate(sheets, 1)) + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{packed}/relationships">'
        + "".join(f'<Relationship Id="rId{i}" Type="{office}/worksheet" '
                  f'Target="worksheets/sheet{i}.xml"/>' for i in range(1, len(sheets) + 1))
        + f'<Relationship Id="rId99" Type="{office}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{main}"><fonts count="1"><font/></fonts><fills '
        'count="1"><fill/></fills><borders count="1"><border/></borders><cellStyleXfs count="1">'
        '<xf/></cellStyleXfs><cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14" '
        'applyNumberFormat="1"/><xf numFmtId="10" applyNumberFormat="1"/></cellXfs></styleSheet>',
    }  # fmt: skip
    for i, rows in enumerate(sheets.values(), 1):
        body = "".join(
            f'<row r="{r}">' + "".join(cell(c, r, *v) for c, v in enumerate(row)) + "</row>"
            for r, row in rows
        )
        parts[f"xl/worksheets/sheet{i}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>'
        )
    with zipfile.ZipFile(HERE / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in parts.items():
            info = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, head + content)


def old_book(name):
    """Write a workbook of 1997 (needs xlwt, which mercer does not)."""
    import xlwt

    made = xlwt.Workbook(encoding="utf-8")
    sheet = made.add_sheet("Verkäufe")
    day, share = (xlwt.easyxf(num_format_str=form) for form in ("DD.MM.YYYY", "0.00%"))
    styles = [None, None, share, day, None, None, None]
    for j, title in enumerate(NAMES):
        sheet.write(0, j, title)
    for i, row in enumerate(table(), 1):
        for j, (value, style) in enumerate(zip(row, styles, strict=True)):
            if value != "":
                sheet.write(i, j, value, *([style] if style else []))
    made.save(str(HERE / name))


def sheet(first):
    epoch = datetime.date(1899, 12, 30)
    rows = [(first, [(name,) for name in NAMES])]
    for i, (size, price, share, day, town, remark, target) in enumerate(table(), first + 1):
        cells = [(size,), (price,), (share, 2), ((day - epoch).days, 1), (town,), (remark,)]
        rows.append((i, [*cells, (target,)]))
    return rows


def main():
    write("plain.csv.gz", text(plain, ",", "\n"))
    write("excel-german.csv", text(german, ";") + ";;;;;;\r\n" * 3, "cp1252")
    write("excel-german-bom.csv", text(german, ";"), "utf-8-sig")
    write("excel-unicode.txt", text(german, "\t"), "utf-16")
    write("excel-us.csv", text(american, ","))
    write("months.csv", text(english, ","))
    write("excel-british.csv", text(british, ","), "utf-8-sig")
    write("excel-swiss.csv", "sep=;\r\n" + text(swiss, ";"), "latin-1")
    write("libreoffice.tsv", text(german, "\t", "\n", csv.QUOTE_ALL))
    doubled = [*NAMES[:5], "Fläche", "Tage"]
    write("same-names.csv", text(plain, "|", "\n", names=doubled).replace("\n", "\n", 1))
    few = [["Tag", "Wert"], *[[f"{i % 12 + 1}/{i % 11 + 1}/2026", i] for i in range(30)]]
    write("open-dates.csv", "".join(f"{a},{b}\n" for a, b in few))
    mixed = "Ort;Wert\n" + "Köln;1\n" * 20
    (HERE / "mixed-encodings.csv").write_bytes(mixed.encode() + mixed[9:].encode("cp1252"))
    old_book("book.xls")
    book("book.xlsx", {"Verkäufe": sheet(1), "leer": [], "ab Zeile 4": sheet(4)})


if __name__ == "__main__":
    main()
