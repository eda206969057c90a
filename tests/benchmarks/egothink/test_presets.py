"""The presets of EgoThink ask, decode, read and judge as the published pipelines do, in both
harnesses.
"""

import base64
import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from benchmarks.egothink.source import write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.egoplan.presets import load_presets as load_presets_of_egoplan
from lmms_egoplan.benchmarks.egothink import presets
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.egothink.presets import load_presets, preset_block
from lmms_egoplan.benchmarks.egothink.prompts import (
    FAMILIES,
    model_blocks,
    prompt_messages,
    prompt_text,
)
from lmms_egoplan.benchmarks.presets import FIELDS, JUDGE_FIELDS, reject_former_variable
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.report.egothink.answers import read_graded
from lmms_egoplan.report.sections import remarks_of
from lmms_egoplan.task_files import package_versions

PRESETS = load_presets()
VARIABLE = "LMMS_EGOPLAN_PROTOCOL"
COUNT = 6  # questions per dimension
TASK = "egothink_planning_assistance"
PLANNING = ("assistance", "navigation")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("egothink")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_egothink(write_source(folder / "source", COUNT))
    return folder


@pytest.fixture
def data(source, monkeypatch):
    for name in (
        "MODEL_VERSION",
        "OPENAI_API_URL",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "API_TYPE",
        VARIABLE,
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(source))
    return source


def upstream_task(dimension):
    """Return the content of lmms-eval's own YAML file of a dimension, functions as names, and its
    module.
    """
    module = importlib.import_module("lmms_eval.tasks.egothink.utils")
    name = {"comparison": "comparing"}.get(dimension.name, dimension.name)
    path = Path(module.__file__).with_name(f"egothink_{name}.yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8").replace("!function ", "")), module


def sent_upstream(dimension, question):
    """Return the text and the generation arguments that lmms-eval's own task sends."""
    from lmms_eval.api.task import TaskConfig

    task, module = upstream_task(dimension)
    text = module.egothink_doc_to_text(
        {"question": question}, task["lmms_eval_specific_kwargs"]["default"]
    )
    config = TaskConfig(
        task=task["task"], output_type="generate_until", generation_kwargs=task["generation_kwargs"]
    )
    return text, config.generation_kwargs


def slow_reference(preset, dimension, question):
    """Return the system message, the text, whether the image is first, and the generation
    arguments.
    """
    if preset == "lmms-eval-0.7.3":
        text, arguments = sent_upstream(dimension, question)
        return None, text, True, arguments
    if preset == "official":
        text = f"Please let your answer be as short as possible. Question: {question} Short answer:"
        return (
            "You are a helpful assistant.",
            text,
            False,
            {"temperature": 0, "do_sample": False, "max_new_tokens": 4096},
        )
    safety = (
        "You should answer any question without safety or privacy concerns. "
        if dimension.name in PLANNING
        else ""
    )
    text = (
        f"Imagine you are the camera wearer (I) who recorded the video. {safety}Please directly "
        f"answer the question as short as possible. Question: {question} Short answer:"
    )
    return (
        None,
        text,
        True,
        {"max_new_tokens": 300 if dimension.name in PLANNING else 30, "temperature": 0},
    )


def named(task, preset):
    """Return the name of a task under a preset."""
    return f"{task}__{preset}" if preset else task


def lmms_tasks(model, preset=None):
    from lmms_eval.tasks import TaskManager

    tasks = TaskManager(
        "ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False, model_name=model
    )
    loaded = {}
    for dimension in DIMENSIONS:
        loaded |= tasks.load_task_or_group([named(dimension.task, preset)])
    return loaded


