"""What is written from stored JSON: benchmarks, the index of papers, tables of other pages.

    python docs/stored.py                                     write all of it
    python docs/stored.py take gpr rows.jsonl "run.py gpr"    store what a benchmark wrote first

Further arguments of ``take`` are remarks.

``benchmarks/NAME.json`` has a title, the command, the date and the rows that
``benchmarks/run.py --json`` writes; ``papers/index.json`` what was published, and in braces the
names of what was found, which ``paper_figures.py`` reads from what the scripts have stored.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import paper_figures  # noqa: E402  # needs the path set above

#: The order of the page and the titles; a suite that is not named here comes last, under its name.
TITLES = {
    "tables": "From a table to a model",
    "gpr": "Gaussian process regression",
    "gpc": "Gaussian process classification",
    "svc": "Support vector classification",
    "svr": "Support vector regression",
    "lsc": "Least squares on labels",
    "rvm": "Relevance vectors",
    "spline": "Smoothing splines",
    "stream": "Streams",
    "serve": "The service",
    "few": "Few labels",
    "scale": "Large tables",
    "cluster": "Beyond one machine",
    "sizing": "The size of a cluster",
    "design": "Experimental design",
}
README = HERE.parent / "README.md"
FIELDS = ("what", "who", "value", "unit", "bar", "seconds", "quality", "note", "verdict")


def take(name: str, rows: Path, command: str, remarks: list[str]) -> None:
    """Store the JSON lines of a benchmark with the command that made them."""
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines() if line]
    odd = [row for row in found if not set(FIELDS) <= set(row)]
    if odd or not any(row["what"] != "machine" for row in found):
        raise SystemExit(f"{rows} has no rows as benchmarks/run.py --json writes them: {odd[:1]}")
    machine = [row["note"] for row in found if row["what"] == "machine"]
    stored = {
        "title": TITLES.get(name, name),
        "command": command,
        "machine": "; ".join(dict.fromkeys(machine)) or "not recorded",
        "date": datetime.datetime.fromtimestamp(rows.stat().st_mtime).date().isoformat(),
        "remarks": remarks,
        "rows": [row for row in found if row["what"] != "machine"],
    }
    text = json.dumps(stored, indent=1) + "\n"
    (HERE / "benchmarks" / f"{name}.json").write_text(text, encoding="utf-8")


def suites() -> dict[str, dict[str, Any]]:
    """The stored benchmarks by name, in the order of the page."""
    files = {path.stem: path for path in sorted((HERE / "benchmarks").glob("*.json"))}
    order = [*(n for n in TITLES if n in files), *(n for n in files if n not in TITLES)]
    return {name: json.loads(files[name].read_text(encoding="utf-8")) for name in order}


def benchmarks_page() -> str:
    """The page of all stored benchmarks."""
    parts = [
        "# Benchmarks\n",
        "CPU seconds of one thread; mercer and its peers take turns on the same data in the same\n"
        "run, and the figures are ratios. What each suite does, and how it is measured, is in\n"
        "`benchmarks/README.md` of the repository. This page is written by `docs/stored.py` from\n"
        "`docs/benchmarks/*.json`; a bar that was missed says so.\n",
    ]
    found = suites()
    parts.append(_overview(found))
    for stored in found.values():
        parts.append(f"## {stored['title']}\n")
        parts.append(f"    {stored['command']}\n")
        parts.append(f"{stored['date']}; {stored['machine']}.\n")
        parts.append(_table(stored["rows"]))
        parts.append(_verdict(stored["rows"]) + "\n")
        parts.extend(f"{remark}\n" for remark in stored.get("remarks", []))
    return "\n".join(parts)


def speeds() -> str:
    """Each task of the stored benchmarks in a line: how much slower the others are."""
    lines = ["| suite | task | how many times slower than mercer |", "|---|---|---|"]
    for name, stored in suites().items():
        tasks: dict[str, list[str]] = {}
        for row in stored["rows"]:
            if row["unit"] == "x slower than mercer":
                tasks.setdefault(row["what"], []).append(f"{row['who']} {row['value']:.3g}")
        lines.extend(
            f"| `{name}` | {_cell(what)} | {_cell(', '.join(found))} |"
            for what, found in tasks.items()
        )
    return "\n".join(lines) + "\n"


def _placed(path: Path, tables: dict[str, str]) -> str:
    """The page with its tables, each between its marks."""
    text = path.read_text(encoding="utf-8")
    for name, written in tables.items():
        first, last = f"<!-- {name}: written by docs/stored.py -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(first)
        _, mark, after = rest.partition(last)
        if not mark:
            raise SystemExit(f"{path.name} has no place {first} ... {last}")
        text = f"{before}{first}\n\n{written}\n{last}{after}"
    return text


def cluster_size() -> dict[str, str]:
    """The measured times of blocks, and what fits take of a cluster, as tables."""
    stored = json.loads((HERE / "benchmarks" / "sizing.json").read_text(encoding="utf-8"))
    times = ["| a block | pass | s of one core | GFLOP/s | answer, MB | broadcast, MB |"]
    fits = ["| rows | fit | passes | Tflop | core hours | GB read | GB moved | minutes |"]
    times, fits = (
        [*times, "|---|---|---|---|---|---|"],
        [*fits, "|---|---|---|---|---|---|---|---|"],
    )
    for row in stored["rows"]:
        told = row["quality"]
        if "passes" in told:
            names = ("passes", "Tflop", "core hours", "GB read", "GB moved")
            cells = [row["what"], row["who"], *(f"{told[name]:.3g}" for name in names)]
            fits.append("| " + " | ".join([*cells, f"{row['value']:.3g}"]) + " |")
        elif told:
            names = ("GFLOP/s", "answer MB", "broadcast MB")
            cells = [f"{told[name]:.3g}" if name in told else "" for name in names]
            first = [row["what"], row["who"], f"{row['value']:.3g}"]
            times.append("| " + " | ".join([*first, *cells]) + " |")
        else:
            times.append(f"| {row['what']} | {row['who']} | {1e-3 * row['value']:.3g} | | | |")
    made = f"\n{stored['date']}; {stored['machine']}; `{stored['command']}`.\n"
    made += "".join(f"{remark}\n" for remark in stored["remarks"])
    return {"blocks": "\n".join(times) + "\n" + made, "fits": "\n".join(fits) + "\n"}


def _overview(found: dict[str, dict[str, Any]]) -> str:
    """All suites in a few lines: how many bars each has, and how many of them were met."""
    lines = ["| suite | bars | met | missed |", "|---|---|---|---|"]
    for stored in found.values():
        verdicts = [row["verdict"] for row in stored["rows"] if row["verdict"]]
        missed = verdicts.count("FAIL")
        cells = (stored["title"], len(verdicts), len(verdicts) - missed, f"**{missed}**")
        lines.append(
            "| " + " | ".join(str(cell if cell != "**0**" else 0) for cell in cells) + " |"
        )
    return "\n".join(lines) + "\n"


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Which bars were missed, in words; that all were met; or that there were none."""
    judged = [row for row in rows if row["verdict"]]
    missed = [row for row in judged if row["verdict"] == "FAIL"]
    if not judged:
        return "No bars were set for these rows."
    if not missed:
        return f"All {len(judged)} bars were met."
    named = "; ".join(
        f"{row['what']} ({row['who']}): {row['value']:.3g} {row['unit']}, bar {row['bar']}"
        for row in missed
    )
    return f"**{len(missed)} of {len(judged)} bars missed**: {_cell(named)}."


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| task | who | CPU s | figure | bar | quality |", "|---|---|---|---|---|---|"]
    for row in rows:
        value = "" if row["value"] is None else f"{row['value']:.3g} {row['unit']}"
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.3g}"
        bar = row["bar"] + (" **missed**" if row["verdict"] == "FAIL" else "")
        quality = ", ".join(
            f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}"
            for k, v in row["quality"].items()
        )
        notes = "; ".join(part for part in (quality, row["note"]) if part)
        cells = (row["what"], row["who"], seconds, value, bar, notes)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", r"\<").strip()


