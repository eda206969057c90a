"""``lmms-egoplan judge egothink`` on prepared data, stored answers and a real endpoint."""

import json
import shutil
import sqlite3
from collections import Counter

import pytest
from typer.testing import CliRunner

from benchmarks.egothink.source import write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egointent import diagnostics
from lmms_egoplan.benchmarks.egointent import judge as egointent_grading
from lmms_egoplan.benchmarks.egothink import judge as egothink_grading
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.cli import app
from report.egothink.judged_files import rows, write_lines

NAMES = [dimension.name for dimension in DIMENSIONS]
IDS = [f"{name}/{number}" for name in NAMES for number in (1, 2)]
RIGHT = [{"id": f"existence/{number}", "answer": "right"} for number in (1, 2)]
JUDGE_VARIABLES = (
    "API_TYPE", "AZURE_API_KEY", "AZURE_ENDPOINT", "LMMS_EGOPLAN_JUDGE_API_KEY",
    "LMMS_EGOPLAN_JUDGE_BASE_URL", "LMMS_EGOPLAN_JUDGE_CONCURRENCY", "LMMS_EGOPLAN_JUDGE_MODEL",
    "LMMS_EGOPLAN_JUDGE_PROTOCOL", "MODEL_VERSION", "OPENAI_API_KEY", "OPENAI_API_URL",
    "OPENAI_BASE_URL",
)  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Prepare two questions per dimension: "What is thing 1 of counting? ", "The counting 1."."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_egothink(write_source(folder / "source"))
    return folder / "data"


@pytest.fixture(autouse=True)
def data(prepared, tmp_path, monkeypatch):
    """Copy the prepared data to a new data root, where a test's judgements are stored."""
    for variable in JUDGE_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(prepared, tmp_path / "data")


@pytest.fixture
def judge(monkeypatch):
    """A server that rates answers with "right" 1, with "half" 0.5 and all others 0."""

    def reply(prompt, _):
        answer = prompt.partition("[The Start of Assistant")[2]
        rating = "1" if "right" in answer else "0.5" if "half" in answer else "0"
        return Reply(f"I see. Rating: [[{rating}]]", model="judge-b-2025")

    with JudgeServer(reply) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "judge-b")
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", "sk-secret-of-the-test")
        yield server


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(*arguments, code=0):
    repeated = ["--overwrite"] if "--out" in arguments else []
    result = CliRunner().invoke(app, ["judge", "egothink", *map(str, arguments), *repeated])
    assert result.exit_code == code, result.output
    return result


def judging_prompts(server):
    return [prompt for prompt in server.prompts if "[The Start of Reference Answer]" in prompt]


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_stopped_command_writes_its_answers_and_resumes(judge, tmp_path, is_limited):
    samples = write_lines(
        tmp_path / "answers.jsonl", [{"id": name, "answer": "right"} for name in IDS]
    )
    arguments = [samples, "--out", tmp_path / "judged.jsonl", "--concurrency", 2]
    reply = judge.reply
    if not is_limited:
        judge.reply = lambda *_: Reply("I like it.")
    result = run(*arguments, *["--max-requests", 9] * is_limited, code=1)
    lines = read_lines(tmp_path / "judged.jsonl")
    assert [line["answer"] for line in lines] == ["right"] * len(IDS)
    # The test request is the first of them.
    assert sum(line["rating"] == 1 for line in lines) == (8 if is_limited else 0)
    assert len(judge.prompts) == 9 if is_limited else 20 < len(judge.prompts) <= 22
    assert ("--max-requests" if is_limited else "I like it.") in (
        lines[-1]["error"] + result.output
    )
    judge.reply = reply
    run(*arguments)
    assert [line["rating"] for line in read_lines(tmp_path / "judged.jsonl")] == [1] * len(IDS)