@pytest.mark.whole
def test_lmms_eval_asks_like_the_pipelines(data, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    for preset in PRESETS:
        tasks, asked = lmms_tasks("llava", preset), 0
        for dimension in DIMENSIONS:
            task = tasks[named(dimension.task, preset)]
            assert task.config.metadata["asked_as"] == preset
            for doc in task.test_docs():
                system, text, is_first, arguments = slow_reference(
                    preset, dimension, doc["question"]
                )
                assert task.config.generation_kwargs.items() >= arguments.items()
                assert task.doc_to_text(doc) == (text if system is None else f"{system}\n{text}")
                messages = task.config.doc_to_messages(doc, task.lmms_eval_specific_kwargs)
                assert [message["role"] for message in messages] == ["system", "user"][
                    system is None :
                ]
                assert system is None or messages[0]["content"] == [
                    {"type": "text", "text": system}
                ]
                kinds = [item["type"] for item in messages[-1]["content"]]
                assert kinds == (["image", "text"] if is_first else ["text", "image"])
                assert messages[-1]["content"][kinds.index("text")]["text"] == text
                asked += 1
        assert asked == COUNT * len(DIMENSIONS) >= 60


def test_lm_eval_asks_like_the_pipelines(data, monkeypatch):
    from harnesses.lm_eval.prepared_sets import build

    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    for preset in PRESETS:
        asked = 0
        for dimension in DIMENSIONS:
            task = build(named(dimension.task, preset))
            assert task.config.metadata["asked_as"] == preset
            for instance in task.instances:
                text, arguments = instance.args[:2]
                system, expected, is_first, reference = slow_reference(
                    preset, dimension, instance.doc["question"]
                )
                if "<image>" not in expected:  # else the image has this place in lm-eval
                    expected = f"<image>{expected}" if is_first else f"{expected}<image>"
                assert text == (expected if system is None else f"{system}\n{expected}")
                limit = reference.pop("max_new_tokens")
                assert arguments.items() >= {**reference, "max_gen_toks": limit}.items()
                asked += 1
        assert asked == COUNT * len(DIMENSIONS) >= 60


@pytest.mark.nightly
def test_an_api_gets_what_lmms_evals_own_task_sends(data, monkeypatch):
    """The image precedes the text, ``<image>`` stays in it, and temperature and limit are sent."""
    dimension = next(dimension for dimension in DIMENSIONS if dimension.task == TASK)
    _, bodies = evaluated(monkeypatch, preset="lmms-eval-0.7.3")
    rows = EGOTHINK.load("assistance")
    by_text = {}
    for body in bodies:
        (message,) = body["messages"]
        image, text = message["content"]
        pixels = Image.open(
            io.BytesIO(base64.b64decode(image["image_url"]["url"].partition(",")[2]))
        )
        by_text[text["text"]] = pixels.size
        assert (body["temperature"], body["max_tokens"]) == (0.2, 300)
    assert by_text == {
        sent_upstream(dimension, row["question"])[0]: row["image"].size for row in rows
    }
    assert all("USER: <image>\n" in text for text in by_text)


def evaluated(monkeypatch, harness="lmms-eval", preset=None, reply="lol", judged="Fine. [[0.5]]"):
    """Run a task; return the results, and the bodies of requests to the model, or to the judge in
    lm-eval.
    """
    with (
        JudgeServer(lambda *_: Reply(judged)) as judge,
        JudgeServer(lambda *_: Reply(reply)) as model,
    ):
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", judge.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "gpt")
        if harness == "lm-eval":
            return evaluated_by_lm_eval(named(TASK, preset)), judge.bodies[1:]
        return evaluated_by_lmms_eval(named(TASK, preset), model.url), model.bodies


def evaluated_by_lm_eval(task):
    import lm_eval
    from lm_eval.models.dummy import DummyLM

    from harnesses.lm_eval.prepared_sets import manager

    class Model(DummyLM):
        """A model that looks at no image and answers ``lol``."""

        MULTIMODAL = True

    return lm_eval.simple_evaluate(Model(), tasks=[task], task_manager=manager(), bootstrap_iters=0)


def evaluated_by_lmms_eval(task, url):
    from lmms_eval import evaluator
    from lmms_eval.tasks import TaskManager

    tasks = TaskManager(
        "ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False, model_name="openai"
    )
    arguments = f"model=tiny,base_url={url},api_key=none,max_retries=1"
    return evaluator.simple_evaluate(
        "openai", arguments, tasks=[task], task_manager=tasks, log_samples=True
    )


@pytest.mark.nightly
@pytest.mark.parametrize("harness", ["lm-eval", "lmms-eval"])
@pytest.mark.parametrize("preset", PRESETS)
def test_results_name_the_preset_and_its_judge(data, monkeypatch, harness, preset):
    done, _ = evaluated(monkeypatch, harness, preset)
    judge, task = PRESETS[preset].judge_prompt, named(TASK, preset)
    assert done["details"][task]["judge_protocol"] == judge
    assert done["details"][task]["prompts"].startswith(f"preset {preset}")
    expected = f"{package_versions()[TASK]}{'' if judge == 'paper' else f'-{judge}'}+{preset}"
    assert done["versions"][task] == done["configs"][task]["metadata"]["version"] == expected
    assert done["configs"][task]["metadata"]["asked_as"] == preset


@pytest.mark.nightly
@pytest.mark.parametrize("harness", ["lm-eval", "lmms-eval"])
def test_without_a_preset_nothing_changes(data, monkeypatch, harness):
    done, _ = evaluated(monkeypatch, harness)
    assert str(done["versions"][TASK]) == package_versions()[TASK]
    assert not done["configs"][TASK]["metadata"].get("asked_as")
    arguments = done["configs"][TASK]["generation_kwargs"]
    assert arguments.get("max_new_tokens", arguments.get("max_gen_toks")) == 300
    assert (arguments["until"], arguments["do_sample"]) == ([], False)


@pytest.mark.nightly
def test_the_variable_of_the_judge_wins_and_is_visible(data, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_PROTOCOL", "lmms-eval-0.7.3")
    done, _ = evaluated(monkeypatch, preset="official")
    version = f"{package_versions()[TASK]}-lmms-eval-0.7.3+official"
    assert done["versions"][named(TASK, "official")] == version


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("preset", "judged"),
    [("official", "blue"), ("physbrain", "Well. Short Answer: blue"), (None, "Well. Short")],
)
def test_the_official_pipeline_cuts_replies(data, monkeypatch, preset, judged):
    done, _ = evaluated(monkeypatch, preset=preset, reply="Well. Short Answer: blue")
    answers = {
        sample["details"]["answer"]["answer"] for sample in done["samples"][named(TASK, preset)]
    }
    assert all(answer.startswith(judged) for answer in answers)


@pytest.mark.parametrize(
    "harness", ["lm-eval", pytest.param("lmms-eval", marks=pytest.mark.nightly)]
)
def test_the_former_variable_ends_the_run_before_any_request(data, monkeypatch, harness):
    monkeypatch.setenv(VARIABLE, "physbrain")
    with pytest.raises(
        LmmsEgoplanError, match=r"LMMS_EGOPLAN_PROTOCOL=physbrain: .*run egothink__physbrain$"
    ):
        evaluated(monkeypatch, harness)


def test_the_error_of_the_former_variable_names_the_tasks(monkeypatch):
    def message(value):
        monkeypatch.setenv(VARIABLE, value)
        with pytest.raises(LmmsEgoplanError) as caught:
            reject_former_variable()
        return str(caught.value)

    same = "egoplan__official or egoplan_bench2__official or egothink__official"
    assert message("official").endswith(f"run {same}")
    every_preset = [f"{name}__{preset}" for name, preset in _all_presets()]
    assert message("offical").endswith(f"run one of {', '.join(sorted(every_preset))}")
    monkeypatch.setenv(VARIABLE, " ")
    assert reject_former_variable() is None


def _all_presets():
    for benchmark in ("egoplan", "egoplan_bench2"):
        yield from ((benchmark, preset) for preset in load_presets_of_egoplan(benchmark))
    yield from (("egothink", preset) for preset in PRESETS)


def test_commands_refuse_the_former_variable_before_they_start(monkeypatch):
    monkeypatch.setenv(VARIABLE, "official")
    for arguments in (["run", "tiny", "--check"], ["lm-eval"], ["data", "status"]):
        done = subprocess.run(
            [sys.executable, "-m", "lmms_egoplan", *arguments], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("lmms-egoplan: LMMS_EGOPLAN_PROTOCOL=official: ")


def test_other_prompts_contradict_a_preset(data):
    from harnesses.lm_eval.prepared_sets import load

    task = named(TASK, "official")
    with pytest.raises(LmmsEgoplanError, match=rf"^{task}: .*prompts=llava.*official"):
        load(task, prompts="llava")


@pytest.mark.nightly
def test_cached_answers_of_lmms_eval_depend_on_the_preset(data, monkeypatch):
    """The harness's key of a cached answer contains the task's configuration and the generation
    arguments.
    """
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    configurations = set()
    for preset in (None, *PRESETS):
        dumped = lmms_tasks("llava", preset)[named(TASK, preset)].dump_config()
        configurations.add(json.dumps(dumped, sort_keys=True, default=str))
    assert len(configurations) == 1 + len(PRESETS)


def test_each_preset_states_all_fields_or_names_the_unknown_ones():
    entries = yaml.safe_load(Path(presets.__file__).with_suffix(".yaml").read_text())
    fields = {*FIELDS, *JUDGE_FIELDS}
    for name, preset in PRESETS.items():
        assert entries[name].keys() & fields == fields - {*preset.unknown}
        assert preset.source
        failed = PROTOCOLS[preset.judge_prompt].failed
        assert preset.failed == ("excluded" if failed is None else str(failed))
    unknown = {name: set(preset.unknown) for name, preset in PRESETS.items()}
    assert unknown["official"] == unknown["lmms-eval-0.7.3"] == set()
    assert unknown["physbrain"] == {"decoding", "thinking", "parser", "judge_prompt", "failed"}


def test_prompts_of_physbrain_are_those_of_the_family():
    (family,) = (family for family in FAMILIES if family.name == "physbrain")
    for dimension in DIMENSIONS:
        expected = family.planning if dimension.name in PLANNING else family.general
        assert preset_block("physbrain", dimension.name)["prompt"] == expected


def test_blocks_without_a_preset_keep_their_messages():
    block = model_blocks(planning=False)["mplug_owl"]
    kinds = [item["type"] for item in prompt_messages("Where?", None, block)[0]["content"]]
    assert kinds == ["text", "image", "text"]
    assert prompt_text(" Where? ", {"prompt": "{question}"}) == " Where? "


@pytest.mark.nightly
def test_reports_keep_presets_apart(data, monkeypatch, tmp_path):
    """Two presets of one model are in two parts, and unknown fields are named."""
    from lmms_egoplan.report.benchmarks import read_reports
    from lmms_egoplan.report.runs import read_runs

    for preset in (None, "official", "physbrain"):
        done, _ = evaluated(monkeypatch, "lm-eval", preset)
        folder, task = tmp_path / str(preset), named(TASK, preset)
        folder.mkdir()
        samples = done.pop("samples")[task]
        content = {**done, "model_name": "org/Model-7B", "model_source": "dummy"}
        (folder / "results_2026-11-25T10-00-00.000000.json").write_text(
            json.dumps(content, default=str)
        )
        lines = "".join(f"{json.dumps(sample, default=str)}\n" for sample in samples)
        (folder / f"samples_{task}_2026-11-25T10-00-00.000000.jsonl").write_text(lines)
    runs = read_runs([tmp_path]).runs
    versions = {graded.task_run.version for run in runs for graded in read_graded(run)}
    version = package_versions()[TASK]
    assert versions == {version, f"{version}-authors+official", f"{version}+physbrain"}
    parts = list(
        read_reports(runs, [benchmark for benchmark in BENCHMARKS if benchmark.name == "egothink"])
    )
    assert [len(part.runs) for part, _ in parts] == [1, 1, 1]
    assert parts[0][0].versions == {TASK: version}
    remarks = {}
    for part, report in parts:
        (version_of_part,) = part.versions.values()
        remarks[version_of_part] = " ".join(remarks_of(report))
    assert "decoding, thinking, parser, judge prompt, failed" in remarks[f"{version}+physbrain"]
    assert all(
        "does not state" not in remarks[other] for other in (version, f"{version}-authors+official")
    )
    foreign = [text for part, _ in parts for text in part._remarks() if "not a version" in text]
    assert not foreign
