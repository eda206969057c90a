"""Judged answers have the same numbers in `show` and `report` as a run rated by the same judge."""

import json
import re

import pytest
from typer.testing import CliRunner

from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers
from benchmarks.egothink.synthetic import egothink_bench
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks import base
from lmms_egoplan.benchmarks.egointent.judge_protocol import RELEASE_JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.cli import app
from lmms_egoplan.coverage import OWN
from lmms_egoplan.report.runs import read_runs
from report import synthetic
from report.answers import Answers
from report.machines import write_job
from report.prepared import prepare_data
from report.reading import only
from report.synthetic import write_run

COUNT, STEPS = 4, 12
UNRATED = {"rating": None, "judgement": None, "judge": None, "error": "no judge is set"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_data(folder, egothink=COUNT, egointent=STEPS)
    return folder


@pytest.fixture
def judge(prepared, tmp_path, monkeypatch):
    """Start a judge that rates by a number in the answer, such as `r50` for one half."""

    def reply(prompt, _):
        rating = re.findall(r"r(\d+)\b", prompt)
        scale = 1 if "Rating: [[" in prompt and "[[0.5]]" in prompt else 100
        return Reply(
            "ready" if not rating else f"[[{int(rating[-1]) * scale / 100:g}]]", model="org/judge"
        )

    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(prepared))
    monkeypatch.setenv("COLUMNS", "200")
    (prepared / "judgements.sqlite").unlink(missing_ok=True)
    with JudgeServer(reply) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "judge")
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", "key")
        yield server


def command(*arguments):
    repeated = ["--overwrite"] if arguments[0] == "judge" else []
    result = CliRunner().invoke(app, [*map(str, arguments), *repeated])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def of_records(answers, change):
    """Return the answers with `change` applied to each record.

    Their question set is that of `prepared`.
    """
    docs = [doc | {"question_set": OWN} for doc in answers.docs]
    return Answers(docs, [[json.dumps(change(json.loads(text)))] for (text,) in answers.responses])


def rated_answers(judged):
    """Return answers whose text is their rating, for the judge.

    If not `judged`, they have no ratings.
    """

    def change(record):
        rating = record["rating"]
        return (
            record
            | {"answer": f"r{100 * rating:g}" if rating is not None else "r0"}
            | ({} if judged else UNRATED)
        )

    return {
        task: of_records(answers, change) for task, answers in egothink_bench(COUNT, 0.6, 1).items()
    }


def rated_steps(judged):
    def change(record):
        fields = {field: f"r{record['ratings'][field]:.0f}" for field in record["fields"]}
        changes = {"fields": fields, "reply": json.dumps(fields)}
        if not judged:
            changes |= {"ratings": {field: None if field in fields else 0.0 for field in FIELDS}}
            changes |= {name: dict.fromkeys(FIELDS) for name in ("judgements", "judges")}
            changes |= {
                "errors": {
                    field: "no judge is set" if field in fields else None for field in FIELDS
                }
            }
        return record | changes

    return {"egointent": of_records(egointent_answers(STEPS, 60, 2), change)}


def report(tmp_path, *paths):
    out = tmp_path / f"report-{len(list(tmp_path.iterdir()))}"
    result = command("report", *paths, "--out", out)
    assert result.exit_code == 0, result.output
    return json.loads((out / "report.json").read_text())["benchmarks"]


BENCHMARKS = pytest.mark.parametrize(
    ("benchmark", "answers"), [("egothink", rated_answers), ("egointent", rated_steps)]
)


def numbers(benchmark):
    """Return the benchmark's part of the report without the names of runs and harnesses."""
    text = json.dumps({name: benchmark[name] for name in benchmark if name != "runs"})
    return json.loads(re.sub(r"(Model|judged)[-\w. ,()]*", "RUN", text))