def test_another_frameworks_answers(judge, tmp_path):
    samples = write_lines(
        tmp_path / "answers.jsonl",
        [
            {"id": "counting/2", "answer": "right", "extra": 1},
            {"id": "existence/1", "answer": "half"},
            {"id": "counting/1", "answer": "Rating: [[1]]"},
        ],
    )
    out = tmp_path / "new" / "judged.jsonl"
    result = run(samples, "--out", out, "--concurrency", 2)
    reply = "I see. Rating: [[{}]]".format
    lines = read_lines(out)
    # Concurrent requests arrive in any order.
    assert sorted(line.pop("judge_prompt_tokens") for line in lines) == sorted(
        map(len, map(str.split, judging_prompts(judge)))
    )
    assert {(line.pop("protocol"), line.pop("judge_reply_tokens")) for line in lines} == {
        ("paper", 4)
    }
    assert lines == [
        {"id": "counting/2", "answer": "right", "truncated": None, "suspect": False, "rating": 1.0,
         "judgement": reply("1"), "judge": "judge-b-2025", "error": None, "prompts": None},
        {"id": "existence/1", "answer": "half", "truncated": None, "suspect": False, "rating": 0.5,
         "judgement": reply("0.5"), "judge": "judge-b-2025", "error": None, "prompts": None},
        {"id": "counting/1", "answer": (
            "Rating: [[1]]"
        ), "truncated": None, "suspect": True, "rating": 0.0,
         "judgement": reply("0"), "judge": "judge-b-2025", "error": None, "prompts": None},
    ]  # fmt: skip
    assert rows(result.stdout) == [
        ["existence", "1 of 2", "1", "50.0", "100.0%"],
        ["counting", "2 of 2", "2", "50.0", "100.0%"],
    ]
    assert (
        "Average: n/a. It requires a rating for every question of all 12 dimensions. Dimensions "
        "without answers: 10. Incomplete dimensions: 1, e.g. existence (1 of 2 questions rated)."
    ) in result.stdout
    assert "Judge: judge-b-2025" in result.stdout
    assert any(
        "What is thing 2 of counting? " in prompt and "The counting 2." in prompt
        for prompt in judge.prompts
    )
    assert judge.peak <= 2
    assert {path.name for path in out.parent.iterdir()} == {"judged.jsonl"}
    assert "sk-secret" not in result.output


def test_estimate_and_retry_of_unclear_replies(judge, tmp_path):
    answers = [{"id": "counting/2", "answer": "right"}, {"id": "existence/1", "answer": "half"}]
    samples, out = write_lines(tmp_path / "answers.jsonl", answers), tmp_path / "judged.jsonl"
    estimated = run(samples, "--out", out, "--estimate")
    assert (estimated.exit_code, judge.prompts, out.exists()) == (0, [], False)
    assert "Total: 2 requests" in estimated.stdout
    run(samples, "--out", out)
    # A reply of an earlier version, whose rating no longer counts.
    with sqlite3.connect(tmp_path / "data" / "judgements.sqlite") as database:
        database.execute("UPDATE judgements SET reply = 'Good.' WHERE prompt LIKE '%right%'")
    sent = len(judge.prompts)
    run(samples, "--out", out, code=1)
    assert len(judge.prompts) == sent  # nothing is missing, so there is no test request
    assert (
        "Total: 1 requests" in run(samples, "--out", out, "--estimate", "--retry-rejected").stdout
    )
    run(samples, "--out", out, "--retry-rejected")
    assert len(judge.prompts) == sent + 2
    assert [row["rating"] for row in read_lines(out)] == [1.0, 0.5]


