"""The ledger of published scores: every row, its marks, the command that prints it, and its part of
reports.
"""

import csv
import io
import json
import re
from collections import Counter
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.cli import app
from lmms_egoplan.cli.ledger import Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report import ledger
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.ledger import LEDGER, checkpoint_names, read_ledger
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section, remarks_of
from lmms_egoplan.task_files import package_versions
from report.joined import Cells
from report.synthetic import write_run
from shared_data import DATA

ROWS = pd.read_csv(LEDGER, dtype=str, keep_default_na=False, encoding="utf-8").to_dict("records")
FACTS = module_yaml(ledger.__file__)["benchmarks"]
# Sizes as in the papers. Other subsets have the row's number of questions.
SIZES = {
    ("EgoPlan-Bench2", "all"): 1321,
    ("EgoPlan-Bench2", "Daily life"): 439,
    ("EgoPlan-Bench2", "Hobbies"): 295,
    ("EgoPlan-Bench2", "Recreation"): 183,
    ("EgoPlan-Bench2", "Work"): 404,
    ("EgoThink", "activity"): 100,
    ("EgoThink", "forecasting"): 100,
    ("EgoThink", "localization"): 100,
    ("EgoThink", "object"): 150,
    ("EgoThink", "reasoning"): 150,
    ("EgoThink", "planning: assistance"): 50,
    ("EgoThink", "planning: navigation"): 50,
}
NOT_WHOLE = re.compile(r"not a whole number of (\d+) questions")


def size_of(row):
    return SIZES.get((row["benchmark"], row["split_or_subset"])) or int(row["questions"] or 0)


def fits(row):
    """Print every possible score with the row's digits, and look for the row's score among them."""
    score = Decimal(row["score"])
    steps = size_of(row) * (2 if row["benchmark"] == "EgoThink" else 1)
    ways = (ROUND_HALF_UP, ROUND_HALF_DOWN)
    unit = Decimal(1).scaleb(score.as_tuple().exponent)
    return not steps or any(
        (Decimal(100 * count) / steps).quantize(unit, way) == score
        for count in range(steps + 1)
        for way in ways
    )


def named(model):
    """Return a model's name as a person compares it."""
    name = model.replace("RoboBrain-7B-2.0", "RoboBrain2.0-7B").replace(
        "RoboBrain-32B-2.0", "RoboBrain2.0-32B"
    )
    name = name.replace("Gemini 3.0 Pro", "Gemini 3 Pro")
    return re.sub(r"instruct$|[^a-z0-9]", "", name.lower().removesuffix("-instruct"))


def marks_of(row):
    (score,) = [score for score in read_ledger() if score.cells == row]
    return score.marks


def where(row):
    return row["source"], row["split_or_subset"], row["model"], row["score"]


def test_the_file_has_every_row_of_the_collection():
    collected = DATA / "published" / "ledger.csv"
    if not collected.exists():
        pytest.skip(f"needs {collected}")
    # The collection shortens two names of RoboBrain 2.0's Table 4.
    whole = {
        ",o4-mini-2025-05-16,": ",GPT-o4-mini-2025-05-16,",
        ",Claude-Sonnet-4,": ",Claude-Sonnet-4-2025-05-14,",
    }
    with_whole_names = set()
    for line in collected.read_text(encoding="utf-8").splitlines():
        for short, name in whole.items() if "arXiv 2507.02029" in line else ():
            line = line.replace(short, name)
        with_whole_names.add(line)
    assert with_whole_names <= set(LEDGER.read_text(encoding="utf-8").splitlines())


def test_every_row_is_read_as_printed_and_none_is_repeated():
    assert len(ROWS) == 562
    key = [json.dumps(row, sort_keys=True) for row in ROWS]
    assert sorted(key) == sorted(json.dumps(score.cells, sort_keys=True) for score in read_ledger())
    assert max(Counter(key).values()) == 1


