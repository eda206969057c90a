"""Judge noise in the report: files of answers that a judge has rated several times."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egothink.synthetic import egothink_answers
from lmms_egoplan.benchmarks.egothink import report as egothink
from lmms_egoplan.benchmarks.egothink.answer_files import write_judged
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from report.joined import rows_of
from report.prepared import prepare_data
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")

RATINGS = {"existence/1": [1.0, 1.0], "existence/2": [0.0, 0.5], "existence/3": [1.0, None], "counting/1": [0.5, 0.5]}


@pytest.fixture
def judged(tmp_path):
    repeats = [
        [JudgedAnswer(key, "a", None, False, ratings[n], "r", "judge-b", None) for key, ratings in RATINGS.items()]
        for n in (0, 1)
    ]
    write_judged(tmp_path / "judged.jsonl", repeats)
    return tmp_path / "judged.jsonl"


@pytest.fixture
def run(tmp_path):
    answers = {"egothink_object_existence": egothink_answers("existence", 3, 0.5)}
    write_run(tmp_path / "run", "lmms-eval", "org/A", answers)
    return tmp_path / "run"


def test_spread_of_ratings_and_scores(judged):
    found = {row["questions"]: row for row in rows_of(egothink.judge_noise([judged]))}
    assert list(found) == ["existence", "counting", "average"]
    existence = found["existence"]
    assert (existence["answers_of"], existence["judge"], existence["repeats"]) == ("judged", "judge-b", 2)
    assert (existence["answers"], existence["left_out"]) == (2, 1)
    assert (existence["score"], existence["lowest"], existence["highest"]) == (62.5, 50, 75)
    assert existence["score_sd"] == pytest.approx(25 / 2**0.5)
    assert existence["changed"] == 50
    assert existence["rating_sd"] == pytest.approx((0 + 0.5 / 2**0.5) / 2)
    assert found["counting"]["score_sd"] == found["counting"]["changed"] == 0
    assert (found["average"]["score"], found["average"]["lowest"], found["average"]["answers"]) == (None, None, 3)


@pytest.mark.parametrize("unrated", [False, True])
def test_the_average_needs_all_questions(tmp_path, unrated):
    ids = [f"{name}/{number}" for name, count in EGOTHINK.official.items() for number in range(1, count + 1)]
    rated = [
        [JudgedAnswer(id_, "a", None, False, rating, "r", "judge-b", None) for id_ in ids] for rating in (1.0, 0.5)
    ]
    rated[1][300] = replace(rated[1][300], rating=None if unrated else 0.5)
    write_judged(tmp_path / "judged.jsonl", rated)
    average = rows_of(egothink.judge_noise([tmp_path / "judged.jsonl"]))[-1]
    spread = (average["score"], average["lowest"], average["highest"])
    assert (average["answers"], *spread) == ((699, None, None, None) if unrated else (700, 75, 50, 100))


def test_without_files_there_is_no_table():
    assert egothink.judge_noise([]) is None


def test_the_command_takes_the_files_beside_runs(judged, run, tmp_path):
    result = CliRunner().invoke(app, ["report", str(run), str(judged), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "Judge noise" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "tables" / "egothink_judge_noise.csv").read_text().count("judged,judge-b") == 3
    assert "Not read" not in result.stderr


def test_files_without_a_run_of_the_benchmark_are_named(judged, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_run(tmp_path / "other", "lmms-eval", "org/B", {"actplan": actplan_answers(4, 0.5)}, log_samples=False)
    prepare_data(tmp_path / "data", actplan=4)
    result = CliRunner().invoke(app, ["report", str(tmp_path / "other"), str(judged), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "no run of EgoThink is there to show judge noise beside" in result.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repeats": None}, "line 2: repeats: .*found nothing"),
        ({"repeats": [{"rating": 1.0}]}, "line 2: repeats: "),
        ({"repeats": [{"rating": 1.0}] * 3}, "line 2: 3 repeats where the lines before have 2"),
        ({"repeats": [{"rating": 7}] * 2}, r"line 2: repeats\[0\].rating: .*found 7"),
        ({"repeats": [1.0, 1.0]}, r"line 2: repeats\[0\]: .*found 1.0"),
        ({"id": "nothing/1"}, "line 2: id must be"),
    ],
)
def test_other_files_are_told(judged, change, message):
    lines = [json.loads(line) for line in judged.read_text().splitlines()]
    lines[1] |= change
    judged.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(LmmsEgoplanError, match="judged.jsonl, " + message):
        egothink.judge_noise([judged])


def test_two_files_of_the_same_name_are_told_apart(judged, tmp_path):
    other = tmp_path / "b" / "judged.jsonl"
    other.parent.mkdir()
    other.write_bytes(judged.read_bytes())
    found = rows_of(egothink.judge_noise([judged, other]))
    assert {row["answers_of"] for row in found} == {str(judged), str(other)}
