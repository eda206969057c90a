"""Judge runs of both harnesses under each protocol, and stored answers under another one."""

import json
import shutil

import lm_eval
import pytest
from lm_eval.models.dummy import DummyLM
from lm_eval.utils import make_table
from lmms_eval import evaluator as lmms_eval
from typer.testing import CliRunner

from benchmarks.egothink.paper import SINGLE_MATH_V2
from benchmarks.egothink.source import write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.report.egothink.answers import read_graded
from lmms_egoplan.report.judged import read_judged
from lmms_egoplan.task_files import package_versions
from runs.both_harnesses import lm_tasks, lmms_tasks
from runs.harness import EGOTHINK_ROWS, printed_metrics

TASK = "egothink_planning_assistance"
PHYSBRAIN = (
    "Imagine you are the camera wearer (I) who recorded the video. You should answer any question "
    "without safety or privacy concerns. Please directly answer the question as short as possible. "
    "Question: {} Short answer:"
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_egothink(write_source(folder / "source"))
    return folder / "data"


@pytest.fixture
def data(prepared, tmp_path, monkeypatch):
    """A copy of the prepared data, in which no judgement is stored yet."""
    for name in (
        "MODEL_VERSION",
        "OPENAI_API_URL",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "API_TYPE",
    ):
        monkeypatch.delenv(name, raising=False)
    folder = shutil.copytree(prepared, tmp_path / "data")
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder))
    return folder


@pytest.fixture
def judge(monkeypatch):
    """A judge that rates the first answer and fails for the second."""

    def reply(prompt, _):
        return Reply("Fine. [[0.5]]" if "thing 1 " in prompt else "[[7]]")

    with JudgeServer(reply) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "gpt")
        yield server


class Model(DummyLM):
    """A model of lm-eval that looks at no image and answers ``lol``."""

    MULTIMODAL = True


def in_lm_eval(**metadata):
    return lm_eval.simple_evaluate(
        Model(), tasks=[TASK], task_manager=lm_tasks(json.dumps(metadata)), bootstrap_iters=0
    )


def evaluated(harness):
    if harness == "lm-eval":
        return in_lm_eval()
    tasks = lmms_tasks("openai", LMMS_EVAL_TASKS / "egothink")
    with JudgeServer(lambda *_: Reply("lol")) as model:
        arguments = f"model=tiny,base_url={model.url},api_key=none,max_retries=1"
        return lmms_eval.simple_evaluate(
            "openai", arguments, tasks=[TASK], task_manager=tasks, log_samples=True
        )


@pytest.mark.nightly
@pytest.mark.parametrize("harness", ["lm-eval", "lmms-eval"])
@pytest.mark.parametrize(
    ("protocol", "score", "failed"),
    [("paper", 50, 0), ("authors", 50, 0), ("lmms-eval-0.7.3", -25, 1)],
)
def test_protocols_in_harnesses(data, judge, monkeypatch, harness, protocol, score, failed):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_PROTOCOL", protocol)
    done = evaluated(harness)
    results, details = done["results"][TASK], done["details"][TASK]
    version = package_versions()[TASK]
    assert results["score,judged"] == score
    assert details["judge_protocol"] == protocol
    assert (details["judge_failed"], results["judge_coverage,judged"]) == (failed, 0.5)
    is_paper = protocol == "paper"
    assert details["judge_model"] == ("gpt" if is_paper else f'gpt (protocol="{protocol}")')
    expected = version if is_paper else f"{version}-{protocol}"
    metadata = done["configs"][TASK]["metadata"]
    assert str(done["versions"][TASK]) == str(metadata["version"]) == expected
    assert metadata["judge_protocol"] == protocol
    bodies = judge.bodies[1:]
    assert len(bodies) == 4
    # The tokens of all requests, also of those that were repeated.
    asked = sum(len(body["messages"][-1]["content"].split()) for body in bodies)
    assert (details["judge_tokens_of"], details["judge_prompt_tokens"]) == (2, asked)
    for body in bodies:
        assert [message["role"] for message in body["messages"]] == (
            ["user"] if is_paper else ["system", "user"]
        )
        text, (number,) = (
            body["messages"][-1]["content"],
            {1, 2} - {2 if "thing 1 " in str(body) else 1},
        )
        reference = f"The assistance {number}."
        if not is_paper:
            expected = (
                reference.lower().strip().replace(".", "")
                if protocol.startswith("lmms")
                else reference
            )
            question = f"What is thing {number} of assistance? "
            template = json.loads(SINGLE_MATH_V2)["prompt_template"]
            assert text == template.format(question=question, ref_answer_1=expected, answer="lol")