def test_every_row_has_a_known_subset_a_score_a_source_and_a_date():
    titles = {facts["title"]: facts for facts in FACTS.values()}
    for row in ROWS:
        assert row["split_or_subset"] in titles[row["benchmark"]]["subsets"], row
        assert row["metric"] == {"EgoThink": "judge score %"}.get(row["benchmark"], "accuracy %"), (
            row
        )
        assert re.fullmatch(r"\d+\.\d{1,2}", row["score"]), row
        assert 0 <= Decimal(row["score"]) <= 100, row
        assert re.fullmatch(r"|20(2[4-6])-(0[1-9]|1[0-2])", row["date"]), row
        assert row["source"].strip() == row["source"] != "", row
        assert row["reference"].strip() == row["reference"] != "", row
        assert row["read_in"] == (
            "quoted" if row["source_kind"] == "note quoting" else "original"
        ), row


def test_scores_that_fit_no_whole_number_of_questions_are_marked():
    expected = [where(row) for row in ROWS if not fits(row)]
    assert sorted(expected) == sorted(where(row) for row in ROWS if "not whole" in marks_of(row))
    assert len(expected) == 54


def test_every_note_on_whole_numbers_agrees_with_the_mark_and_names_the_size():
    claimed = [
        (row, NOT_WHOLE.search(row["note"])) for row in ROWS if NOT_WHOLE.search(row["note"])
    ]
    assert len(claimed) == 19
    assert all(
        "not whole" in marks_of(row) and int(claim[1]) == size_of(row) for row, claim in claimed
    )


def test_models_of_robobrain_have_their_names_in_table_4():
    names = {row["model"] for row in ROWS if row["reference"] == "arXiv 2507.02029"}
    assert {"GPT-o4-mini-2025-05-16", "Claude-Sonnet-4-2025-05-14", "RoboBrain-3B-2.0"} < names
    assert {row["source"] for row in ROWS if row["reference"].startswith("arXiv 2512.16793")} == {
        "PhysBrain"
    }


def test_notes_lack_the_claim_only_for_one_decimal_and_for_known_sources():
    """The collection tested EgoPlan-Bench2's scores with two decimals.

    The marks also cover all others.
    """
    unclaimed = [
        row for row in ROWS if "not whole" in marks_of(row) and not NOT_WHOLE.search(row["note"])
    ]
    two_decimals = [where(row) for row in unclaimed if len(row["score"].partition(".")[2]) == 2]
    assert ("SEED-Bench-R1", "Hobbies", "Qwen2-VL-7B-Instruct", "32.30") in two_decimals
    assert Counter(source for source, *_ in two_decimals) == {"SEED-Bench-R1": 1, "VideoLLaMB": 5}
    assert Counter(row["source"] for row in unclaimed) == {
        "ThinkAct": 11,
        "Fast-ThinkAct": 16,
        "PhysBrain": 2,
        "SEED-Bench-R1": 1,
        "VideoLLaMB": 5,
    }


def test_copies_are_in_an_earlier_source_or_in_the_benchmarks_paper_or_said_to_be_copies():
    paper = {("EgoPlan-Bench", "val", "gpt4v"): "37.98", ("EgoThink", "average", "gpt4v"): "65.5"}
    expected = []
    for row in ROWS:
        same = [
            other
            for other in ROWS
            if (other["benchmark"], other["split_or_subset"])
            == (row["benchmark"], row["split_or_subset"])
            and named(other["model"]) == named(row["model"])
        ]
        digits = len(row["score"].partition(".")[2])
        earlier = [
            other["score"]
            for other in same
            if row["date"] and other["date"] and other["date"] < row["date"]
        ]
        earlier += filter(
            None, [paper.get((row["benchmark"], row["split_or_subset"], named(row["model"])))]
        )
        is_same = any(round(Decimal(score), digits) == Decimal(row["score"]) for score in earlier)
        says = ("same value as", "copied", "equal to", "taken from other reports", "own value")
        if is_same or any(text in row["note"] for text in says):
            expected.append(where(row))
    assert sorted(expected) == sorted(where(row) for row in ROWS if "copy" in marks_of(row))
    copied = Counter(source for source, *_ in expected)
    assert (
        copied["MiMo-Embodied"] == sum("copied by the authors" in row["note"] for row in ROWS) == 8
    )
    assert copied["UnifoLM-WLA-1.0"] == 10
    # It equals another source, but has its own runs and no date.
    assert "FlagOS model cards" not in copied
    assert ("Vlaser", "all", "RoboBrain2.0-7B", "33.2") in expected  # RoboBrain 2.0 prints 33.23.


