"""Write tables and figures as files, and read them with other tools."""

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import pandas
import pytest
from PIL import Image

from lmms_egoplan.report.document import Figure, Section, write_figure, write_files
from lmms_egoplan.report.tables import Column, Row, Table, csv_of, latex_of, markdown_of

COLUMNS = (
    Column("model", "Model"),
    Column("acc", "Accuracy", 2, True),
    Column("loss", "Loss", 1, False),
    Column("questions", "Questions"),
)
ROWS = (
    Row(("Paper-7B", 26.71, 2.04, 3355)),
    Row(("Own, 7B", 100 / 3, 1.96, None), is_ours=True),
    Row(('"Other"\nof two lines', 41.520000000000003, 3.0, 12)),
    Row(("Empty", None, None, None)),
)
TABLE = Table(
    "the_table", "Title", COLUMNS, ROWS, "Paper, Table 1", ("First note.", "Second note.")
)


def table_of(*texts):
    return Table(
        "key", texts[0], (Column("text", texts[1]),), tuple(Row((text,)) for text in texts[2:])
    )


def draw():
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(4, 3))
    axes = drawing.add_subplot()
    axes.bar([0, 1], [3, 5], label="llava & <co>")
    axes.set_xlabel("past actions")
    axes.legend()
    return drawing


FIGURE = Figure("the_figure", "Bars", "Caption.", draw, "Two bars.")


def lines_of(table):
    """Split the Markdown into title, header, rule, rows and notes."""
    title, blank, head, rule, *body = markdown_of(table).split("\n")
    assert blank == ""
    blank_line = body.index("")
    assert body[-1] == ""
    return title, head, rule, body[:blank_line], body[blank_line + 1 : -1]


def test_csv_is_read_by_pandas():
    frame = pandas.read_csv(io.StringIO(csv_of(TABLE)))
    assert [*frame.columns] == ["model", "acc", "loss", "questions", "own"]
    assert [*frame["model"]] == [row.values[0] for row in ROWS]
    assert [*frame["own"]] == [False, True, False, False]
    for index, column in enumerate(("acc", "loss", "questions"), 1):
        values = [math.nan if row.values[index] is None else row.values[index] for row in ROWS]
        assert [*frame[column]] == pytest.approx(values, rel=1e-15, nan_ok=True)


def test_csv_has_all_digits():
    read = [*csv.DictReader(io.StringIO(csv_of(TABLE)))]
    assert [float(row["acc"]) for row in read if row["acc"]] == [26.71, 100 / 3, 41.520000000000003]


def test_a_missing_value_is_an_empty_field():
    assert [*csv.reader(io.StringIO(csv_of(TABLE)))][-1] == ["Empty", "", "", "", "False"]


SIGNS = 'a_b%&$#{}~^\\<>|"`[c]*--d \u22121.5 \u00b12 \u2265\u00d7\u2026\u2013\u202f% \u00e9'


def test_latex_has_marks_numbers_and_notes():
    lines = latex_of(TABLE).splitlines()
    assert r"\begin{tabular}{lrrr}" in lines
    assert lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")] == [
        r"Paper-7B & 26.71 & \textbf{2.0} & 3,355 \\",
        r"$\triangleright$ Own, 7B & \underline{33.33} & \textbf{2.0} & -- \\",
        r"''Other'' of two lines & \textbf{41.52} & \underline{3.0} & 12 \\",
        r"Empty & -- & -- & -- \\",
    ]
    assert [line.removeprefix(r"\par\footnotesize ") for line in lines[-5:-1]] == [
        "Paper, Table 1", "First note.", "Second note.", r"$\triangleright$: own run."
    ]  # fmt: skip


def test_latex_escapes_every_sign():
    text = latex_of(table_of(SIGNS, SIGNS, SIGNS, "[first]", "*first"))
    body = text.split("\n", 1)[1]
    assert body.isascii() is False  # the letter
    assert {sign for sign in body if not sign.isascii()} == {"\u00e9"}
    assert r"a\_b\%\&\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}" in body
    assert "{[}c{]}{*}-{}-d $-$1.5 " + r"$\pm$2" in body
    assert not re.search(r"^[\[*]", body, re.MULTILINE)


