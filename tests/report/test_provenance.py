"""The provenance of a run's numbers, and the command that repeats the run, read by the harnesses'
own parsers.
"""

import json
import shlex
import sys

import pytest

from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.report.runs import read_runs
from report.reading import only
from report.synthetic import write_run

LM_EVAL = "lmms-egoplan lm-eval --include_path $(lmms-egoplan tasks-path --harness lm-eval) "


def provenance_of(folder, harness, edit=lambda content: None):
    """Return the provenance of a run with edited results."""
    path = write_run(folder, harness, "org/Model-7B", {"egoplan_val": egoplan_answers(5, 0.5)})
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    return only(read_runs([folder])).provenance


def test_lm_eval_reads_the_command_that_repeats_a_run(tmp_path, monkeypatch):
    from lm_eval._cli.harness import HarnessCLI

    def edit(content):
        content["config"] |= {
            "model": "hf-vlm-ranker",
            "batch_size": 4,
            "limit": 5.0,
            "device": "cuda:0",
        }
        content["config"]["model_args"] = {
            "pretrained": "org/Model 7B",
            "dtype": "bfloat16",
            "trust": True,
        }
        content["config"] |= {
            "random_seed": 7,
            "numpy_seed": 8,
            "torch_seed": 9,
            "fewshot_seed": 10,
        }
        content |= {
            "chat_template": "{{ messages }}",
            "system_instruction": "Answer 'briefly'; $HOME",
        }

    command = provenance_of(tmp_path, "lm-eval", edit)["command"]
    assert command.startswith(LM_EVAL)
    words = [
        word.replace("DIR", str(tmp_path / "out"))
        for word in shlex.split(command.removeprefix(LM_EVAL))
    ]
    monkeypatch.setattr(
        sys, "argv", ["lm-eval", "run", "--include_path", str(LM_EVAL_TASKS), *words]
    )
    read = HarnessCLI().parse_args()
    assert (read.tasks, read.model) == (["egoplan_val"], "hf-vlm-ranker")
    assert {name: str(value) for name, value in read.model_args.items()} == {
        "pretrained": "org/Model 7B", "dtype": "bfloat16", "trust": "True",
    }  # fmt: skip
    assert (str(read.batch_size), float(read.limit), read.log_samples) == ("4", 5.0, True)
    assert read.seed == [7, 8, 9, 10]
    assert read.apply_chat_template
    assert read.system_instruction == "Answer 'briefly'; $HOME"


def test_lmms_eval_reads_the_command_that_repeats_a_run(tmp_path, monkeypatch):
    from lmms_eval.__main__ import parse_eval_args

    typed = {
        "tasks": "egoplan_val,egothink_bench",
        "model": "hf_vlm",
        "model_args": "pretrained=org/Model-7B,fps=8",
    }

    def edit(content):
        as_list = typed | {"tasks": typed["tasks"].split(",")}
        content["config"] |= {
            "resolved_cli_args": as_list,
            "batch_size": "2",
            "gen_kwargs": "max_new_tokens=64",
        }

    command = provenance_of(tmp_path, "lmms-eval", edit)["command"]
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    _, read = parse_eval_args()
    assert {name: getattr(read, name) for name in typed} == typed
    assert (read.batch_size, read.gen_kwargs, read.limit, read.log_samples) == (
        "2",
        "max_new_tokens=64",
        None,
        True,
    )
    assert read.apply_chat_template is False


@pytest.mark.parametrize("harness", ["lmms-eval", "lm-eval"])
def test_keys_are_hidden(tmp_path, harness):
    keys = {
        "Authorization": "Bearer secret-four",
        "x-api-key": "secret-five",
        "secret_key": "secret-six",
    }
    address = "https://me:secret-two@host/v1?key=secret-seven&sig=secret-eight"
    arguments = {
        "pretrained": "m",
        "api_key": "secret-one",
        "base_url": address,
        "other": "AIzasecret-nineabcdefghijk",
    }

    def edit(content):
        as_typed = ",".join(f"{name}={value}" for name, value in arguments.items())
        content["config"]["model_args"] = as_typed if harness == "lmms-eval" else arguments
        content["config"]["resolved_cli_args"] = {
            "model": "openai",
            "model_args": as_typed,
            "hf_token": "secret-three",
        }
        content["config"]["gen_kwargs"] = (
            f"max_gen_toks=7,proxy=http://secret-ten@proxy,headers={keys}"
        )
        content["system_instruction"] = f"headers: {keys}"

    provenance = provenance_of(tmp_path, harness, edit)
    text = json.dumps(provenance)
    assert "pretrained=m" in text
    assert "max_gen_toks=7" in provenance["command"]
    assert "secret-" not in text


@pytest.mark.parametrize(
    "arguments", ["pretrained=m,revision=abc", {"pretrained": "m", "revision": "abc"}]
)
def test_the_revision_is_reported(tmp_path, arguments):
    provenance = provenance_of(
        tmp_path, "lm-eval", lambda content: content["config"].update(model_args=arguments)
    )
    assert provenance["revision"] == "abc"


def test_details_missing_in_the_results_are_omitted(tmp_path):
    def edit(content):
        content |= {"config": None, "git_hash": "unknown@unknown", "lm_eval_version": None}

    provenance = provenance_of(tmp_path, "lm-eval", edit)
    assert provenance.keys() == {"model", "harness", "started", "seconds", "folder"}
    assert all(provenance.values())