def test_scores_below_chance_and_quoted_scores_are_marked():
    below = [row for row in ROWS if row["benchmark"] != "EgoThink" and Decimal(row["score"]) < 25]
    assert [where(row) for row in ROWS if "below chance" in marks_of(row)] == [*map(where, below)]
    assert {row["model"] for row in below} >= {"Magma-8B"}
    quoted = [where(row) for row in ROWS if row["read_in"] == "quoted"]
    assert [where(row) for row in ROWS if "quoted" in marks_of(row)] == quoted


def test_the_documented_numbers_are_those_of_the_ledger():
    page = (
        (Path(__file__).parents[2] / "docs" / "comparing.md")
        .read_text(encoding="utf-8")
        .partition("## The ledger")[2]
    )
    documented = {
        mark: int(count) for mark, count in re.findall(r"\| `([a-z ]+)` \|.*\| (\d+) \|", page)
    }
    assert documented == Counter(mark for score in read_ledger() for mark in score.marks)
    sources = {row["source"] for row in ROWS}
    assert f"{len(ROWS)} published scores" in page
    assert f"from {len(sources)} papers, model cards and repositories" in page
    scores = [
        Decimal(row["score"]) for row in expected_rows("EgoPlan-Bench2", "all", "robobrain258b")
    ]
    assert f"from {min(scores)} to {max(scores)} on EgoPlan-Bench2" in page


def test_facts_agree_with_the_registry():
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert [*FACTS] == [name for name in names if name in FACTS] == [*get_args(Benchmark)]
    assert FACTS["egoplan_bench2"]["subsets"]["all"] == EGOPLAN_BENCH2.official["test"]
    sources = {name: size for name, size in FACTS["egoplan"]["subsets"].items() if size}
    assert sum(sources.values()) == EGOPLAN.official["val"]
    dimensions = {dimension.name: dimension.instances for dimension in DIMENSIONS}
    capabilities = Counter()
    for dimension in DIMENSIONS:
        capabilities[dimension.capability] += dimension.instances
    sizes = dimensions | capabilities
    for subset, size in FACTS["egothink"]["subsets"].items():
        assert size == sizes.get(subset.removeprefix("planning: "))


def test_the_fields_of_our_tasks_name_tasks_and_fields_that_exist():
    for benchmark in (benchmark for benchmark in BENCHMARKS if benchmark.name in FACTS):
        spec, facts = report_class(benchmark.name).SPEC, FACTS[benchmark.name]
        tasks = Path(__file__).parents[2] / "tasks" / "lmms_eval" / benchmark.name
        names = {path.stem for path in tasks.rglob("*.yaml")}
        has_presets = any("__" in name for name in names)
        for field in spec.ledger_fields:
            assert field in names or ("__" in field and not has_presets), field
        assert {*benchmark.suite} <= spec.ledger_fields.keys(), benchmark.name
        assert all(
            fields.keys() <= set(facts["fields"]) for fields in spec.ledger_fields.values()
        ), benchmark.name
        assert spec.subsets.keys() <= facts["subsets"].keys(), benchmark.name
        texts = [text for fields in spec.ledger_fields.values() for text in fields.values()]
        assert all(isinstance(text, str) for text in texts), benchmark.name


def changed(path, **cells):
    """Write a ledger with changed cells in its second row, and return the path.

    `read_ledger` reads a path once.
    """
    rows = [ROWS[0], ROWS[1] | cells, *ROWS[2:4]]
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