@pytest.mark.skipif(
    not shutil.which("pdflatex")
    or subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True).returncode,
    reason="needs pdflatex with booktabs",
)
def test_latex_compiles(tmp_path):
    tables = latex_of(TABLE) + latex_of(
        table_of(SIGNS, SIGNS, SIGNS, "[first]", "*first", "(third)")
    )
    document = (
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
        + tables
        + "\\end{document}\n"
    )
    (tmp_path / "a.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_table_without_rows_has_a_header():
    empty = Table("key", "Title", COLUMNS, ())
    assert csv_of(empty) == "model,acc,loss,questions,own\n"
    assert lines_of(empty)[3] == []


def test_markdown_marks_the_best_and_the_second_best():
    _, _, _, rows, _ = lines_of(TABLE)
    assert rows == [
        "| Paper-7B | 26.71 | **2.0** | 3,355 |",
        "| ▸ Own, 7B | <u>33.33</u> | **2.0** | \u2013 |",
        '| "Other" of two lines | **41.52** | <u>3.0</u> | 12 |',
        "| Empty | \u2013 | \u2013 | \u2013 |",
    ]


def test_markdown_aligns_numbers_to_the_right():
    assert lines_of(TABLE)[1:3] == (
        "| Model | Accuracy | Loss | Questions |",
        "| --- | ---: | ---: | ---: |",
    )


def test_markdown_has_source_notes_and_an_explanation_of_the_mark():
    title, _, _, _, below = lines_of(TABLE)
    assert title == "**Title**"
    assert below == ["Paper, Table 1  ", "First note.  ", "Second note.  ", "▸: own run.  "]
    published = Table("key", "Title", COLUMNS, ROWS[:1])
    assert lines_of(published)[4] == []
    assert "▸" not in markdown_of(published)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("<img src=x>", "&lt;img src=x>"),
        ("two\nlines\tof  it", "two lines of it"),
        ("{}", "{}"),
    ],
)
def test_markdown_escapes_texts(text, escaped):
    title, head, _, rows, _ = lines_of(table_of(text, text, text, "x"))
    assert (title, head, rows) == (f"**{escaped}**", f"| {escaped} |", [f"| {escaped} |", "| x |"])
    noted = Table("key", "Title", COLUMNS, (), text, (text,))
    assert lines_of(noted)[4] == [f"{escaped}  "] * 2


def test_a_figure_is_an_svg_with_its_text_as_text(tmp_path):
    write_figure(tmp_path, FIGURE)
    root = ElementTree.parse(tmp_path / "the_figure.svg").getroot()
    texts = [
        "".join(element.itertext()).strip()
        for element in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"past actions", "llava & <co>"} <= {*texts}


def test_a_figure_is_a_png_for_print(tmp_path):
    write_figure(tmp_path, FIGURE)
    with Image.open(tmp_path / "the_figure.png") as image:
        image.load()
        assert (image.format, image.size) == ("PNG", (1200, 900))
        assert len(image.convert("RGB").getcolors(1 << 20)) > 2


def test_the_same_figure_gives_the_same_files(tmp_path):
    for name in ("one", "two"):
        write_figure(tmp_path / name, replace(FIGURE))
    for suffix in ("svg", "png"):
        first, second = (tmp_path / name / f"the_figure.{suffix}" for name in ("one", "two"))
        assert first.read_bytes() == second.read_bytes()


def test_a_figure_that_cannot_be_drawn_does_not_change_earlier_files(tmp_path):
    from matplotlib.figure import Figure as Drawing

    class Failing(Drawing):
        def savefig(self, file, **settings):
            file.write(b"half" if isinstance(file, io.BytesIO) else "half")
            raise OSError("no space left")

    write_figure(tmp_path, FIGURE)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OSError, match="no space left"):
        write_figure(tmp_path, Figure("the_figure", "Bars", "Caption.", Failing, "Two bars."))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_every_table_and_figure_of_every_section_has_its_files(tmp_path):
    progress = []
    other = Table("other", "Other", COLUMNS, ROWS)
    sections = [
        Section("a", "A", "", tables=(TABLE,), figures=(FIGURE,)),
        Section("b", "B", "", tables=(other,)),
    ]
    write_files(tmp_path, iter(sections), lambda *step: progress.append(step))
    files = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    )
    assert files == [
        "figures/the_figure.png",
        "figures/the_figure.svg",
        *(f"tables/{key}.{suffix}" for key in ("other", "the_table") for suffix in ("csv", "md")),
    ]
    assert (tmp_path / "tables" / "the_table.csv").read_bytes().decode() == csv_of(TABLE)
    assert (tmp_path / "tables" / "the_table.md").read_bytes().decode() == markdown_of(TABLE)
    assert progress == [("figure files", 1, 1)]
