"""Memory, processes and prices without a GPU of this machine."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from launch.mistakes import CHECKPOINT
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.printing import print_steps
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.launch.checks import find_problems
from lmms_egoplan.launch.counts import check_prices, used_steps
from lmms_egoplan.launch.machine import gpu_memory
from lmms_egoplan.launch.plan import Plan, read_arguments

ROWS = "0, GPU-aaaa, 10\n1, GPU-bbbb, 20\n2, GPU-cccc, 30\n"


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Return a function that makes ``nvidia-smi`` print rows: index, ID and free MiB."""

    def install(rows):
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{rows}END\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    return install


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [10, 20, 30]), ("2,0", [10, 30]), ("GPU-bb", [20]), ("", []), ("-1", [])],
)
def test_only_visible_gpus_count(gpus, monkeypatch, visible, expected):
    gpus(ROWS)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_memory() == [mib * 2**20 for mib in expected]


@pytest.fixture
def checkpoint(tmp_path):
    """Write a checkpoint of 0.8 MB, and return the path of its weights."""
    from lmms_egoplan.demo.checkpoint import write_checkpoint  # imports torch

    write_checkpoint(tmp_path / CHECKPOINT)
    return tmp_path / CHECKPOINT / "model.safetensors"


def plan(folder, **changes):
    values = {
        **{
            "model": str(folder / CHECKPOINT),
            "backend_name": "hf_vlm",
            "model_args": {},
            "harness": "lmms-eval",
        },
        **{
            "tasks": [],
            "limit": None,
            "launcher": "none",
            "processes": 1,
            "nodes": 1,
            "options": [],
        },
    }
    return Plan(**values | {"out": folder / "out"} | changes)


@pytest.mark.usefixtures("checkpoint")
def test_weights_must_fit_into_the_memory_of_one_gpu_or_of_all(gpus, tmp_path):
    gpus("0, GPU-a, 0\n1, GPU-b, 0\n")
    (line,) = find_problems(plan(tmp_path))
    assert "largest free memory of a GPU is 0.0 GiB" in line
    assert find_problems(plan(tmp_path, model_args={"device": "cpu"})) == []
    (line,) = find_problems(
        plan(tmp_path, launcher="vllm", backend_name="vllm_ranker", processes=2)
    )[:1]
    assert "vLLM is not installed" in line or "2 GPUs" in line
    (line,) = find_problems(
        plan(tmp_path, launcher="torchrun", processes=4, model_args={"device": "cpu"})
    )
    assert "--processes 4" in line
    # another machine runs the script
    assert find_problems(plan(tmp_path, launcher="slurm", processes=8)) == []


def test_dtype_scales_the_needed_memory(checkpoint, tmp_path, monkeypatch):
    size = checkpoint.stat().st_size
    monkeypatch.setattr("lmms_egoplan.launch.checks.gpu_memory", lambda: [int(0.75 * size)])
    assert len(find_problems(plan(tmp_path))) == 1
    assert find_problems(plan(tmp_path, model_args={"dtype": "bfloat16"})) == []


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("dtype=bfloat16, max_frames_num=4,", {"dtype": "bfloat16", "max_frames_num": "4"}),
        ('a={"b":1,"c":[2,3]},d=x=y', {"a": '{"b":1,"c":[2,3]}', "d": "x=y"}),
    ],
)
def test_arguments_are_split_at_commas_outside_of_json(text, arguments):
    assert read_arguments(text) == arguments


def test_command_contains_everything_to_repeat_the_run(tmp_path):
    chosen = plan(
        Path("f"), tasks=["egoplan_val", "actplan_bench"], limit=3, options=["--batch_size", "4"]
    )
    words = chosen.command()
    for option, value in {
        "--model_args": f"pretrained=f/{CHECKPOINT}",
        "--tasks": "egoplan_val,actplan_bench",
        "--use_cache": "f/out/cache",
        "--limit": "3",
        "--batch_size": "4",
    }.items():
        assert words[words.index(option) + 1] == value
    on_vllm = replace(
        chosen,
        backend_name="vllm_ranker",
        launcher="vllm",
        processes=8,
        nodes=2,
        model_args={"a": "b"},
    )
    expected = (
        "tensor_parallel_size=8,model=f/checkpoint,a=b,pipeline_parallel_size=2,"
        "distributed_executor_backend=ray"
    )
    assert expected in on_vllm.render_script()


def test_tokens_of_a_run_are_those_of_its_new_judgements(capsys):
    """The endpoint does not report the tokens of one of them."""
    chosen = plan(
        Path("f"), tasks=["egothink_object_existence", "egothink_reasoning_counting", "egointent"]
    )
    numbers = {
        "EgoThink existence": (1000, 20),
        "EgoThink counting": (500, 10),
        "EgoIntent": (None, None),
    }
    events = [
        {"kind": "judgement", "step": step, "model": "judge"}
        | {"prompt_tokens": prompt, "reply_tokens": reply}
        for step, (prompt, reply) in numbers.items()
    ]
    steps = used_steps(chosen, [*events, {"kind": "warning", "text": "x"}])
    assert [
        (step.title, step.requests, step.prompt_tokens, step.reply_tokens, step.model)
        for step in steps
    ] == [("EgoThink", 2, 1500, 30, "judge"), ("EgoIntent", 1, 0, 0, "judge")]
    print_steps(steps, LlmOptions())
    total = capsys.readouterr().out.splitlines()[-1]
    assert "3 requests, 1,500 prompt tokens, 30 reply tokens" in total
    assert "1 replies without counts" in total


def test_price_needs_every_judge(tmp_path, monkeypatch):
    prices = tmp_path / "prices.json"
    prices.write_text('{"first": {"input": 1, "output": 2}}')
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    chosen = plan(Path("f"), tasks=["egothink_object_existence", "egoplan_val"])
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "first")
    check_prices(chosen, LlmOptions(prices=read_prices(prices)))
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "second")
    check_prices(chosen, LlmOptions())
    with pytest.raises(LmmsEgoplanError, match=r"prices\.json.*second.*first"):
        check_prices(chosen, LlmOptions(prices=read_prices(prices)))