WRONG_CELLS = (
    ({"benchmark": "EgoPlan"}, ("'EgoPlan'", "ledger.yaml")),
    ({"split_or_subset": "Sport"}, ("'EgoPlan-Bench2'", "'Sport'", "ledger.yaml")),
    ({"metric": "judge score %"}, ("'judge score %'",)),
    ({"model": " "}, ("model", "' '")),
    ({"score": "101"}, ("score", "'101'")),
    ({"score": "43.05 %"}, ("score", "'43.05 %'")),
    ({"score": "-1"}, ("score", "'-1'")),
    ({"score": ""}, ("score", "''")),
    ({"score": "nan"}, ("score", "'nan'")),
    ({"date": "2025-13"}, ("date", "'2025-13'")),
    ({"date": "July 2025"}, ("date", "'July 2025'")),
    ({"source": ""}, ("source", "''")),
    ({"reference": ""}, ("reference", "''")),
    ({"source_kind": "blog"}, ("source_kind", "'blog'")),
    ({"questions": "0"}, ("questions", "'0'")),
    ({"questions": "all"}, ("questions", "'all'")),
    ({"read_in": ""}, ("read_in", "''")),
)


def error_in(path):
    """Return the error of reading a ledger, or nothing if there is none."""
    try:
        read_ledger(path)
    except LmmsEgoplanError as error:
        return str(error)
    return ""


def test_a_wrong_cell_is_an_error_that_names_file_line_and_column(tmp_path):
    unexplained = []
    for number, (cells, facts) in enumerate(WRONG_CELLS):
        path = changed(tmp_path / f"{number}.csv", **cells)
        error = error_in(path)
        if not (error.startswith(f"{path}, line 3") and all(fact in error for fact in facts)):
            unexplained.append((cells, error))
    assert unexplained == []


def test_a_row_with_more_or_fewer_cells_is_an_error(tmp_path):
    for name, edit in (
        ("more", lambda line: line + ",more"),
        ("fewer", lambda line: line.rpartition(",")[0]),
    ):
        path = changed(tmp_path / f"{name}.csv")
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:2], edit(lines[2]), *lines[3:]]))
        assert re.search(r"line 3, .*commas", error_in(path)), name


def test_a_missing_column_is_an_error(tmp_path):
    path = tmp_path / "ledger.csv"
    pd.DataFrame(ROWS[:3]).drop(columns="date").to_csv(path, index=False)
    with pytest.raises(LmmsEgoplanError, match="line 2, date"):
        read_ledger(path)


def test_a_new_row_gets_its_marks(tmp_path):
    daily = {"split_or_subset": "Daily life", "score": "44.2"}
    cases = (
        (daily | {"date": "2026-01"}, ("copy",)),
        (daily | {"date": "2025-07"}, ()),
        (daily | {"date": ""}, ()),
        (daily | {"date": "2026-01", "model": "Other"}, ()),
        ({"score": "43.05", "note": "equal to a report"}, ("copy",)),
        ({"score": "1.23"}, ("not whole", "below chance")),
        ({"score": "24.75", "read_in": "quoted"}, ("below chance", "quoted")),
    )
    for number, (cells, marks) in enumerate(cases):
        path = changed(tmp_path / f"{number}.csv", source="New", **cells)
        assert [score.marks for score in read_ledger(path) if score.cells["source"] == "New"] == [
            marks
        ], cells


def run(*arguments):
    return CliRunner().invoke(app, ["ledger", *arguments])


def printed(*arguments):
    result = run(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout))), result.stderr


def test_the_command_prints_every_row_best_first_with_counts():
    check_printed_rows(*printed(), ROWS)
    for benchmark, facts in FACTS.items():
        expected = [row for row in ROWS if row["benchmark"] == facts["title"]]
        check_printed_rows(*printed("--benchmark", benchmark), expected)


def check_printed_rows(rows, notes, expected):
    key = ("model", "score", "source")
    assert Counter(tuple(row[name] for name in key) for row in rows) == Counter(
        tuple(row[name] for name in key) for row in expected
    )
    for group in {(row["benchmark"], row["subset"]) for row in rows}:
        scores = [
            Decimal(row["score"]) for row in rows if (row["benchmark"], row["subset"]) == group
        ]
        assert scores == sorted(scores, reverse=True)
    assert {row["date"] for row in rows if row["source"] == "EgoTools-Bench"} <= {"unknown"}
    (line,) = notes.splitlines()
    copies = sum("copy" in row["marks"].split(", ") for row in rows)
    assert f"{len(expected)} scores" in line
    assert f"{copies} marked copy" in line


