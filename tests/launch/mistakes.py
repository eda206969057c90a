"""Natural mistakes of somebody who types ``lmms-egoplan run`` for the first time."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.cli import app
from lmms_egoplan.demo.sets import copy_set
from markers import write_marker

# A line of `StatusLine` while everything is checked.
STATUS = re.compile(r"\[\d+:\d\d:\d\d\] Checking")
CHECKPOINT, DATA, ENCODER = "checkpoint", "data", "encoder"


@dataclass(frozen=True)
class Mistake:
    """A mistake.

    name: what is wrong.
    arguments: the command's arguments after ``run``.
    facts: texts that the message must contain.
    environment: additional variables.
    make: function that changes a copy of the folder.
    """

    name: str
    arguments: tuple[str, ...]
    facts: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    make: Callable[[Path], Any] = lambda folder: None


def prepare_folder(folder: Path) -> None:
    """Write a tiny checkpoint, an encoder, and the demo's EgoPlan, EgoThink and ActPlan sets,
    prepared.
    """
    from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder  # imports torch

    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder / CHECKPOINT)
    write_encoder(folder / ENCODER)
    for name in ("egoplan", "egothink", "actplan"):
        copy_set(DEMO_SETS[name], folder)
        prepare(folder, name)


def prepare(folder: Path, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for variable, value in environment_of(folder).items():
            patch.setenv(variable, value)
        result = CliRunner().invoke(app, ["data", "prepare", *DEMO_SETS[name].prepare])
    assert result.exit_code == 0, result.output


def copy_folder(folder: Path, copy: Path) -> None:
    """Copy a prepared folder.

    Folders of media that no mistake changes are linked, because they have many files.
    """
    media = [folder / name for name in ("egoplan/epic-kitchens", "egothink", "actplan-annotation")]
    shutil.copytree(
        folder,
        copy,
        ignore=lambda path, names: [name for name in names if Path(path, name) in media],
    )
    for path in media:
        (copy / path.relative_to(folder)).symlink_to(path)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a command in the folder: no judge, and no network."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LMMS_EGOPLAN", "OPENAI"))
    }
    settings = {
        "LMMS_EGOPLAN_DATA": str(folder / DATA),
        "LMMS_EGOPLAN_ENCODER": str(folder / ENCODER),
    }
    return environment | settings | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def change_config(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / CHECKPOINT / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def lose_videos(folder: Path) -> None:
    prepare(folder, "egoplan")
    shutil.rmtree(folder / "egoplan" / "ego4d")


def cut_weights(folder: Path) -> None:
    path = folder / CHECKPOINT / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def keep_pointer(folder: Path) -> None:
    (folder / CHECKPOINT / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )


def lose_shard(folder: Path) -> None:
    index = {
        "metadata": {},
        "weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"},
    }
    (folder / CHECKPOINT / "model.safetensors.index.json").write_text(json.dumps(index))


def add_token(folder: Path) -> None:
    path = folder / CHECKPOINT / "tokenizer.json"
    content = json.loads(path.read_text())
    content["added_tokens"].append(content["added_tokens"][0] | {"id": 99999, "content": "<new>"})
    path.write_text(json.dumps(content))


def problem_lines(output: str) -> list[str]:
    """Return the lines of an output, without those that say what a slow command does."""
    return [line for line in output.splitlines() if not STATUS.fullmatch(line)]


def save_adapter(folder: Path) -> None:
    (folder / "tuned").mkdir()
    (folder / "tuned" / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')


def write_own_files(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("x")


def write_other_run(folder: Path) -> None:
    (folder / "runs").mkdir()
    state = {
        "settings": {
            **{"model": CHECKPOINT, "backend_name": "hf_vlm", "model_args": {"dtype": "float32"}},
            **{"harness": "lmms-eval", "limit": None, "options": []},
        },
        **{
            "totals": {},
            "command": "",
            "started": 0.0,
            "streams": True,
            "host": "",
            "process": None,
        },
    }
    (folder / "runs" / "run.json").write_text(json.dumps(state))
    write_marker(folder / "runs", "run", ["run.json"])


def write_template(text: str) -> Callable[[Path], None]:
    """Replace the checkpoint's chat template."""

    def write(folder: Path) -> None:
        (folder / CHECKPOINT / "chat_template.jinja").write_text(text)

    return write


