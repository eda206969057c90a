"""Check everything that a run needs, before a model is loaded.

Each problem is one line with its remedy.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil

from lmms_egoplan.benchmarks.base import Judge
from lmms_egoplan.benchmarks.subset import designs_of
from lmms_egoplan.encoder import DEFAULT_ENCODER, check_files, encoder_name
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.arguments import argument_names, argument_problems
from lmms_egoplan.harnesses.requirements import require_vllm
from lmms_egoplan.harnesses.template_files import IN_LM_EVAL, IN_PLAIN_TEXT, NONE, ON_VLLM
from lmms_egoplan.judging.judge import PROBE, probe
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.launch.checkpoint import check_chat_template, check_checkpoint, weight_bytes
from lmms_egoplan.launch.harness_options import option_problems
from lmms_egoplan.launch.machine import gpu_memory, machine_problems
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.state import is_running, read_state
from lmms_egoplan.outputs import check_folder
from lmms_egoplan.secret_values import without_secrets
from lmms_egoplan.storage import load_summary

_GIB = 2**30
# Free space for samples, response cache and report: more per question than the demo's 60 kB, plus a
# reserve.
_BYTES_PER_QUESTION = 100_000
_RESERVE = 200_000_000
# Columns of prepared data with paths.
_MEDIA = ("media_path", "observation_path", "video_path")
_LISTED = 3
_TIMEOUT_S = 4


def find_problems(plan: Plan) -> list[str]:
    """Return all problems of a run, one line each, without loading a model.

    Only `check_checkpoint` and `_judge` use the network, the former only for a checkpoint that is
    not in a folder.
    """
    checks = (
        _tasks,
        _arguments,
        _checkpoint,
        machine_problems,
        _processes,
        _data,
        _encoder,
        _judge,
        _server,
        _disk,
        _out,
    )
    problems: list[str] = []
    with ThreadPoolExecutor(len(checks)) as pool:
        for lines in pool.map(partial(_lines, plan), checks):
            problems += lines
    return list(dict.fromkeys(problems))


def _lines(plan: Plan, check: Callable[[Plan], Iterator[str]]) -> list[str]:
    try:
        return [" ".join(line.split()) for line in check(plan)]
    except (LmmsEgoplanError, OSError) as error:
        return [" ".join(str(error).split())]


def _tasks(plan: Plan) -> Iterator[str]:
    if len(plan.tasks) == 1 and Path(plan.tasks[0]).is_dir():
        yield (
            f"{Path(plan.tasks[0]).absolute()}: {plan.harness} would read this folder instead of "
            "the task of the same name; start the run in another folder"
        )
    backend = plan.backend
    name = plan.backend_name
    on_server = "base_url" in plan.model_args
    ranked = [task for task, leaf in plan.leaves.items() if leaf.ranks]
    written = [task for task, leaf in plan.leaves.items() if not leaf.ranks]
    published = [task for task, leaf in plan.leaves.items() if leaf.scores_end_token]
    if ranked and backend.ranks is False:
        yield (
            f"--backend {name}: only writes answers, but {', '.join(ranked)} ranks choices; "
            "use hf_vlm, or tasks that end in _generate"
        )
    if published and not backend.is_ours:
        yield (
            f"--backend {name}: does not score the end of an answer, as "
            f"{', '.join(published)} must; use hf_vlm"
        )
    if written and on_server and backend.is_ours:
        yield (
            f"--backend {name}: with base_url it only ranks, but {', '.join(written)} needs "
            "answers; remove base_url"
        )
    if backend.needs_vllm and not on_server:
        require_vllm(name)


def _arguments(plan: Plan) -> Iterator[str]:
    backend = plan.backend
    arguments = plan.model_args
    yield from option_problems(plan.harness, plan.options, has_limit=plan.limit is not None)
    text = " ".join([*_assignments(arguments), *plan.options])
    if without_secrets(text) != text:
        yield (
            "--model-args or the harness's options contain a key; set it in the environment, "
            "such as OPENAI_API_KEY"
        )
        return
    if backend.model_parameter in arguments:
        yield f"--model-args {backend.model_parameter}: already set by MODEL; remove it"
    if "," in plan.model:
        yield f"{plan.model}: the harnesses split arguments at commas; make a symlink without one"
    if backend.arguments is not None:
        without_model = {
            name: value for name, value in arguments.items() if name != backend.model_parameter
        }
        for problem in argument_problems(backend.arguments, without_model):
            yield f"{plan.backend_name}: --model-args {problem}"


def argument_remarks(plan: Plan) -> Iterator[str]:
    """Yield a line for what only a class of another project can check, after it is imported."""
    backend = plan.backend
    if backend.arguments is not None:
        known = argument_names(backend.arguments)
        further = [name for name in plan.model_args if name not in known]
        if further:
            yield f"{backend.name}: unchecked, passed on as they are: {', '.join(further)}"
        return
    ranked = [task for task, leaf in plan.leaves.items() if leaf.ranks]
    yield f"{backend.name}: unchecked, as it is {plan.harness}'s own: all its arguments"
    if ranked and backend.ranks is None:
        yield f"{backend.name}: unchecked: whether it ranks choices, as {', '.join(ranked)} needs"


def _assignments(arguments: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in arguments.items()]


def _checkpoint(plan: Plan) -> Iterator[str]:
    """Check the checkpoint's files, its chat template, and the memory that it needs."""
    arguments = plan.model_args
    if not plan.backend.is_local or plan.backend_name == "scripted":
        return
    yield from check_checkpoint(plan.model, arguments, is_ours=plan.backend.is_ours)
    is_plain = arguments.get("chat_template") == NONE and not plan.backend.needs_vllm
    if plan.backend.is_ours and not is_plain:
        if plan.backend.needs_vllm:
            way_out = ON_VLLM
        elif plan.harness == "lmms-eval":
            way_out = IN_PLAIN_TEXT
        else:
            way_out = IN_LM_EVAL
        is_required = plan.harness == "lm-eval" or plan.backend.needs_vllm
        yield from check_chat_template(plan.model, arguments, way_out, is_required=is_required)
    yield from _memory(plan)


