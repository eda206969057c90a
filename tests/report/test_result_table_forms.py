"""Terminal, Markdown, CSV and page show one table of the models, whatever machines they ran on."""

import csv
import io
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from lmms_egoplan.cli import app
from report.machines import NAMES, QUESTIONS, write_machines
from report.prepared import prepare_data


class Cells(HTMLParser):
    """The rows of the first table of a page: the texts of its cells."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.in_cell, self.tables = [], False, 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tables += tag == "table"
        if self.tables == 1 and tag == "tr":
            self.rows.append([])
        if self.tables == 1 and tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data):
        if self.tables == 1 and self.in_cell:
            self.rows[-1][-1] += f"{data} "


def numbers(text):
    """Return the score and the ends of the interval in a cell, as texts."""
    return re.findall(r"\d+\.\d+", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forms")


@pytest.fixture(scope="module")
def paths(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_data(folder / "data", **QUESTIONS)
        patch.setenv("COLUMNS", "120")
        yield [str(path) for path in write_machines(folder / "runs")]


def run(*arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_form_has_one_row_per_model_with_the_same_numbers(folder, paths):
    markdown = {}
    for line in run("show", *paths, "--format", "md").splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if name in NAMES:
            markdown[name] = [numbers(cell) for cell in cells]
    assert markdown.keys() == set(NAMES)
    assert all(len(cell) == 3 for cells in markdown.values() for cell in cells)

    terminal = {}
    lines = run("show", *paths).splitlines()
    for line, below in pairwise(lines):
        name = line.partition(" ")[0]
        if name in NAMES:
            scores, ends = numbers(line.removeprefix(name)), numbers(below)
            terminal[name] = [[score, *ends[2 * n : 2 * n + 2]] for n, score in enumerate(scores)]
    assert terminal == markdown

    run("report", *paths, "--out", str(folder / "report"))
    page = Cells((folder / "report" / "index.html").read_text(encoding="utf-8"))
    on_page = {}
    for name, *cells in page.rows:
        if name.strip() in NAMES:
            on_page[name.strip()] = [numbers(cell) for cell in cells]
    assert on_page == markdown

    rows = list(csv.DictReader(io.StringIO(run("show", *paths, "--format", "csv"))))
    assert [row["model"] for row in rows] == list(markdown)
    for row in rows:
        for cell, task in zip(
            markdown[row["model"]], ("egoplan_val", "egothink_bench"), strict=True
        ):
            for text, column in zip(cell, (task, f"{task}_low", f"{task}_high"), strict=True):
                assert float(row[column]) == pytest.approx(float(text), abs=0.051)
