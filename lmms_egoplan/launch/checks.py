"""Check everything that a run needs, before a model is loaded. Each problem is one line with its remedy."""

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil

from lmms_egoplan.encoder import DEFAULT_ENCODER, check_files, encoder_name
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.requirements import require_vllm, unknown_arguments
from lmms_egoplan.judging.judge import probe
from lmms_egoplan.judging.settings import judge_settings
from lmms_egoplan.launch.checkpoint import check_checkpoint, weight_bytes
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.state import is_running, read_state
from lmms_egoplan.outputs import check_folder
from lmms_egoplan.report.run import without_secrets
from lmms_egoplan.storage import load_summary

_GIB = 2**30
# Free space for samples, response cache and report: more per question than the demo's 60 kB, plus a reserve.
_BYTES_PER_QUESTION, _RESERVE = 100_000, 200_000_000
_DTYPES = ("auto", "bfloat16", "float16", "float32")
# Columns of prepared data with paths.
_MEDIA = ("media_path", "video_path")
_LISTED = 3
_TIMEOUT_S = 4


def find_problems(plan: Plan) -> list[str]:
    """Return all problems of a run, one line each, without loading a model.

    Only `check_checkpoint` and `_judge` use the network, the former only for a checkpoint that is not in a folder.
    """
    checks: list[Callable[[Plan], Iterator[str]]] = [
        *(_tasks, _arguments, _checkpoint, _memory, _processes, _data, _encoder, _judge, _server, _disk, _out),
    ]
    with ThreadPoolExecutor(len(checks)) as pool:
        found = list(pool.map(partial(_lines, plan), checks))
    return list(dict.fromkeys(line for lines in found for line in lines))


def _lines(plan: Plan, check: Callable[[Plan], Iterator[str]]) -> list[str]:
    try:
        return [" ".join(line.split()) for line in check(plan)]
    except (LmmsEgoplanError, OSError) as error:
        return [" ".join(str(error).split())]


def _tasks(plan: Plan) -> Iterator[str]:
    if len(plan.tasks) == 1 and Path(plan.tasks[0]).is_dir():
        yield (
            f"{Path(plan.tasks[0]).absolute()}: {plan.harness} would read this folder instead of the task of the same "
            "name; start the run in another folder"
        )
    ranked = [name for name, task in plan.leaves.items() if task.ranks]
    written = [name for name, task in plan.leaves.items() if not task.ranks]
    if ranked and not plan.backend.ranks:
        generated = "; egoplan_val_generate and egoplan_bench2_generate ask for letters instead"
        yield f"--backend {plan.backend_name}: only writes answers, but {', '.join(ranked)} ranks choices{generated}"
    if written and plan.backend.ranks and plan.backend.needs_vllm and "base_url" in plan.model_args:
        yield f"--backend {plan.backend_name}: with base_url it only ranks, but not {', '.join(written)}"
    if plan.backend.needs_vllm and "base_url" not in plan.model_args:
        require_vllm(plan.backend_name)


def _arguments(plan: Plan) -> Iterator[str]:
    backend, arguments = plan.backend, plan.model_args
    text = ",".join(f"{name}={value}" for name, value in arguments.items())
    if without_secrets(text) != text:
        yield "--model-args: contains a key; set keys in the environment, such as OPENAI_API_KEY"
        return
    if backend.model_parameter in arguments:
        yield f"--model-args {backend.model_parameter}: already set by MODEL; remove it"
    if "," in plan.model:
        yield f"{plan.model}: the harnesses split arguments at commas; make a symlink without one"
    unknown = unknown_arguments(arguments, backend.parameters, is_open=backend.is_open)
    yield from (f"{plan.backend_name}: --model-args has no argument {name}; {hint}" for name, hint in unknown)
    dtype = arguments.get("dtype", "auto")
    if "dtype" in backend.parameters and dtype not in _DTYPES:
        yield f"--model-args dtype={dtype}: must be one of {', '.join(_DTYPES)}"
    if "peft" in arguments and not Path(arguments["peft"], "adapter_config.json").expanduser().is_file():
        yield f"--model-args peft={arguments['peft']}: no adapter (adapter_config.json) in this folder"