def _memory(plan: Plan) -> Iterator[str]:
    """Compare the weights with the free memory of the GPUs that share them, or of this machine.

    Skip runs that start elsewhere, and quantised weights.
    """
    arguments = plan.model_args
    if plan.script is not None:
        return
    for name in arguments:
        if name in ("base_url", "quantization") or "load_in" in name:
            return
    needed = weight_bytes(plan.model, arguments)
    on_cpu = arguments.get("device", "").startswith("cpu")
    gpus = [] if on_cpu else gpu_memory()
    is_split = (
        plan.launcher == "vllm" or "device_map" in arguments or "tensor_parallel_size" in arguments
    )
    if not gpus:
        free = psutil.virtual_memory().available // plan.processes
        memory = "the free memory per process is"
    elif is_split:
        offloaded = psutil.virtual_memory().available if "device_map" in arguments else 0
        free = sum(gpus) + offloaded
        memory = f"the free memory of {len(gpus)} GPUs is"
    else:
        free = max(gpus)
        memory = "the largest free memory of a GPU is"
    if needed > free:
        yield (
            f"{plan.model}: the weights need {needed / _GIB:.1f} GiB, but {memory} "
            f"{free / _GIB:.1f} GiB; use a smaller checkpoint, or several GPUs with --model-args "
            "device_map=auto"
        )


def _processes(plan: Plan) -> Iterator[str]:
    launcher = plan.launcher
    processes = plan.processes
    on_vllm = plan.backend.needs_vllm
    starts_here = plan.script is None
    gpus = len(gpu_memory()) if starts_here and launcher != "none" else 0
    if launcher == "none" and (processes > 1 or plan.nodes > 1):
        yield "--processes and --nodes need --launcher torchrun, accelerate, vllm or slurm"
    if launcher != "none" and on_vllm != (launcher == "vllm"):
        if on_vllm:
            remedy = "vLLM starts its own processes; use --launcher vllm"
        else:
            remedy = "needs a backend on vLLM"
        yield f"--launcher {launcher}: does not fit {plan.backend_name}: {remedy}"
    if gpus and processes > gpus:
        yield f"--processes {processes}: this machine has {gpus} GPUs; use at most {gpus}"
    if launcher == "accelerate" and starts_here and not gpus and processes > 1:
        yield "--launcher accelerate: starts only one process without GPUs; use --launcher torchrun"


def _data(plan: Plan) -> Iterator[str]:
    """Check that each split is prepared and complete, and that the files of its questions exist."""
    checked = {(task.benchmark.name, task.split): task.benchmark for task in plan.leaves.values()}
    for (_, split), benchmark in checked.items():
        try:
            rows = benchmark.splits.load(split)
            designs_of(benchmark.name, split, plan.subset)
        except LmmsEgoplanError as error:
            yield f"data: {error}"
            continue
        media: set[str] = set()
        for column in _MEDIA:
            if column in rows.column_names:
                media.update(rows.unique(column))
        # os.path is fast for many paths.
        missing = sorted(path for path in media if not os.path.exists(path))  # noqa: PTH110
        if missing:
            names = ", ".join(missing[:_LISTED])
            if len(missing) > _LISTED:
                names += ", ..."
            yield (
                f"data: {benchmark.title} {split}: {len(missing)} of {len(media)} videos are "
                f"missing: {names}; restore them, or prepare the split again"
            )