def test_protocols_have_the_known_fields_and_name_the_unknown_ones():
    rows, _ = printed()
    (row,) = [
        row for row in rows if row["model"] == "Qwen2-VL-7B-Instruct" and row["subset"] == "all"
    ]
    for text in (
        "think and answer tags",
        "4-16 at 2 per second",
        "on",
        "first letter in answer tags",
        "1321",
    ):
        assert text in row["protocol"]
    assert "unknown" not in row["protocol"]
    (row,) = [
        row for row in rows if (row["source"], row["model"]) == ("Causal Planner", "Qwen3-VL-8B")
    ]
    assert row["protocol"] == "unknown"
    (row,) = [row for row in rows if (row["source"], row["score"]) == ("EmbodiedBrain", "52.13")]
    assert (
        row["protocol"]
        == "prompt: official EgoThink API prompt; unknown: frames, thinking, questions, judge"
    )


def test_a_name_matches_without_case_and_separators():
    expected = {
        row["model"] for row in ROWS if re.search(r"qwen2\.?5-?vl-?7b", row["model"], re.IGNORECASE)
    }
    assert {"Qwen2.5VL-7B", "Qwen2.5-VL-7B SFT on SEED-Bench-R1"} <= expected
    for name in ("qwen2.5-vl-7b", "QWEN25VL7B", "Qwen/Qwen2.5 VL_7B", "Qwen2.5-VL-7B/"):
        rows, _ = printed("--model", name)
        assert {row["model"] for row in rows} == expected, name


