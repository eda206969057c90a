"""The whole report, of runs of both harnesses on several benchmarks."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas
import pytest
from PIL import Image

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.actplan.tiny_encoder import write_encoder
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_bench
from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.page import build_report
from report.prepared import prepare_data
from report.synthetic import write_run

COUNTS = {"egoplan": 21, "egothink": 2, "egointent": 12, "actplan": 8}
QUESTIONS = 21 + 2 * len(EGOTHINK_TASKS) + 12 + 8
NAMES = ("Big", "Small")
# Linked from the summary.
BESIDE = {"report.json", "tables/summary.csv", "tables/summary.md"}


class Page(HTMLParser):
    """Links, sections, rows marked as own by table, and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.sections, self.own, self.text, self.loads = [], [], {}, "", []
        self.table = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "a":
            self.links.append(unquote(found["href"]))
        elif tag == "section":
            self.sections.append(found["id"])
        elif tag == "figure":
            self.table = found["id"].removeprefix("table-")
        elif tag == "tr" and found.get("class") == "own":
            self.own[self.table] = self.own.get(self.table, 0) + 1
        elif tag in ("script", "img", "iframe", "link"):
            self.loads += [
                found[name] for name in ("src", "href") if found.get(name, "data:").partition(":")[0] != "data"
            ]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder, the built report and the reported progress."""
    folder, told = tmp_path_factory.mktemp("whole"), []
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
            [folder / "runs"], folder / "out", {}, BENCHMARKS, lambda *each: told.append(each), str(encoder)
        )
    return folder / "out", built, told


@pytest.fixture(scope="module")
def page(whole):
    return Page((whole[0] / "index.html").read_text(encoding="utf-8"))


def test_the_page_has_a_section_for_each_benchmark(whole, page):
    out, built, _ = whole
    assert built.page == out / "index.html"
    assert page.sections == ["summary", *COUNTS, "gallery", "runs"]


def test_the_page_loads_no_external_files(page):
    assert page.loads == []


def test_both_runs_are_in_every_benchmark_of_page_and_json(whole, page):
    assert all(name in page.text for name in NAMES)
    content = json.loads((whole[0] / "report.json").read_text(encoding="utf-8"))
    assert [benchmark["key"] for benchmark in content["benchmarks"]] == list(COUNTS)
    for benchmark in content["benchmarks"]:
        assert {score["run"] for score in benchmark["scores"]} == set(NAMES)
        for score in benchmark["scores"]:
            assert score["apart"]
            assert (score["low"] is None) == bool(score["no_interval"])
    assert content["questions"] == QUESTIONS
    assert {run["name"] for run in content["runs"]} == set(NAMES)


def test_incomparable_rows_have_a_separate_table(whole):
    apart = sorted(path.stem for path in (whole[0] / "tables").glob("*_apart.csv"))
    assert {name.partition("_")[0] for name in apart} == set(COUNTS)
    for name in apart:
        beside = pandas.read_csv(whole[0] / "tables" / f"{name.removesuffix('_apart')}.csv")
        assert not beside["own"].any(), name
        own = pandas.read_csv(whole[0] / "tables" / f"{name}.csv")
        assert own["own"].all()
        assert own["why"].notna().all()


def test_every_file_is_linked_and_every_link_leads_to_a_file(whole, page):
    out, built, _ = whole
    written = {str(path.relative_to(out)) for name in ("tables", "figures") for path in (out / name).iterdir()}
    assert all((out / link).is_file() for link in BESIDE)
    assert written >= BESIDE - {"report.json"}
    written -= BESIDE
    linked = [link for link in page.links if not link.startswith("#") and link not in BESIDE]
    assert sorted(linked) == sorted(written)
    assert len([link for link in linked if link.endswith((".csv", ".md"))]) == 2 * built.counts["tables"]
    assert len([link for link in linked if link.endswith((".svg", ".png"))]) == 2 * built.counts["figures"]
    keys = {Path(link).with_suffix("") for link in linked}
    assert len(keys) == built.counts["tables"] + built.counts["figures"]


def test_every_table_is_complete_as_csv_and_markdown(whole, page):
    for path in sorted((whole[0] / "tables").glob("*.csv")):
        table = pandas.read_csv(path)
        # Among rows that are all own, the page marks none.
        assert table["own"].all() or table["own"].sum() == page.own.get(path.stem, 0), path
        lines = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
        assert len(rows) == 2 + len(table), path
        assert {len(row) for row in rows} == {table.shape[1] - 1}, path
        assert sum(row[0].startswith(" ▸") for row in rows) == table["own"].sum(), path


def test_every_figure_exists_as_svg_and_png(whole):
    svgs = sorted((whole[0] / "figures").glob("*.svg"))
    assert svgs
    for path in svgs:
        assert "<text" in path.read_text(encoding="utf-8"), path
        with Image.open(path.with_suffix(".png")) as image:
            image.load()
            assert min(image.size) > 300, path


def test_the_parts_of_a_report_are_counted(whole):
    _, built, _ = whole
    assert (built.counts["runs"], built.counts["benchmarks"], built.counts["questions"], built.skipped) == (
        2,
        len(COUNTS),
        QUESTIONS,
        (),
    )
    assert built.counts["tables"] > 20
    assert built.counts["figures"] > 5


def test_every_question_has_its_pictures(whole, page):
    strips = list((whole[0] / "gallery" / "images").iterdir())
    assert len(strips) == QUESTIONS
    assert "All have pictures." in page.text


def test_progress_is_reported_to_the_end(whole):
    _, built, told = whole
    last = {what: (done, total) for what, done, total in told}
    assert all(done == total for done, total in last.values())
    assert (last["scores recomputed, runs"], last["benchmarks"]) == ((2, 2), (len(BENCHMARKS), len(BENCHMARKS)))
    assert last["figure files"] == (built.counts["figures"], built.counts["figures"])
    assert last["pictures"] == last["questions"] == (QUESTIONS, QUESTIONS)


def test_a_report_contains_only_the_benchmarks_of_its_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "nothing"))
    write_run(tmp_path / "runs", "lmms-eval", "m", {"actplan": actplan_answers(8, 0.7)}, log_samples=False)
    built = build_report([tmp_path / "runs"], tmp_path / "out", {}, BENCHMARKS, lambda *each: None)
    assert (built.counts["runs"], built.counts["benchmarks"]) == (1, 1)
    assert Page(built.page.read_text(encoding="utf-8")).sections[:2] == ["summary", "actplan"]
    assert all(path.name.startswith(("actplan_", "summary.")) for path in (tmp_path / "out" / "tables").iterdir())


def test_nothing_is_written_if_scores_contradict_the_samples(tmp_path):
    path = write_run(tmp_path / "runs", "lm-eval", "m", {"actplan": actplan_answers(8, 0.7)})
    (samples,) = path.parent.glob("samples_*.jsonl")
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(LmmsEgoplanError, match="the scores are not those of the 7 samples"):
        build_report([tmp_path / "runs"], tmp_path / "out", {}, BENCHMARKS, lambda *each: None)
    assert not (tmp_path / "out").exists()