EGOPLAN = (CHECKPOINT, "--benchmarks", "egoplan")
EGOTHINK = (CHECKPOINT, "--benchmarks", "egothink")
ACTPLAN = (CHECKPOINT, "--benchmarks", "actplan")
NO_JUDGE = {
    "LMMS_EGOPLAN_JUDGE_BASE_URL": "http://127.0.0.1:9/v1",
    "LMMS_EGOPLAN_JUDGE_MODEL": "judge",
}

MISTAKES = [
    Mistake(
        "folder misspelt", ("chekpoint", *EGOPLAN[1:]), ("chekpoint", "did you mean checkpoint?")
    ),
    Mistake(
        "benchmark misspelt",
        (CHECKPOINT, "--benchmarks", "egoplna"),
        ("egoplna", "did you mean egoplan"),
    ),
    Mistake(
        "split not prepared",
        (CHECKPOINT, "--benchmarks", "egoplan_bench2"),
        ("data prepare egoplan_bench2 hub",),
    ),
    Mistake(
        "videos moved",
        EGOPLAN,
        ("EgoPlan val", "videos are missing", "/ego4d/"),
        make=lose_videos,
    ),
    Mistake(
        "dataset damaged",
        EGOPLAN,
        ("data: ", "damaged"),
        make=lambda folder: [
            path.write_bytes(b"") for path in folder.glob(f"{DATA}/egoplan/val/val/*.arrow")
        ],
    ),
    Mistake(
        "compact run without videos",
        (*EGOTHINK, "--questions", "9"),
        ("egothink", "no compact runs", "egoplan"),
        {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"},
    ),
    Mistake(
        "two sizes",
        (*EGOPLAN, "--questions", "9", "--target-width", "2"),
        ("--target-width", "only one"),
    ),
    Mistake("no judge", EGOTHINK, ("EgoThink", "LMMS_EGOPLAN_JUDGE_BASE_URL")),
    Mistake("judge does not run", EGOTHINK, ("judge at http://127.0.0.1:9/v1",), NO_JUDGE),
    Mistake(
        "judge without a protocol",
        EGOTHINK,
        ("LMMS_EGOPLAN_JUDGE_BASE_URL", "http://127.0.0.1:8000/v1"),
        {"LMMS_EGOPLAN_JUDGE_BASE_URL": "localhost:8000"},
    ),
    Mistake(
        "no encoder",
        ACTPLAN,
        ("encoder /nowhere", "hf download"),
        {"LMMS_EGOPLAN_ENCODER": "/nowhere"},
    ),
    Mistake(
        "encoder is a model",
        ACTPLAN,
        (CHECKPOINT, "modules.json"),
        {"LMMS_EGOPLAN_ENCODER": CHECKPOINT},
    ),
    Mistake(
        "argument misspelt",
        (*EGOPLAN, "--model-args", "dtyp=float32"),
        ("dtyp", "did you mean dtype?"),
    ),
    Mistake("type misspelt", (*EGOPLAN, "--model-args", "dtype=bf16"), ("dtype=bf16", "bfloat16")),
    Mistake(
        "pixels as a product",
        (*EGOPLAN, "--model-args", "max_pixels=768*28*28"),
        ("max_pixels=768*28*28", "whole number of pixels"),
    ),
    Mistake(
        "argument without value",
        (*EGOPLAN, "--model-args", "bfloat16"),
        ("--model-args bfloat16", "name=value"),
    ),
    Mistake(
        "key in the arguments",
        (*EGOPLAN, "--model-args", "token=hf_abcdefghijklmnop"),
        ("key", "environment"),
    ),
    Mistake(
        "key in the options",
        (*EGOPLAN, "--", "--wandb_args", "api_key=0123456789abcdef"),
        ("key", "environment"),
    ),
    Mistake(
        "backend misspelt", (*EGOPLAN, "--backend", "hf_vml"), ("hf_vml", "did you mean hf_vlm")
    ),
    Mistake(
        "backend only writes",
        (CHECKPOINT, "--benchmarks", "egoplan_val", "--backend", "qwen2_5_vl"),
        ("egoplan_val ", "ranks"),
    ),
    Mistake(
        "vLLM not installed",
        (*EGOPLAN, "--backend", "vllm_ranker"),
        ("vllm_ranker", "lmms-egoplan[vllm]"),
    ),
    Mistake(
        "no server",
        (
            "gpt",
            "--benchmarks",
            "egoplan_val_generate",
            "--backend",
            "async_openai",
            "--model-args",
            "base_url=http://127.0.0.1:9/v1",
        ),
        ("http://127.0.0.1:9/v1", "server"),
        {"OPENAI_API_KEY": "none"},
    ),
    Mistake(
        "no key",
        ("gpt-4o", "--benchmarks", "egoplan_val_generate", "--backend", "async_openai"),
        ("async_openai", "OPENAI_API_KEY"),
    ),
    Mistake(
        "no GPU",
        (*EGOPLAN, "--model-args", "device=cuda"),
        ("device=cuda", "no visible GPU", "device=cpu"),
        {"CUDA_VISIBLE_DEVICES": ""},
    ),
    Mistake(
        "attention misspelt",
        (*EGOPLAN, "--model-args", "attn_implementation=flash_attn_2"),
        ("attn_implementation=flash_attn_2", "flash_attention_2"),
    ),
    Mistake(
        "attention not installed",
        (*EGOPLAN, "--model-args", "attn_implementation=flash_attention_2"),
        ("attn_implementation=flash_attention_2", "sdpa", "pip install flash-attn"),
    ),
    Mistake(
        "number of frames is a word",
        (*EGOPLAN, "--model-args", "max_frames_num=abc"),
        ("max_frames_num=abc", "whole number"),
    ),
    Mistake("no workers", (*EGOPLAN, "--model-args", "workers=0"), ("workers=0", "at least 1")),
    Mistake(
        "path for ranking misspelt",
        (*EGOPLAN, "--model-args", "ranking_path=fast"),
        ("ranking_path=fast", "packed"),
    ),
    Mistake(
        "tokenizer of a larger model",
        EGOPLAN,
        ("tokenizer.json", "id 99999", "rows", "copy the tokenizer"),
        make=add_token,
    ),
    Mistake(
        "cache is read-only",
        EGOPLAN,
        ("/proc/cache", "HF_DATASETS_CACHE"),
        {"HF_DATASETS_CACHE": "/proc/cache"},
    ),
    Mistake(
        "benchmarks with spaces",
        (*EGOPLAN, "actplan"),
        ("actplan: ", "--benchmarks egoplan,actplan"),
    ),
    Mistake(
        "option of the harness misspelt",
        (*EGOPLAN, "--", "--bach_size", "4"),
        ("--bach_size", "lmms-eval", "did you mean --batch_size?"),
    ),
    Mistake(
        "value of an option of the harness",
        (*EGOPLAN, "--", "--num_fewshot", "few"),
        ("--num_fewshot", "few"),
    ),
    Mistake(
        "option of the harness twice",
        (*EGOPLAN, "--", "--batch_size", "4", "--batch_size", "8"),
        ("--batch_size", "twice"),
    ),
    Mistake(
        "own option twice", (*EGOPLAN, "--limit", "3", "--limit=5"), ("--limit", "given twice")
    ),
    Mistake(
        "limit on both sides",
        (*EGOPLAN, "--limit", "3", "--", "--limit", "5"),
        ("--limit", "before and after --"),
    ),
    Mistake(
        "option of the harness that the run sets",
        (*EGOPLAN, "--", "--tasks", "mme"),
        ("--tasks", "--benchmarks"),
    ),
    Mistake(
        "option of the harness before --",
        (*EGOPLAN, "--batch_size", "4"),
        ("--batch_size", "put it after --"),
    ),
    Mistake(
        "option of lm-eval misspelt",
        (*EGOPLAN, "--harness", "lm-eval", "--", "--gen_kwarg=a=1", "--devise", "cpu"),
        ("--devise", "did you mean --device?"),
    ),
    Mistake(
        "text-only checkpoint",
        EGOPLAN,
        ("type llama", "images"),
        make=change_config(model_type="llama"),
    ),
    Mistake("weights cut off", EGOPLAN, ("model.safetensors", "incomplete"), make=cut_weights),
    Mistake(
        "weights are a pointer", EGOPLAN, ("model.safetensors", "git lfs pull"), make=keep_pointer
    ),
    Mistake("shard missing", EGOPLAN, ("model-00002-of-00002.safetensors",), make=lose_shard),
    Mistake(
        "no processor",
        EGOPLAN,
        ("processor_config.json",),
        make=lambda folder: (folder / CHECKPOINT / "processor_config.json").unlink(),
    ),
    Mistake(
        "no chat template",
        EGOPLAN,
        (CHECKPOINT, "chat_template.jinja", "chat_template=none"),
        make=lambda folder: (folder / CHECKPOINT / "chat_template.jinja").unlink(),
    ),
    Mistake(
        "chat template of a text model",
        EGOPLAN,
        (CHECKPOINT, "chat_template.jinja", "chat_template=none", "image"),
        make=write_template(
            "{% for m in messages %}{{ m['role'] }}: {{ m['content'][0]['text'] }}{% endfor %}"
        ),
    ),
    Mistake(
        "chat template misnamed",
        (*EGOPLAN, "--model-args", "chat_template=no"),
        ("chat_template=no", "none"),
    ),
    Mistake(
        "adapter instead of checkpoint",
        ("tuned", *EGOPLAN[1:]),
        ("run org/base --model-args peft=tuned",),
        make=save_adapter,
    ),
    Mistake(
        "adapter missing",
        (*EGOPLAN, "--model-args", "peft=tunned"),
        ("peft=tunned", "adapter_config.json"),
    ),
    Mistake(
        "output folder taken",
        (*EGOPLAN, "--out", "mine"),
        ("--out mine", "other files"),
        make=write_own_files,
    ),
    Mistake(
        "other settings",
        (*EGOPLAN, "--out", "runs"),
        ("--out runs", "(model_args: dtype=float32, now none)"),
        make=write_other_run,
    ),
    Mistake(
        "folder named like a task",
        (CHECKPOINT, "--benchmarks", "egoplan_val"),
        ("/egoplan_val: ", "start the run in another folder"),
        make=lambda folder: (folder / "egoplan_val").mkdir(),
    ),
    Mistake(
        "preset misspelt",
        (CHECKPOINT, "--protocol", "offical"),
        ("--protocol offical", "use one of official,", "lmms-eval-0.7.3"),
    ),
    Mistake(
        "preset of another benchmark",
        (CHECKPOINT, "--benchmarks", "actplan", "--protocol", "official"),
        ("--benchmarks actplan", "--protocol official", "no preset"),
    ),
    Mistake(
        "task with a preset",
        (CHECKPOINT, "--benchmarks", "egothink,egoplan_val", "--protocol", "official"),
        ("--benchmarks egoplan_val", "--protocol official", "no benchmark"),
    ),
    Mistake(
        "other preset",
        (*EGOTHINK, "--protocol", "official", "--model-args", "dtype=float32", "--out", "runs"),
        ("--out runs", "(protocol: none, now official)"),
        {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"},
        make=write_other_run,
    ),
    Mistake("launcher forgotten", (*EGOPLAN, "--processes", "2"), ("--processes", "--launcher")),
    Mistake("prices misspelt", (*EGOPLAN, "--prices", "price.json"), ("price.json",)),
]