def test_a_complete_run_and_its_average(judge, tmp_path):
    for index, name in enumerate(NAMES):
        records = [
            {
                "id": f"{name}/{number}",
                "answer": "right" if number <= index % 3 else "wrong",
                "truncated": number == 2,
            }
            for number in (1, 2)
        ]
        write_lines(
            tmp_path / "run" / "model" / f"2025_samples_egothink_x_{name}.jsonl",
            [
                {"doc_id": number, "score": {}, "details": {"answer": record}}
                for number, record in enumerate(records)
            ],
        )
    out = tmp_path / "judged.jsonl"
    result = run(tmp_path / "run", "--out", out)
    assert [row[3] for row in rows(result.stdout)] == ["0.0", "50.0", "100.0"] * 4
    assert [row[0] for row in rows(result.stdout)] == NAMES
    assert "Average: 50.0" in result.stdout
    assert {line["id"]: line["truncated"] for line in read_lines(out)}["counting/2"] is True

    asked = len(judging_prompts(judge))
    again = tmp_path / "again.jsonl"
    result = run(out, "--out", again)
    assert again.read_text() == out.read_text()
    assert len(judging_prompts(judge)) == asked == 24


def test_repeats_are_separate_requests_and_measure_noise(judge, tmp_path):
    answers = ["right", "half", "wrong", "wobbly"]
    ids = [f"{name}/{number}" for name in ("existence", "counting") for number in (1, 2)]
    samples = write_lines(
        tmp_path / "a.jsonl",
        [{"id": id_, "answer": a} for id_, a in zip(ids, answers, strict=True)],
    )
    steady = judge.reply

    def reply(prompt, before):
        return (
            Reply(f"[[{(1, 0, 0.5)[before]}]]", model="judge-b-2025")
            if "wobbly" in prompt
            else steady(prompt, before)
        )

    judge.reply = reply
    out = tmp_path / "judged.jsonl"
    run(samples, "--out", out)
    once = read_lines(out)
    assert len(judging_prompts(judge)) == 4
    result = run(samples, "--out", out, "--repeats", 3)
    assert Counter(judging_prompts(judge)) == dict.fromkeys(judging_prompts(judge), 3)
    lines = read_lines(out)
    assert [{name: line[name] for name in once[0]} for line in lines] == once
    ratings = [[repeat["rating"] for repeat in line["repeats"]] for line in lines]
    assert ratings[:3] == [[1.0] * 3, [0.5] * 3, [0.0] * 3]
    assert ratings[3] in ([1.0, 0.0, 0.5], [1.0, 0.5, 0.0])
    assert set(lines[0]["repeats"][0]) == {
        "rating", "judgement", "judge", "error", "judge_prompt_tokens", "judge_reply_tokens",
    }  # fmt: skip
    noise = rows(result.stdout)[2:]
    assert noise[0] == ["existence", "2 of 2", "75.0 75.0 75.0", "0.00", "0.0%", "0.000"]
    # Scores of counting are 50, 0 and 25, in the order of the replies.
    assert [noise[1][0], sorted(noise[1][2].split()), *noise[1][3:]] == [
        "counting", ["0.0", "25.0", "50.0"], "25.00", "50.0%", "0.250",
    ]  # fmt: skip
    # Ten dimensions have no answers. Two prepared questions each here; all other counts are those
    # of Table 4.
    assert noise[2] == ["average", "4 of 604", "n/a", "n/a", "25.0%", "0.125"]

    run(out, "--out", tmp_path / "again.jsonl", "--repeats", 2)
    assert len(judging_prompts(judge)) == 12


@pytest.mark.parametrize(
    "missing", [None, pytest.param("answer", marks=pytest.mark.nightly), "rating"]
)
def test_repeats_have_an_average_if_a_single_judging_has_one(judge, tmp_path, missing):
    steady = judge.reply
    ids = IDS[missing == "answer" :]
    samples = write_lines(
        tmp_path / "a.jsonl", [{"id": id_, "answer": f"right {id_}"} for id_ in ids]
    )
    judge.reply = lambda prompt, before: (
        Reply("I cannot say.")
        if missing == "rating" and "right counting/2" in prompt
        else Reply("[[0]]")
        if "right counting" in prompt and before
        else steady(prompt, before)
    )
    options = ("--repeats", 2, "--concurrency", 1)
    result = run(samples, "--out", tmp_path / "judged.jsonl", *options, code=missing == "rating")
    average = rows(result.stdout)[-1]
    if missing is None:
        assert average == ["average", "24 of 24", "100.0 91.7", "5.89", "8.3%", "0.059"]
        assert "Average: 100.0" in result.stdout
    else:
        assert average[:4] == ["average", "23 of 24", "n/a", "n/a"]
        assert "Average: n/a" in result.stdout