@pytest.mark.parametrize(
    ("benchmark", "answers", "harness"),
    [
        pytest.param("egothink", rated_answers, "lmms-eval", marks=pytest.mark.whole),
        pytest.param("egointent", rated_steps, "lm-eval", marks=pytest.mark.whole),
        pytest.param("egothink", rated_answers, "lm-eval", marks=pytest.mark.nightly),
        pytest.param("egointent", rated_steps, "lmms-eval", marks=pytest.mark.nightly),
    ],
)
def test_judged_files_have_the_same_numbers_as_a_run(
    judge, tmp_path, monkeypatch, benchmark, answers, harness
):
    monkeypatch.setitem(synthetic._PROMPTS, "judge_prompt", RELEASE_JUDGE_VERSION)
    write_run(tmp_path / "judged", harness, "org/Model", answers(True))
    write_run(tmp_path / "later", harness, "org/Model", answers(False))
    out = tmp_path / "judged.jsonl"
    result = command("judge", benchmark, tmp_path / "later", "--out", out)
    assert result.exit_code == 0, result.output
    (run,), (judged,) = report(tmp_path, tmp_path / "judged"), report(tmp_path, out)
    assert numbers(judged) == numbers(run)
    assert "org/judge" in json.dumps(judged)
    tables = [command("show", path, "--format", "md").stdout for path in (tmp_path / "judged", out)]
    assert tables[0] == tables[1]
    assert command("show", out).exit_code == 0
    asked = len(judge.prompts)
    assert command("judge", benchmark, out, "--out", tmp_path / "again.jsonl").exit_code == 0
    assert (tmp_path / "again.jsonl").read_text() == out.read_text()
    assert len(judge.prompts) <= asked + 1


@BENCHMARKS
def test_a_part_of_the_questions_has_partial_coverage(judge, tmp_path, benchmark, answers):
    """Another framework's answers have no run: unknown version, partial coverage, no comparison."""
    samples = tmp_path / "answers.jsonl"
    lines = {
        "egothink": [
            {"id": f"existence/{number}", "answer": f"r{50 * (number % 3)}"} for number in (1, 2, 3)
        ],
        "egointent": [
            {"step_id": f"step-{n}", "answer": json.dumps(dict.fromkeys(FIELDS, "r40"))}
            for n in (1, 2)
        ],
    }[benchmark]
    samples.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    out = tmp_path / "mine.jsonl"
    estimated = command("judge", benchmark, samples, "--out", out, "--estimate")
    assert (estimated.exit_code, judge.prompts) == (0, [])
    assert {path.name for path in tmp_path.iterdir()} == {"answers.jsonl"}
    assert "Total: " in estimated.stdout
    assert command("judge", benchmark, samples, "--out", out).exit_code == 0
    result = command("show", out)
    assert result.exit_code == 0, result.output
    assert "mine" in result.stdout
    assert "org/judge" in result.stdout
    (section,) = report(tmp_path, out)
    (score,) = section["scores"]
    assert score["coverage"] < 1 or "official" in json.dumps(score)
    assert "unknown" in json.dumps(section)


def amounts(output, word):
    """Return the numbers of prompt and reply tokens of the total, and the prices in a command's
    output.
    """
    (total,) = re.findall(r"^Total: .*", output, re.MULTILINE)
    tokens = [
        int(number.replace(",", ""))
        for number in re.findall(r"([\d,]+) (?:prompt|reply) tokens", total)
    ]
    (price,) = re.findall(r"^Price: .*", output, re.MULTILINE)
    assert word in price
    return tokens, [
        float(number.replace(",", "")) for number in re.findall(r"([\d,]+\.\d\d) for", price)
    ]


@pytest.mark.nightly
@BENCHMARKS
def test_batches_give_the_same_file_for_half_the_price(
    judge, prepared, tmp_path, monkeypatch, benchmark, answers
):
    monkeypatch.setattr("lmms_egoplan.judging.batches._FIRST_POLL_S", 0.02)
    monkeypatch.setattr("lmms_egoplan.judging.batches._LONGEST_POLL_S", 0.05)
    write_run(tmp_path / "later", "lmms-eval", "org/Model", answers(False))
    prices = tmp_path / "prices.json"
    prices.write_text('{"judge": {"input": 10000, "output": 40000}}')
    files, costs, estimates = [], [], []
    for batch in ([], ["--batch"]):
        (prepared / "judgements.sqlite").unlink(missing_ok=True)
        out = tmp_path / f"judged{len(batch)}.jsonl"
        ask = ("judge", benchmark, tmp_path / "later", "--out", out, "--prices", prices, *batch)
        estimates.append(amounts(command(*ask, "--estimate").stdout, "prices.json"))
        result = command(*ask)
        assert result.exit_code == 0, result.output
        costs.append(amounts(result.stdout, "prices.json"))
        files.append(out.read_bytes())
        assert bool(judge.batches) == bool(batch)
    assert files[0] == files[1]
    (tokens, live), (batch_tokens, half) = costs
    assert tokens == batch_tokens
    assert live == pytest.approx([tokens[0] / 100, tokens[1] / 25], abs=0.01)
    assert half == pytest.approx([live[0] / 2, live[1] / 2], abs=0.01)
    assert estimates[1][1] == pytest.approx([price / 2 for price in estimates[0][1]], abs=0.01)
    # The repeated command pays nothing.
    assert amounts(command(*ask).stdout, "prices.json") == ([0, 0], [0, 0])