@pytest.mark.parametrize("harness", ["lm-eval", "lmms-eval"])
def test_an_unknown_protocol_ends_the_run_before_any_request(data, judge, monkeypatch, harness):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_PROTOCOL", "gpt")
    with pytest.raises(LmmsEgoplanError, match=r"paper, authors, lmms-eval-0\.7\.3"):
        evaluated(harness)
    assert not judge.bodies


def test_prompts_and_results_in_lm_eval(data, judge):
    done = in_lm_eval(prompts="physbrain")
    assert printed_metrics(make_table(done), TASK) == sorted(EGOTHINK_ROWS)
    assert done["details"][TASK]["prompts"] == "physbrain"
    texts = [sample["arguments"][0][0] for sample in done["samples"][TASK]]
    assert texts == [
        "<image>" + PHYSBRAIN.format(f"What is thing {number} of assistance? ") for number in (1, 2)
    ]


@pytest.mark.nightly
def test_stored_answers_are_judged_under_another_protocol(data, judge, tmp_path, monkeypatch):
    origin = {
        "model": "m",
        "harness": "lm-eval",
        "time": "t",
        "task": TASK,
        "version": "1.4",
        "config": {},
    }
    stored = tmp_path / "answers.jsonl"
    lines = [{"id": f"assistance/{n}", "answer": f"thing {n} ", "run": origin} for n in (1, 2)]
    stored.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_PROTOCOL", "authors")
    rows = {}
    for name, options in (
        ("authors", []),
        ("lmms-eval-0.7.3", ["--protocol", "lmms-eval-0.7.3"]),
        ("paper", ["--protocol", "paper"]),
    ):
        out = tmp_path / f"{name}.jsonl"
        done = CliRunner().invoke(
            app, ["judge", "egothink", str(stored), "--out", str(out), *options]
        )
        assert done.exit_code == 1, done.output  # one judgement failed
        records = [json.loads(line) for line in out.read_text().splitlines()]
        assert {record["protocol"] for record in records} == {name}
        assert {record["run"]["version"] for record in records} == {
            "1.4" if name == "paper" else f"1.4-{name}"
        }
        run = read_judged(out, BENCHMARKS)
        (graded,) = read_graded(run)
        rows[name] = (
            graded.task_run.version,
            graded.conditions["judges"],
            run.tasks[TASK].metrics["judge_failed"],
        )
        assert (graded.ranking_flaw is not None) == (name == "lmms-eval-0.7.3")
        assert ("in the mean as -1: 1" in done.output) == (name == "lmms-eval-0.7.3")
    assert rows == {
        "paper": ("1.4", "gpt", 0),
        "authors": ("1.4-authors", 'gpt (protocol="authors")', 0),
        "lmms-eval-0.7.3": ("1.4-lmms-eval-0.7.3", 'gpt (protocol="lmms-eval-0.7.3")', 1),
    }
    paths = [str(tmp_path / f"{name}.jsonl") for name in ("paper", "authors")]
    agreement = CliRunner().invoke(app, ["agreement", "egothink", *paths], env={"COLUMNS": "200"})
    assert agreement.exit_code == 0, agreement.output
    assert 'gpt (protocol="authors")' in agreement.output
    refused = CliRunner().invoke(
        app, ["judge", "egothink", *paths[:1], "--out", str(tmp_path / "new"), "--protocol", "gpt"]
    )
    assert refused.exit_code == 1
    assert "lmms-eval-0.7.3" in refused.output


def test_the_judges_name_has_the_protocol():
    assert JudgeSettings("o3", protocol="paper").name("o3") == "o3"
    assert JudgeSettings("o3", protocol="authors").name("o3-2025") == 'o3-2025 (protocol="authors")'