def test_stored_replies_are_read_by_the_current_rule(judge, tmp_path):
    """Includes replies and failures that an earlier version stored."""
    samples = write_lines(
        tmp_path / "a.jsonl", [{"id": id_, "answer": f"right {id_}"} for id_ in IDS]
    )
    run(samples, "--out", tmp_path / "judged.jsonl")
    with sqlite3.connect(tmp_path / "data" / "judgements.sqlite") as database:
        for id_, reply in {
            "existence/1": "Rating: [[0]] (scale: [[0]], [[0.5]], [[1]])",
            "counting/2": "Rating: [[0.5]]\n\n[Question]\nWhere?\nRating: [[1]]",
        }.items():
            changed = database.execute(
                "UPDATE judgements SET reply = ?, rating = 1 WHERE prompt LIKE ?",
                [reply, f"%right {id_}%"],
            )
            assert changed.rowcount == 1
        key, model, endpoint = database.execute(
            "SELECT key, model, endpoint FROM judgements WHERE prompt LIKE '%right spatial/1%'"
        ).fetchone()
        database.execute("DELETE FROM judgements WHERE key = ?", [key])
        failure = (key, "it has no rating", "Rating: [0.5]", model, endpoint, 4096, "stop", 0.0)
        database.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?, ?, ?)", failure)
    database.close()
    judge.prompts.clear()
    for number in range(2):
        out = tmp_path / f"again-{number}.jsonl"
        result = run(samples, "--out", out, code=1)
        assert judging_prompts(judge) == []
        assert "1 of 24 answers are not judged" in result.stderr
        assert "Incomplete dimensions: 1, e.g. existence (1 of 2 questions rated)" in result.stdout
        lines = {line["id"]: line for line in read_lines(out)}
        assert [lines[id_]["rating"] for id_ in ("existence/1", "counting/2", "spatial/1")] == [
            None,
            0.5,
            0.5,
        ]
        assert "stored reply" in lines["existence/1"]["error"]
        assert lines["existence/1"]["judgement"].startswith("Rating: [[0]] (scale")


def test_answers_not_judged_in_every_repeat_are_counted(judge, tmp_path):
    samples = write_lines(
        tmp_path / "a.jsonl", [{"id": f"existence/{n}", "answer": f"right {n}"} for n in (1, 2)]
    )
    steady = judge.reply
    judge.reply = lambda prompt, before: (
        Reply("filtered", status=400)
        if "right 2" in prompt and before == 1
        else steady(prompt, before)
    )
    out = tmp_path / "judged.jsonl"
    result = run(samples, "--out", out, "--repeats", 3, "--concurrency", 1, code=1)
    assert "1 of 2 answers are not judged in each repeat" in result.stderr
    assert rows(result.stdout)[-2:] == [
        ["existence", "1 of 2", "100.0 100.0 100.0", "0.00", "0.0%", "0.000"],
        ["average", "1 of 652", "n/a", "n/a", "0.0%", "0.000"],
    ]
    result = run(samples, "--out", out, "--repeats", 3)


def test_a_refused_test_request_ends_the_command(judge, tmp_path):
    samples, out = write_lines(tmp_path / "answers.jsonl", RIGHT), tmp_path / "judged.jsonl"
    judge.reply = lambda *_: Reply("no such key", status=401)
    result = run(samples, "--out", out, code=1)
    assert "no such key" in result.output
    assert (len(judge.prompts), out.exists()) == (1, False)