def coverage_remarks(plan: Plan) -> Iterator[str]:
    """Yield a line for each split with questions that are not prepared, or not asked."""
    splits = dict.fromkeys((task.benchmark.name, task.split) for task in plan.leaves.values())
    for benchmark, split in splits:
        designs = designs_of(benchmark, split, plan.subset)
        if designs:
            design = next(iter(designs.values()))
            yield (
                f"{benchmark}/{split}: {design['asked']:,} of {design['of']:,} questions; "
                f"interval: {design['width']:.1f} points, if 50 % are right"
            )
        summary = load_summary(benchmark, split) or {}
        if summary and summary["questions"] < summary["split_size"]:
            counts = f"{summary['questions']} of {summary['split_size']} questions"
            yield (
                f"{benchmark}/{split}: only {counts} are prepared; results do not cover the others"
            )


def _encoder(plan: Plan) -> Iterator[str]:
    if any(task.benchmark.load_scorers for task in plan.leaves.values()):
        check_files(encoder_name(DEFAULT_ENCODER))
    return iter(())


def _judge(plan: Plan) -> Iterator[str]:
    """Send one request to each judge."""
    titles: dict[Judge, str] = {}
    for task in plan.leaves.values():
        if task.judge is not None:
            titles[task.judge] = task.benchmark.title
    without: list[str] = []
    forms: list[tuple[JudgeSettings, Prompt]] = []
    for judge, title in titles.items():
        settings = judge_settings(judge.default_model)
        if settings is None:
            without.append(title)
        elif judge.probe_form is None:
            forms.append((settings, PROBE))
        else:
            forms.append(judge.probe_form(settings))
    if without:
        yield (
            f"judge: {', '.join(dict.fromkeys(without))} needs one; set "
            "LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY and "
            "LMMS_EGOPLAN_JUDGE_MODEL (docs/judges.md), or choose other --benchmarks"
        )
    for settings, form in dict.fromkeys(forms):
        probe(settings, form)


def _server(plan: Plan) -> Iterator[str]:
    """Send one request to the server of an API backend."""
    address = plan.model_args.get("base_url")
    if not address:
        return
    try:
        urlopen(f"{address.rstrip('/')}/models", timeout=_TIMEOUT_S).close()
    except HTTPError:
        return  # it answers
    except (OSError, ValueError) as error:
        yield (
            f"--model-args base_url={address}: does not answer: {error}; start the "
            "server, or correct the address"
        )


def _disk(plan: Plan) -> Iterator[str]:
    counts = (load_summary(task.benchmark.name, task.split) for task in plan.leaves.values())
    questions = sum(summary["questions"] for summary in counts if summary)
    needed = _RESERVE + _BYTES_PER_QUESTION * questions
    folder = _existing(plan.out)
    free = shutil.disk_usage(folder).free
    if free < needed:
        yield (
            f"--out {plan.out}: the run needs about {needed / _GIB:.1f} GiB, the volume of "
            f"{folder} has {free / _GIB:.1f} GiB free; free some space, or set another folder"
        )


def _out(plan: Plan) -> Iterator[str]:
    check_folder(plan.out, plan.owner)
    folder = _existing(plan.out)
    if not folder.is_dir():
        yield f"--out {plan.out}: {folder} is a file, not a folder; set another folder"
    elif not os.access(folder, os.W_OK):
        yield f"--out {plan.out}: {folder} is not writable; set another folder"
    state = read_state(plan.out)
    if state is None:
        return
    if state.process is not None and is_running(state):
        number = int(state.process[0])
        yield (
            f"--out {plan.out}: process {number} runs there; wait until it has finished, end it "
            f"with kill {number}, or set another folder"
        )
    differing = []
    for name, setting in plan.settings().items():
        earlier = state.settings.get(name)
        if earlier != setting:
            differing.append(f"{name}: {_text(earlier)}, now {_text(setting)}")
    if differing:
        yield (
            f"--out {plan.out}: contains a run with other settings ({'; '.join(differing)}); "
            "set another folder"
        )


def _text(setting: Any) -> str:
    """Format a setting for a message."""
    if isinstance(setting, dict):
        text = ",".join(_assignments(setting))
    elif isinstance(setting, list):
        text = " ".join(setting)
    else:
        text = str(setting or "")
    return text or "none"


def _existing(path: Path) -> Path:
    """Return the path or its nearest parent that exists."""
    absolute = path.absolute()
    return next(part for part in (absolute, *absolute.parents) if part.exists())