def test_prices_without_the_judge_are_an_error_before_anything_is_sent(judge, tmp_path):
    write_run(tmp_path / "later", "lmms-eval", "org/Model", rated_answers(False))
    (tmp_path / "prices.json").write_text('{"other": {"input": 1, "output": 1}}')
    result = command(
        "judge",
        "egothink",
        tmp_path / "later",
        "--out",
        tmp_path / "x.jsonl",
        "--prices",
        tmp_path / "prices.json",
    )
    assert result.exit_code == 1
    assert all(fact in result.stderr for fact in ("prices.json", "judge", "other"))
    assert judge.prompts == []


def test_unrated_answers_are_counted(judge, tmp_path):
    write_run(tmp_path / "later", "lmms-eval", "org/Model", rated_answers(False))
    usual_reply = judge.reply
    question = "thing 1 of existence"
    judge.reply = lambda prompt, n: (
        Reply("no", status=400) if question in prompt else usual_reply(prompt, n)
    )
    out = tmp_path / "judged.jsonl"
    assert command("judge", "egothink", tmp_path / "later", "--out", out).exit_code == 1
    (section,) = report(tmp_path, out)
    assert f"1 of {12 * COUNT}" in json.dumps(section)


@pytest.mark.nightly
def test_incomplete_repeats_have_no_rating(judge, tmp_path):
    write_run(tmp_path / "later", "lmms-eval", "org/Model", rated_answers(False))
    out = tmp_path / "judged.jsonl"
    assert (
        command("judge", "egothink", tmp_path / "later", "--out", out, "--repeats", 2).exit_code
        == 0
    )
    complete = report(tmp_path, out)[0]
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    lines[0]["repeats"][1]["rating"] = None
    out.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    incomplete = report(tmp_path, out)[0]
    assert f"1 of {12 * COUNT}" not in json.dumps(complete)
    assert f"1 of {12 * COUNT}" in json.dumps(incomplete)


def test_the_demo_judge_is_marked(judge, tmp_path, monkeypatch):
    write_run(tmp_path / "later", "lmms-eval", "org/Model", rated_answers(False))
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    out = tmp_path / "judged.jsonl"
    assert command("judge", "egothink", tmp_path / "later", "--out", out).exit_code == 0
    assert "demo" in command("show", out).stdout


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ({"id": "existence/1", "answer": "Yes."}, ["judge egothink", "--out"]),
        ({"step_id": "s1", "answer": "{}"}, ["judge egointent", "--out"]),
        ({"doc_id": 0, "score": {}, "resps": []}, ["samples"]),
        ({"id": "a", "judge_model": "gpt", "judge": {}}, ["judge actplan"]),
        ({"question": "?"}, ["question"]),
        (7, []),
        (
            {"id": "existence/1", "rating": 1.0, "judge": "gpt", "answer": "Yes."},
            ["line 1", "truncated"],
        ),
        (
            {"id": "existence/99", "rating": 1.0, "judge": "gpt", "answer": "Yes."},
            ["line 1", "existence/99"],
        ),
    ],
)
def test_other_files_are_reported(judge, tmp_path, line, facts):
    path = tmp_path / "file.jsonl"
    path.write_text(f"{json.dumps(line)}\n")
    for arguments in (["show", path], ["report", path, "--out", tmp_path / "out"]):
        result = command(*arguments)
        assert result.exit_code == 1
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        assert all(fact in result.stderr for fact in [str(path), *facts]), result.stderr
    assert not (tmp_path / "out").exists()


def test_answers_of_two_runs_are_refused(judge, tmp_path):
    out = tmp_path / "judged.jsonl"
    for model in ("A", "B"):
        write_run(tmp_path / model, "lmms-eval", f"org/{model}", rated_answers(False))
        assert (
            command(
                "judge", "egothink", tmp_path / model, "--out", tmp_path / f"{model}.jsonl"
            ).exit_code
            == 0
        )
    first, second = ((tmp_path / f"{model}.jsonl").read_text().splitlines() for model in "AB")
    out.write_text("\n".join([*first[:COUNT], *second[COUNT:]]))
    result = command("show", out)
    assert result.exit_code == 1
    assert "org/A" in result.stderr
    assert "org/B" in result.stderr