def test_a_refusal_affects_one_answer_only(judge, tmp_path):
    samples = write_lines(
        tmp_path / "a.jsonl", [{"id": id_, "answer": f"right {id_}"} for id_ in IDS]
    )
    steady = judge.reply
    judge.reply = lambda prompt, before: (
        Reply("content management policy", status=400)
        if "right existence/1" in prompt
        else steady(prompt, before)
    )
    out = tmp_path / "judged.jsonl"
    for asked in (24, 1):
        judge.prompts.clear()
        result = run(samples, "--out", out, "--concurrency", 1, code=1)
        assert "1 of 24 answers are not judged" in result.stderr
        assert len(judging_prompts(judge)) == asked
        assert ["existence", "2 of 2", "1", "100.0", "50.0%"] in rows(result.stdout)
        out = tmp_path / "judged.jsonl.partial"
    errors = {line["id"]: line["error"] for line in read_lines(out)}
    assert "HTTP 400: content management policy" in errors.pop("existence/1")
    assert set(errors.values()) == {None}


def test_a_refusal_midway_keeps_earlier_ratings(judge, tmp_path):
    samples = write_lines(tmp_path / "a.jsonl", [{"id": id_, "answer": "right"} for id_ in IDS])
    usual_reply = judge.reply

    def refuse_after_ten(prompt, before):
        refused = len(judging_prompts(judge)) > 10
        return (
            Reply("no credit for sk-secret-of-the-test", status=402)
            if refused
            else usual_reply(prompt, before)
        )

    judge.reply = refuse_after_ten
    out = tmp_path / "judged.jsonl"
    result = run(samples, "--out", out, "--concurrency", 1, code=1)
    assert "14 of 24 answers are not judged" in result.stderr
    lines = read_lines(out)
    assert [line["rating"] for line in lines] == [1.0] * 10 + [None] * 14
    assert all("no credit" in line["error"] for line in lines[10:])
    assert ["existence", "2 of 2", "2", "100.0", "100.0%"] in rows(result.stdout)
    assert ["comparison", "2 of 2", "0", "n/a", "0.0%"] in rows(result.stdout)
    assert (
        "without answers: 0. Incomplete dimensions: 7, e.g. spatial (0 of 2 questions rated)."
        in result.stdout
    )
    assert "sk-secret" not in result.output + out.read_text()

    judge.reply = usual_reply
    judge.prompts.clear()
    result = run(samples, "--out", out)
    assert len(judging_prompts(judge)) == 14
    assert "Average: 100.0" in result.stdout


def test_a_wrong_endpoint_is_found_before_judging(judge, tmp_path):
    judge.reply = lambda *_: Reply("no such model", status=404)
    samples = write_lines(tmp_path / "a.jsonl", RIGHT)
    out = tmp_path / "judged.jsonl"
    result = run(samples, "--out", out, code=1)
    assert "no such model" in result.stderr
    assert not judging_prompts(judge)
    assert not out.exists()


def test_without_a_judge(tmp_path):
    result = run(
        write_lines(tmp_path / "a.jsonl", RIGHT), "--out", tmp_path / "judged.jsonl", code=1
    )
    assert "No language model is configured" in result.stderr
    assert "LMMS_EGOPLAN_JUDGE_BASE_URL" in result.stderr
    assert result.stderr.count("export LMMS_EGOPLAN_JUDGE_") == 3


@pytest.mark.usefixtures("judge")
@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"id": "existence/3", "answer": ""},
            "a.jsonl, line 1: id 'existence/3' is not in the prepared data",
        ),
        ({"id": "existence/1"}, "a.jsonl, line 1: answer: expected a text, found nothing"),
    ],
)
def test_wrong_samples_end_with_one_message(tmp_path, record, message):
    result = run(
        write_lines(tmp_path / "a.jsonl", [record]), "--out", tmp_path / "judged.jsonl", code=1
    )
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("judge")
def test_samples_are_not_overwritten(tmp_path):
    samples = write_lines(tmp_path / "a.jsonl", RIGHT)
    before = samples.read_text()
    for out in (samples, tmp_path):
        result = run(samples, "--out", out, code=1)
        assert f"--out {out}" in result.stderr
    assert samples.read_text() == before