def test_a_name_finds_the_instructed_checkpoint():
    rows, _ = printed("--model", "qwen2.5-vl-72b")
    assert {row["model"] for row in rows} == {"Qwen2.5-VL-72B-Instruct"}
    rows, _ = printed("--model", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert "Qwen2.5-VL-7B" in {row["model"] for row in rows}


def test_an_instructed_name_finds_the_name_without_this_end():
    rows, _ = printed("--model", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert {row["model"] for row in rows} == {"Qwen2.5-VL-7B", "Qwen2.5VL-7B"}


def test_the_spread_is_from_the_lowest_to_the_highest_score_that_is_no_copy():
    _, notes = printed("--model", "qwen2.5-vl-7b", "--benchmark", "egoplan_bench2")
    rows = [
        row
        for row in ROWS
        if named(row["model"]) == "qwen25vl7b"
        and row["benchmark"] == "EgoPlan-Bench2"
        and "copy" not in marks_of(row)
    ]
    for subset in ("all", "Work"):
        scores = sorted(
            (row["score"] for row in rows if row["split_or_subset"] == subset), key=Decimal
        )
        (line,) = [
            line
            for line in notes.splitlines()
            if f"Qwen2.5-VL-7B, EgoPlan-Bench2, {subset}:" in line
        ]
        assert f"{scores[0]} to {scores[-1]}, " in line
        assert f" {Decimal(scores[-1]) - Decimal(scores[0])} points, {len(scores)} scores" in line
    assert "GRPO" not in notes  # One score in each subset.


def test_an_unknown_model_is_an_error_with_the_closest_names():
    for name, close in (("qwen3-vl-80b", "Qwen3-VL-8B"), ("RoboBrian2", "RoboBrain2"), ("", "")):
        result = run("--model", name)
        assert (result.exit_code, result.stdout) == (1, ""), name
        assert close in result.stderr.partition("closest")[2], name
        assert "Traceback" not in result.stderr, name


@pytest.mark.parametrize("form", ["text", "md"])
def test_text_and_markdown_have_the_same_scores_and_end_with_the_counts(form, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    result = run("--model", "Magma", "--format", form)
    assert result.exit_code == 0
    expected = [row["score"] for row in ROWS if row["model"] == "Magma-8B"]
    assert Counter(re.findall(r"Magma-8B[ |]+(\d+\.\d+)", result.stdout)) == Counter(expected)
    last = result.stdout.strip().splitlines()[-1]
    assert f"{len(expected)} scores" in last
    assert "marked below chance" in last


CHECKPOINTS = (
    ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-7B", True),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2.5VL-7B", True),
    ("/models/qwen2.5-vl-7b/", "Qwen2.5-VL-7B", True),
    ("llava-hf/llava-1.5-7b-hf", "LLaVA-1.5-7B", True),
    ("BAAI/RoboBrain2.0-7B", "RoboBrain-7B-2.0", True),
    ("Qwen/Qwen3-VL-8B-Instruct", "Qwen3-VL-8B-Instruct", True),
    ("Qwen/Qwen3-VL-8B", "Qwen3-VL-8B-Instruct", False),
    ("Qwen/Qwen3-VL-8B-Thinking", "Qwen3-VL-8B", False),
    ("Qwen/Qwen2.5-VL-72B-Instruct", "Qwen2.5-VL-7B", False),
    ("Qwen/Qwen2.5-VL-7B-Instruct-AWQ", "Qwen2.5-VL-7B", False),
    ("out/Qwen2.5-VL-7B/checkpoint-200", "Qwen2.5-VL-7B", False),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-7B fine-tuned by ThinkAct (marked *)", False),
    ("Qwen/Qwen2-VL-7B-Instruct", "Qwen2-VL-7B SFT on SEED-Bench-R1", False),
)


def test_a_checkpoint_is_the_same_with_the_same_name_or_an_added_end():
    wrong = [
        (run_model, name)
        for run_model, name, is_same in CHECKPOINTS
        if (checkpoint_names(name)[0] in checkpoint_names(run_model)) != is_same
    ]
    assert wrong == []


MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
FRAMES = {"media": "frames", "num_frames": 8}


def tables_of(folder, benchmark, model, tasks, edit=lambda content: None, harness="lmms-eval"):
    """Write a run without samples, and return the ledger's tables in its report as one list of rows
    by column.
    """
    path = write_run(folder, harness, model, tasks, log_samples=False)
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    return ledger_tables(folder, benchmark)


def ledger_tables(folder, benchmark):
    (report,) = [report_class(x.name) for x in BENCHMARKS if x.name == benchmark]
    tables = build_section(report(read_runs([folder]).runs)).tables
    return [table for table in tables if table.key.startswith(f"{benchmark}_ledger")]


def rows_of(table):
    return [
        Cells(zip((column.key for column in table.columns), row.values, strict=True))
        for row in table.rows
    ]


def with_frames(content):
    for config in content["configs"].values():
        config["lmms_eval_specific_kwargs"] = FRAMES


def expected_rows(title, subset, name="qwen25vl7b"):
    rows = [row for row in ROWS if (row["benchmark"], row["split_or_subset"]) == (title, subset)]
    return [row for row in rows if named(row["model"]) == name]


def test_a_run_is_next_to_the_published_scores_of_its_checkpoint(tmp_path):
    tasks = {
        "egoplan_val": egoplan_answers(3355, 0.4, 1),
        "egoplan_val_blind": egoplan_answers(3355, 0.3, 2),
    }
    (table,) = tables_of(tmp_path, "egoplan", MODEL, tasks, with_frames)
    rows = [row for row in rows_of(table) if row["subset"] == "val"]
    results = json.loads(next(tmp_path.rglob("*_results.json")).read_text())["results"][
        "egoplan_val"
    ]
    published = expected_rows("EgoPlan-Bench", "val")
    assert sorted(row["published"] for row in rows) == sorted(row["score"] for row in published)
    assert len(published) == 3
    for row in rows:
        assert row["run"] == "Qwen2.5-VL-7B-Instruct"  # The task without the video has no rows.
        assert row["score"] == pytest.approx(100 * results["acc,none"])
        assert row["difference"] == pytest.approx(
            100 * results["acc,none"] - float(row["published"])
        )
    (row,) = [row for row in rows if row["source"].startswith("EgoTools")]
    assert (row["different"], row["same"]) == (
        "frames: 64 (run: 8); questions: 3343 (run: 3355)",
        None,
    )
    (row,) = [row for row in rows_of(table) if row["subset"] == "val (Ego4D), called L2"]
    assert "frames: 16, and the observation image (run: 8)" in row["different"]
    assert (
        "parser: first letter in answer tags (run: likelihood without the end token)"
        in row["different"]
    )
    assert "thinking: on (run: off)" in row["different"]
    assert (row["same"], row["unknown"]) == (None, "questions")
    assert row["score"] == pytest.approx(100 * results["acc_ego4d,none"])
    (spread,) = [note for note in table.notes if "Spread" in note and ", val:" in note]
    assert "30.2 to 41.30, 11.1 points" in spread


def test_equal_fields_are_the_same_and_missing_ones_are_unknown(tmp_path):
    tasks = {"egoplan_val_published": egoplan_answers(3355, 0.4, 1)}
    (table,) = tables_of(tmp_path, "egoplan", "org/PLLaVA-7B", tasks, with_frames)
    (row,) = rows_of(table)
    assert row["same"] == "thinking: off; parser: likelihood; questions: 3355"
    assert (row["different"], row["unknown"], row["marks"]) == (None, "prompt, frames", "not whole")


def test_a_changed_task_has_unknown_fields(tmp_path):
    def other_version(content):
        content["versions"]["egoplan_val_published"] = 0.5
        content["configs"]["egoplan_val_published"]["metadata"]["version"] = 0.5

    def with_argument(name):
        return lambda content: content["config"].update(
            model_args=f"pretrained=org/PLLaVA-7B,{name}=Be brief."
        )

    edits = (
        ("lmms-eval", other_version),
        ("lmms-eval", lambda content: content["config"].update(system_instruction="Be brief.")),
        ("lmms-eval", with_argument("system_prompt")),
        ("lmms-eval", with_argument("reasoning_prompt")),
        ("lm-eval", lambda content: content.update(system_instruction="Be brief.")),
    )
    tasks = {"egoplan_val_published": egoplan_answers(3355, 0.4, 1)}
    paths = {
        harness: write_run(tmp_path / harness, harness, "org/PLLaVA-7B", tasks, log_samples=False)
        for harness in ("lmms-eval", "lm-eval")
    }
    texts = {harness: path.read_text() for harness, path in paths.items()}
    for number, (harness, edit) in enumerate(edits):
        content = json.loads(texts[harness])
        edit(content)
        paths[harness].write_text(json.dumps(content))
        (table,) = ledger_tables(tmp_path / harness, "egoplan")
        (row,) = rows_of(table)
        assert (row["same"], row["different"]) == ("questions: 3355", None), number
        assert {"thinking", "parser"} <= set(row["unknown"].split(", ")), number


@pytest.mark.parametrize("preset", ["physbrain", "official"])
def test_the_prompts_of_egothinks_presets_are_known(tmp_path, preset):
    def edit(content):
        for name in content["configs"]:
            content["versions"][name] = f"{content['versions'][name]}+{preset}"
            metadata = content["configs"][name]["metadata"]
            metadata.update(version=content["versions"][name], asked_as=preset)

    tasks = egothink_bench(4, 0.5, judge="GPT-4 (version not printed)")
    (table,) = tables_of(tmp_path, "egothink", "org/LLaVA-1.5-7B", tasks, edit)
    for row in rows_of(table):
        prompt, judge = (
            "prompt: camera wearer, as short as possible",
            "judge: GPT-4 (version not printed)",
        )
        assert row["same"] == (f"{prompt}; {judge}" if preset.startswith("physbrain") else judge)
        assert ("official EgoThink API prompt" in (row["different"] or "")) == (
            preset == "official"
        )


def test_a_preset_of_the_ledgers_pipeline_has_its_prompt_and_parser(tmp_path):
    task = "egoplan__seed-bench-r1"

    def edit(content):
        for name in ("results", "details", "configs", "versions"):
            content[name][task] = content[name].pop("egoplan_val_generate")
        content["versions"][task] = content["configs"][task]["metadata"]["version"] = (
            package_versions()[task]
        )
        content["details"][task]["unknown_fields"] = "media, thinking"
        content["configs"][task]["metadata"]["pixels"] = "other limits"

    tasks = {"egoplan_val_generate": egoplan_replies(3355, 0.4, 1)}
    (table,) = tables_of(tmp_path, "egoplan", "org/Qwen2-VL-7B-Instruct", tasks, edit)
    rows = [row for row in rows_of(table) if row["source"] == "SEED-Bench-R1"]
    assert rows
    fields = {
        "prompt": "think and answer tags",
        "frames": "4-16 at 2 per second, and the observation image",
        "thinking": "on",
        "parser": "first letter in answer tags",
    }
    assert all(
        "; ".join(f"{name}: {text}" for name, text in fields.items()) in row["same"] for row in rows
    )
    (report,) = [report_class(x.name) for x in BENCHMARKS if x.name == "egoplan"]
    remarks = [*remarks_of(report(read_runs([tmp_path]).runs))]
    assert sum("media, thinking, pixels (other limits)" in remark for remark in remarks) == 1


def test_frames_of_a_public_copy_are_not_the_same(tmp_path):
    def edit(content):
        with_frames(content)
        content["details"]["egoplan_val"]["media"] = "public copy egolife"

    (table,) = tables_of(
        tmp_path, "egoplan", MODEL, {"egoplan_val": egoplan_answers(3355, 0.4, 1)}, edit
    )
    (row,) = [row for row in rows_of(table) if row["source"].startswith("EgoTools")]
    assert row["different"].startswith("frames: 64 (run: 8, public copy egolife)")
    assert row["why"] == "media of public copy egolife"


def test_rows_of_a_run_over_some_questions_have_the_reason(tmp_path):
    tasks = {"egoplan_val_generate": egoplan_replies(20, 0.4, 1)}
    (table,) = tables_of(tmp_path, "egoplan", MODEL, tasks)
    assert all("20 questions" in row["why"] for row in rows_of(table))
    assert any("Spread" in note for note in table.notes)


def test_other_weights_have_no_rows(tmp_path):
    for number, (model, arguments) in enumerate(
        (
            ("org/Model-7B", ""),
            (MODEL, ",peft=out/adapter"),
            (MODEL, ",lora_local_path=out/adapter"),
            (MODEL, ",delta=out/delta"),
            ("out/Qwen2.5-VL-7B/checkpoint-9", ""),
        )
    ):

        def edit(content, model_args=f"pretrained={model}{arguments}"):
            content["config"]["model_args"] = model_args

        tasks = {"egoplan_val": egoplan_answers(20, 0.4, 1)}
        assert tables_of(tmp_path / str(number), "egoplan", model, tasks, edit) == [], (
            model,
            arguments,
        )


def test_judged_answers_are_compared_by_capability_and_judge(tmp_path):
    tasks = egothink_bench(4, 0.5, judge="GPT-4 (version not printed)")
    (table,) = tables_of(tmp_path, "egothink", "org/LLaVA-1.5-7B", tasks)
    rows = rows_of(table)
    published = {
        row["split_or_subset"]: row
        for row in ROWS
        if (row["benchmark"], row["model"]) == ("EgoThink", "LLaVA-1.5-7B")
    }
    assert {row["subset"]: row["published"] for row in rows} == {
        name: row["score"] for name, row in published.items()
    }
    results = json.loads(next(tmp_path.rglob("*_results.json")).read_text())["results"]
    names = {"average": "egothink_bench", "object": "egothink_bench_object"}
    names["planning: navigation"] = "egothink_planning_navigation"
    for subset, task in names.items():
        (row,) = [row for row in rows if row["subset"] == subset]
        assert row["score"] == pytest.approx(results[task]["score,judged"])
        assert row["same"] == "judge: GPT-4 (version not printed)"
        assert row["different"].startswith("prompt: camera wearer")