def _checkpoint(plan: Plan) -> Iterator[str]:
    if plan.backend_name == "scripted":
        return iter(())
    return check_checkpoint(plan.model, plan.model_args) if plan.backend.is_local else iter(())


def _memory(plan: Plan) -> Iterator[str]:
    """Compare the size of the weights with the memory of the GPUs that share them, or of this machine."""
    if not plan.loads_checkpoint or plan.script is not None:
        return
    needed = weight_bytes(plan.model, plan.model_args.get("dtype", "auto"))
    if not needed:
        return
    gpus = gpu_memory()
    on_cpu = not gpus or plan.model_args.get("device", "").startswith("cpu")
    is_split = plan.launcher == "vllm" or "device_map" in plan.model_args or "tensor_parallel_size" in plan.model_args
    if on_cpu:
        free, where = psutil.virtual_memory().available, "this machine's free memory"
        needed *= plan.processes if plan.launcher in ("torchrun", "accelerate") else 1
    else:
        free, where = (
            (sum(gpus), f"the free memory of {len(gpus)} GPUs") if is_split else (max(gpus), "a GPU's free memory")
        )
    if needed > free:
        remedy = (
            "use a smaller checkpoint" if on_cpu or is_split else "use --model-args device_map=auto or a smaller one"
        )
        yield f"{plan.model}: the weights need {needed / _GIB:.1f} GiB, {where} is {free / _GIB:.1f} GiB; {remedy}"


def _processes(plan: Plan) -> Iterator[str]:
    if plan.launcher == "none" and (plan.processes > 1 or plan.nodes > 1):
        yield "--processes and --nodes need --launcher torchrun, accelerate, vllm or slurm"
    if plan.launcher == "vllm" and not plan.backend.needs_vllm:
        yield f"--launcher vllm: needs a backend on vLLM, not {plan.backend_name}"
    if plan.launcher in ("torchrun", "accelerate") and plan.processes > 1 and plan.backend.needs_vllm:
        yield f"--launcher {plan.launcher}: vLLM starts its own processes; use --launcher vllm"
    gpus = gpu_memory() if plan.script is None else []
    if gpus and plan.launcher != "none" and plan.processes > len(gpus):
        yield f"--processes {plan.processes}: this machine has {len(gpus)} GPUs"
    if plan.launcher == "accelerate" and plan.script is None and not gpus and plan.processes > 1:
        yield "--launcher accelerate: starts only one process without GPUs; use --launcher torchrun"
    if plan.launcher == "slurm" and plan.backend.needs_vllm:
        yield "--launcher slurm: starts one process per GPU, but vLLM starts its own; use --launcher vllm"


def _data(plan: Plan) -> Iterator[str]:
    """Check that each split is prepared and complete, and that the files of its questions exist."""
    checked = {(task.benchmark.name, task.split): task.benchmark for task in plan.leaves.values()}
    for (_, split), benchmark in checked.items():
        try:
            rows = benchmark.load_splits().load(split)
        except (LmmsEgoplanError, OSError, ValueError) as error:
            how = "" if isinstance(error, LmmsEgoplanError) else "; damaged, prepare the split again"
            yield f"data: {error}{how}"
            continue
        media = {path for column in _MEDIA if column in rows.column_names for path in rows.unique(column)}
        missing = sorted(path for path in media if not os.path.exists(path))  # noqa: PTH110 - fast for many paths
        if missing:
            names = f"{', '.join(missing[:_LISTED])}{', ...' if len(missing) > _LISTED else ''}"
            yield (
                f"data: {benchmark.title} {split}: {len(missing)} of {len(media)} videos are missing: {names}; restore "
                "them, or prepare the split again"
            )


def coverage_remarks(plan: Plan) -> list[str]:
    """Return a line for each split that was prepared without some of its questions."""
    remarks = []
    for benchmark, split in dict.fromkeys((task.benchmark.name, task.split) for task in plan.leaves.values()):
        summary = load_summary(benchmark, split)
        if summary and summary["questions"] < summary["split_size"]:
            counts = f"{summary['questions']} of {summary['split_size']} questions"
            remarks.append(
                f"{benchmark}/{split} is incomplete: {counts} are prepared, so results do not cover the rest"
            )
    return remarks