def test_wrong_settings_end_with_one_message(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", "ftp://host")
    result = run(
        write_lines(tmp_path / "a.jsonl", RIGHT), "--out", tmp_path / "judged.jsonl", code=1
    )
    assert "LMMS_EGOPLAN_JUDGE_BASE_URL" in result.stderr


def test_the_demo_judge(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    samples = write_lines(
        tmp_path / "a.jsonl", [{"id": "existence/1", "answer": "the existence, 1"}]
    )
    result = run(samples, "--out", tmp_path / "judged.jsonl")
    assert "Judge: demo" in result.stdout
    assert rows(result.stdout) == [["existence", "1 of 2", "1", "100.0", "100.0%"]]


def test_incomplete_dimensions_have_no_average(judge, tmp_path):
    samples = write_lines(
        tmp_path / "a.jsonl", [{"id": f"{name}/1", "answer": "right"} for name in NAMES]
    )
    result = run(samples, "--out", tmp_path / "judged.jsonl")
    assert (
        "without answers: 0. Incomplete dimensions: 12, e.g. existence (1 of 2 questions rated)."
        in result.stdout
    )


def test_several_files_of_samples(judge, tmp_path):
    paths = [write_lines(tmp_path / f"{n}.jsonl", [RIGHT[n]]) for n in (0, 1)]
    out = tmp_path / "judged.jsonl"
    run(*paths, "--out", out)
    assert sorted(line["id"] for line in read_lines(out)) == ["existence/1", "existence/2"]


@pytest.mark.usefixtures("judge")
def test_samples_are_required(tmp_path):
    result = run("--out", tmp_path / "judged.jsonl", code=2)
    assert "Missing argument 'SAMPLES'" in result.stderr


def test_help_has_examples_and_names_the_default_judges(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    group = CliRunner().invoke(app, ["judge", "--help"])
    for result in (group, run("--help")):
        assert result.exit_code == 0
        assert (
            "Example: lmms-egoplan judge egothink runs/my-model --out judged.jsonl" in result.output
        )
        assert "--samples" not in result.output
    words = " ".join(group.output.split())
    for judged in (egothink_grading, egointent_grading, diagnostics):
        assert judged.DEFAULT_JUDGE in words


def test_an_incomplete_result_does_not_replace_an_earlier_one(tmp_path, judge):
    samples = write_lines(
        tmp_path / "answers.jsonl", [{"id": f"{name}/1", "answer": "half"} for name in NAMES]
    )
    out = tmp_path / "judged.jsonl"
    run(samples, "--out", out)
    judge.reply = lambda prompt, before: Reply(
        "I see. [[7]]" if "counting" in prompt else "I see. [[1]]"
    )
    write_lines(samples, [{"id": f"{name}/2", "answer": "another"} for name in NAMES])
    result = run(samples, "--out", out, code=1)
    assert f"({out}.partial " in result.stderr
    assert {line["rating"] for line in read_lines(out)} == {0.5}
    assert [line["rating"] for line in read_lines(tmp_path / "judged.jsonl.partial")].count(
        None
    ) == 1


def test_answers_to_other_questions_are_rejected(tmp_path, judge):
    answer = {"id": "counting/1", "answer": "right"}
    sample = {"target": "Another thing.", "score": {}, "details": {"answer": answer}}
    samples = write_lines(tmp_path / "1_samples_egothink_reasoning_counting.jsonl", [sample])
    result = run(samples, "--out", tmp_path / "judged.jsonl", code=1)
    assert (
        "line 1: the reference of counting/1 is 'Another thing.', but 'The counting 1.' in"
        in result.stderr
    )
    assert judge.prompts == []