@pytest.mark.parametrize(
    ("task", "sample"),
    [
        ("egothink_object_existence", {"score": {"id": "existence/1", "answer": "Yes."}}),
        ("egointent", {"overall": {"step_id": "step-1", "reply": "{}"}}),
    ],
)
def test_samples_of_an_earlier_version_are_an_error(judge, tmp_path, task, sample):
    benchmark = task.partition("_")[0]
    path = tmp_path / f"20260101_120000_samples_{task}.jsonl"
    path.write_text(json.dumps({"doc_id": 0} | sample))
    result = command("judge", benchmark, tmp_path, "--out", tmp_path / "judged.jsonl")
    assert (result.exit_code, judge.prompts) == (1, [])
    assert f"{path}, line 1: no details: an earlier version of the task" in result.stderr
    assert result.stderr.rstrip().endswith("run it again")


def test_each_task_is_judged_by_its_own_prompts(judge, tmp_path):
    """The samples name the task. Diagnostics are refused, because their judge needs the frames."""
    reply = json.dumps(dict.fromkeys(FIELDS, "r40"))
    record = {
        "step_id": "step-1",
        "reply": reply,
        "truncated": False,
        "frames_shown": 2,
        "media": "images",
    }
    run = tmp_path / "run"
    run.mkdir()
    samples = {
        "egointent": {"overall": {}, "overall_missing_zero": {}},
        "egointent_v1": {"overall": {}},
        "egointent_diagnostics": {"diagnostics": {}},
    }
    for task, sample in samples.items():
        (run / f"20260101_120000_samples_{task}.jsonl").write_text(
            json.dumps({"doc_id": 0, "details": {"step": record}} | sample)
        )
    out = tmp_path / "judged.jsonl"
    refused = command("judge", "egointent", run, "--out", out)
    assert refused.exit_code == 1
    assert "samples_egointent_diagnostics.jsonl, line 1" in refused.stderr
    assert judge.prompts == []
    (run / "20260101_120000_samples_egointent_diagnostics.jsonl").unlink()
    result = command("judge", "egointent", run, "--out", out)
    assert result.exit_code == 0, result.output
    lines = {line["kind"]: line for line in map(json.loads, out.read_text().splitlines())}
    assert (
        lines["egointent"]["ratings"]
        == lines["egointent_v1"]["ratings"]
        == dict.fromkeys(FIELDS, 40.0)
    )
    assert lines["egointent"]["judge_prompt"] != lines["egointent_v1"]["judge_prompt"]
    assert "40.00" in result.stdout
    table = command("show", "--details", out).stdout
    assert "egointent_v1" in table
    assert "40.00" in table


def test_answers_judged_later_join_the_run_that_wrote_them(judge, tmp_path):
    """The dimensions come from two jobs of one model; a third job answered EgoPlan."""
    unrated = rated_answers(False)
    tasks = list(unrated)
    write_job(tmp_path / "jobs" / "1", {task: unrated[task] for task in tasks[:5]})
    second = {task: unrated[task] for task in tasks[5:]}
    elsewhere = {"model": "/elsewhere/Model-7B", "time": "20260102_120000"}
    write_job(tmp_path / "jobs" / "2", second, **elsewhere)
    write_job(tmp_path / "egoplan", {"egoplan_val": egoplan_answers(5, 0.5, 1)})
    out = tmp_path / "judged.jsonl"
    result = command("judge", "egothink", tmp_path / "jobs", "--out", out)
    assert result.exit_code == 0, result.output
    paths = [tmp_path / "jobs", tmp_path / "egoplan", out]
    run = only(read_runs(paths, benchmarks=base.BENCHMARKS))
    assert run.tasks.keys() == {*tasks, "egoplan_val"}
    assert {run.source(task).harness for task in tasks} == {"lmms-eval, judged later"}
    write_job(tmp_path / "jobs" / "2", second, **elsewhere, weights="3" * 64)
    command("judge", "egothink", tmp_path / "jobs", "--out", out)
    result = command("show", out)
    assert "answers of several runs" in result.output
