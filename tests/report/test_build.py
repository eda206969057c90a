"""A complete report on runs of both harnesses and several benchmarks."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas
import pytest
from PIL import Image

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.build import build_report
from lmms_egoplan.report.page import for_readers
from report.prepared import prepare_data
from report.synthetic import write_run

COUNTS = {"egoplan": 21, "egothink": 2, "egointent": 12, "actplan": 8}
QUESTIONS = 21 + 2 * len(EGOTHINK_TASKS) + 12 + 8
NAMES = ("Big", "Small")
# Files that the summary links to.
SUMMARY_FILES = {
    "report.json",
    "tables/results.csv",
    "tables/results.md",
    "tables/results.tex",
    "tables/summary.csv",
    "tables/summary.md",
}


class Page(HTMLParser):
    """A page's links, sections, text, loaded files, and number of own rows in each table."""

    def __init__(self, text):
        super().__init__()
        self.links, self.sections, self.own_rows, self.text, self.loads = [], [], {}, "", []
        self.table = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "a":
            self.links.append(unquote(values["href"]))
        elif tag == "section":
            self.sections.append(values["id"])
        elif tag == "figure":
            self.table = values.get("id", "").removeprefix("table-")
        elif tag == "tr" and values.get("class") == "own":
            self.own_rows[self.table] = self.own_rows.get(self.table, 0) + 1
        elif tag in ("script", "img", "iframe", "link"):
            self.loads += [
                values[name]
                for name in ("src", "href")
                if values.get(name, "data:").partition(":")[0] != "data"
            ]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the folder, the built report and the reported progress."""
    from benchmarks.actplan.tiny_encoder import write_encoder

    folder, progress = tmp_path_factory.mktemp("whole"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_data(folder / "data", **COUNTS)
        for seed, (harness, name) in enumerate(zip(("lmms-eval", "lm-eval"), NAMES, strict=True)):
            tasks = {
                "egoplan_val": egoplan_answers(21, 0.4, seed),
                "egoplan_val_generate": egoplan_replies(21, 0.4, seed),
                **egothink_bench(2, 0.6, seed),
                "egointent": egointent_answers(12, 60, seed),
                "actplan": actplan_answers(8, 0.7, seed),
            }
            write_run(folder / "runs" / harness, harness, f"org/{name}", tasks)
        encoder = write_encoder(folder / "encoder")
        built = build_report(
            [folder / "runs"],
            folder / "out",
            {},
            BENCHMARKS,
            lambda *step: progress.append(step),
            str(encoder),
        )
    return folder / "out", built, progress


@pytest.fixture(scope="module")
def page(report):
    return Page((report[0] / "index.html").read_text(encoding="utf-8"))


def test_the_page_has_a_section_for_each_benchmark(report, page):
    out, built, _ = report
    assert built.page == out / "index.html"
    assert page.sections == ["summary", *COUNTS, "gallery", "runs"]


def test_the_page_loads_no_external_files(page):
    assert page.loads == []


def test_both_runs_are_in_every_benchmark_of_page_and_json(report, page):
    assert all(name in page.text for name in NAMES)
    content = json.loads((report[0] / "report.json").read_text(encoding="utf-8"))
    assert [benchmark["key"] for benchmark in content["benchmarks"]] == list(COUNTS)
    for benchmark in content["benchmarks"]:
        assert {score["run"] for score in benchmark["scores"]} == set(NAMES)
        for score in benchmark["scores"]:
            assert score["apart"]
            assert (score["low"] is None) == bool(score["no_interval"])
    assert content["questions"] == QUESTIONS
    assert {run["name"] for run in content["runs"]} == set(NAMES)


def test_incomparable_rows_have_a_separate_table(report):
    names = sorted(path.stem for path in (report[0] / "tables").glob("*_apart.csv"))
    assert {name.partition("_")[0] for name in names} == set(COUNTS)
    for name in names:
        comparable = pandas.read_csv(report[0] / "tables" / f"{name.removesuffix('_apart')}.csv")
        assert not comparable["own"].any(), name
        incomparable = pandas.read_csv(report[0] / "tables" / f"{name}.csv")
        assert incomparable["own"].all()
        assert incomparable["why"].notna().all()


def test_every_file_is_linked_and_every_link_leads_to_a_file(report, page):
    out, built, _ = report
    written = {
        str(path.relative_to(out))
        for name in ("tables", "figures")
        for path in (out / name).iterdir()
    }
    assert all((out / link).is_file() for link in SUMMARY_FILES)
    assert written >= SUMMARY_FILES - {"report.json"}
    written -= SUMMARY_FILES
    linked = [link for link in page.links if not link.startswith("#") and link not in SUMMARY_FILES]
    assert sorted(linked) == sorted(written)
    assert (
        len([link for link in linked if link.endswith((".csv", ".md"))])
        == 2 * built.counts["tables"]
    )
    assert (
        len([link for link in linked if link.endswith((".svg", ".png"))])
        == 2 * built.counts["figures"]
    )
    keys = {Path(link).with_suffix("") for link in linked}
    assert len(keys) == built.counts["tables"] + built.counts["figures"]


def test_every_table_is_complete_as_csv_and_markdown(report, page):
    for path in sorted((report[0] / "tables").glob("*.csv")):
        if path.stem == "results":
            continue
        table = pandas.read_csv(path)
        # The page marks no rows in tables of only own rows.
        assert table["own"].all() or table["own"].sum() == page.own_rows.get(path.stem, 0), path
        lines = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
        assert len(rows) == 2 + len(table), path
        (width,) = {len(row) for row in rows}
        assert width <= table.shape[1] - 1, path  # Equal conditions are in the notes.
        marked = sum(row[0].startswith(" ▸") for row in rows)
        assert marked == (0 if table["own"].all() else table["own"].sum()), path


def test_every_figure_exists_as_svg_and_png(report):
    svgs = sorted((report[0] / "figures").glob("*.svg"))
    assert svgs
    for path in svgs:
        assert "<text" in path.read_text(encoding="utf-8"), path
        with Image.open(path.with_suffix(".png")) as image:
            image.load()
            assert min(image.size) > 300, path


def test_the_parts_of_a_report_are_counted(report):
    _, built, _ = report
    counts = [built.counts[name] for name in ("runs", "benchmarks", "questions")]
    assert (counts, built.skipped) == ([2, len(COUNTS), QUESTIONS], ())
    assert built.counts["tables"] > 20
    assert built.counts["figures"] > 5


def test_every_question_has_its_pictures(report, page):
    strips = list((report[0] / "gallery" / "images").iterdir())
    assert len(strips) == QUESTIONS
    assert f"{QUESTIONS} of {QUESTIONS} questions have pictures." in page.text


def test_progress_is_reported_to_the_end(report):
    _, built, progress = report
    last = {step: (done, total) for step, done, total in progress}
    assert all(done == total for done, total in last.values())
    assert (last["scores recomputed, runs"], last["benchmarks"]) == (
        (2, 2),
        (len(BENCHMARKS), len(BENCHMARKS)),
    )
    assert last["figure files"] == (built.counts["figures"], built.counts["figures"])
    assert last["pictures"] == last["questions"] == (QUESTIONS, QUESTIONS)


def test_a_report_contains_only_the_benchmarks_of_its_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "nothing"))
    write_run(
        tmp_path / "runs", "lmms-eval", "m", {"actplan": actplan_answers(8, 0.7)}, log_samples=False
    )
    built = build_report([tmp_path / "runs"], tmp_path / "out", {}, BENCHMARKS, lambda *_: None)
    assert (built.counts["runs"], built.counts["benchmarks"]) == (1, 1)
    assert Page(built.page.read_text(encoding="utf-8")).sections[:2] == ["summary", "actplan"]
    assert all(
        path.name.startswith(("actplan_", "summary.", "results."))
        for path in (tmp_path / "out" / "tables").iterdir()
    )


def test_nothing_is_written_if_scores_contradict_the_samples(tmp_path):
    path = write_run(tmp_path / "runs", "lm-eval", "m", {"actplan": actplan_answers(8, 0.7)})
    (samples,) = path.parent.glob("samples_*.jsonl")
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(
        LmmsEgoplanError,
        match=r"task actplan: .* 7 samples:\n  num_plans: 8 in .*, 7 from the samples",
    ):
        build_report([tmp_path / "runs"], tmp_path / "out", {}, BENCHMARKS, lambda *_: None)
    assert not (tmp_path / "out").exists()


def test_no_table_has_an_empty_part_and_no_note_is_repeated(report):
    for section in report[1].sections:
        for table in section.tables:
            cells = [[value not in (None, "") for value in row.values] for row in table.rows]
            assert all(any(filled) for filled in zip(*cells, strict=True)), table.key
            assert all(any(filled[1:]) for filled in cells), table.key
        shown = for_readers(section)
        notes = [*shown.notes, *(note for table in shown.tables for note in table.notes)]
        repeated = {note for note in notes if notes.count(note) > 1}
        assert not repeated
        assert len({*section.remarks}) == len(section.remarks)