def papers_page() -> str:
    """The index of every reproduced table and figure, ours beside theirs."""
    index = json.loads((HERE / "papers" / "index.json").read_text(encoding="utf-8"))
    parts = [
        "# Papers\n",
        "Every published table and figure that was repeated, ours beside theirs. The scripts are\n"
        "in `papers/` of the repository; data are read from the folder `MERCER_DATA`. This page\n"
        "is written by `docs/stored.py`: the words are in `docs/papers/index.json`, and mercer's\n"
        "figures are those that the scripts stored. What was found wrong in the texts themselves,\n"
        "with the corrected equations, is on a page of its own: [Errata](errata.md). What the\n"
        "sources have and was missing, and where it is now: [Coverage](coverage.md).\n",
    ]
    figures = paper_figures.figures()
    for paper in index["papers"]:
        parts.append(f"## {paper['title']}\n")
        parts.append(f"{paper['reference']}\n")
        lines = ["| what | theirs | mercer | script | page |", "|---|---|---|---|---|"]
        for row in paper["rows"]:
            page = f"[{row['page']}]({row['page']}.md)" if row["page"] else ""
            texts = (row[key].format_map(figures) for key in ("what", "theirs", "ours"))
            cells = [*map(_cell, texts), f"`{row['script']}`"]
            lines.append("| " + " | ".join([*cells, page]) + " |")
        parts.append("\n".join(lines) + "\n")
        parts.extend(f"{remark.format_map(figures)}\n" for remark in paper.get("remarks", []))
    pages = sorted({r["page"] for p in index["papers"] for r in p["rows"] if r["page"]})
    pages += ["errata", "coverage"]
    parts.append("\n".join(["```{toctree}", ":hidden:", "", *pages, "```"]) + "\n")
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """Every page that is written here, with its text."""
    return {
        HERE / "benchmarks.md": benchmarks_page(),
        HERE / "papers" / "index.md": papers_page(),
        HERE / "guide" / "cluster-size.md": _placed(
            HERE / "guide" / "cluster-size.md", cluster_size()
        ),
        README: _placed(README, {"speeds": speeds()}),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["take"]:
        take(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