def _encoder(plan: Plan) -> Iterator[str]:
    if any(task.benchmark.scorers for task in plan.leaves.values()):
        check_files(encoder_name(DEFAULT_ENCODER))
    return iter(())


def _judge(plan: Plan) -> Iterator[str]:
    """Send one request to each judge."""
    judges = {default: judge_settings(default) for default in _judged_tasks(plan)}
    if without := [title for default, titles in _judged_tasks(plan).items() if not judges[default] for title in titles]:
        yield (
            f"judge: {', '.join(without)} needs one; set LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY and "
            "LMMS_EGOPLAN_JUDGE_MODEL (docs/judges.md), or choose other --benchmarks"
        )
    for settings in dict.fromkeys(filter(None, judges.values())):
        probe(settings)


def _judged_tasks(plan: Plan) -> dict[str, list[str]]:
    """Return the judged benchmarks by default judge."""
    judges: dict[str, dict[str, None]] = {}
    for task in plan.leaves.values():
        for judge in task.judges:
            judges.setdefault(judge.DEFAULT_JUDGE, {})[task.benchmark.title] = None
    return {default: [*titles] for default, titles in judges.items()}


def _server(plan: Plan) -> Iterator[str]:
    """Send one request to the server of an API backend."""
    if address := plan.model_args.get("base_url"):
        try:
            urlopen(f"{address.rstrip('/')}/models", timeout=_TIMEOUT_S).close()
        except HTTPError:
            return  # it answers
        except (OSError, ValueError) as error:
            yield f"--model-args base_url={address}: does not answer: {error}; start the server, or correct the address"


def _disk(plan: Plan) -> Iterator[str]:
    counts = (load_summary(task.benchmark.name, task.split) for task in plan.leaves.values())
    questions = sum(summary["questions"] for summary in counts if summary)
    needed = _RESERVE + _BYTES_PER_QUESTION * questions
    folder = _existing(plan.out)
    free = shutil.disk_usage(folder).free
    if free < needed:
        yield (
            f"--out {plan.out}: the run needs about {needed / _GIB:.1f} GiB, the volume of {folder} has "
            f"{free / _GIB:.1f} GiB free; free some space, or set another folder"
        )


def _out(plan: Plan) -> Iterator[str]:
    check_folder(plan.out, "run")
    folder = _existing(plan.out)
    if not folder.is_dir():
        yield f"--out {plan.out}: {folder} is a file, not a folder; set another folder"
    elif not os.access(folder, os.W_OK):
        yield f"--out {plan.out}: {folder} is not writable; set another folder"
    state = read_state(plan.out)
    if state is None:
        return
    if is_running(state):
        yield f"--out {plan.out}: another process runs there; wait until it has finished, or set another folder"
    settings = plan.settings()
    differing = [name for name in settings if state.settings.get(name) != settings[name]]
    if differing:
        values = "; ".join(
            f"{name}: {_text(state.settings.get(name))}, now {_text(settings[name])}" for name in differing
        )
        yield f"--out {plan.out}: contains a run with other settings ({values}); set another folder"


def _text(setting: Any) -> str:
    if isinstance(setting, dict):
        setting = ",".join(f"{name}={value}" for name, value in setting.items())
    return (" ".join(setting) if isinstance(setting, list) else str(setting or "")) or "none"


def _existing(path: Path) -> Path:
    """Return the path or its nearest parent that exists."""
    return next(part for part in (path.absolute(), *path.absolute().parents) if part.exists())


def gpu_memory() -> list[int]:
    """Return the free memory of each visible GPU in bytes, as ``nvidia-smi`` reports it; [] without one."""
    query = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        output = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
        rows = [[cell.strip() for cell in row] for row in csv.reader(output.splitlines())]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        chosen = None if visible is None else [name for name in re.split(r"\s*,\s*", visible.strip()) if name]
        return [
            int(free) * 2**20
            for index, uuid, free in rows
            if chosen is None or index in chosen or any(uuid.startswith(name) for name in chosen)
        ]
    return []
