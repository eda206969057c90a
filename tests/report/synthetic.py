"""Synthetic runs in the files of lmms-eval and lm-eval: random answers with real scores.

    prepare_data(tmp_path, egoplan=60)                       # LMMS_EGOPLAN_DATA must name tmp_path
    write_run(out, "lmms-eval", "org/Model-7B", {"egoplan_val": egoplan_answers(60, 0.4, seed=1)})

Questions depend only on their count: runs with the same count have the same questions, and
`prepare_data` prepares these questions for this count. Answers also depend on the seed.
"""

import inspect
import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import fmean

import yaml

from benchmarks.egothink.synthetic import EGOTHINK_TASKS
from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.prompts import PROMPT_VERSION
from lmms_egoplan.benchmarks.egoplan.published_scores import score_preset
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.task_files import package_versions
from report.answers import Answers

# By the beginning of a task's name: the file with its metrics, and its filter. The first match
# counts.
_KINDS = {
    "egoplan_val_generate": ("egoplan_replies", "none"),
    "egoplan_val_reasoned": ("egoplan_reasoned", "none"),
    "egoplan_val_clips_published": ("egoplan_published_ranking", "none"),
    "egoplan__": ("egoplan_presets", "none"),
    "egoplan": ("egoplan_ranking", "none"),
    "egothink": ("egothink", "judged"),
    "egointent": ("egointent", "judged"),
    "actplan": ("actplan", "scored"),
}
# EgoIntent's versions of prompts, as its tasks log them.
_PROMPTS = {"prompt": PROMPT_VERSION, "judge_prompt": JUDGE_VERSION}
# Fields that lm-eval's tasks add to the prepared row of a question.
_ADDED = {
    "egoplan": {"shown": {"num_frames": 8}},
    "egothink": {"row": 0, "shown": {"prompts": "default"}},
    "egointent": {"shown": {"max_frames": 60}},
    "actplan": {"row": 0, "num_images": 2},
}


def write_run(
    folder: Path,
    harness: str,
    model: str,
    tasks: Mapping[str, Answers],
    time: str | None = None,
    log_samples: bool = True,
) -> Path:
    """Write a run with ``--output_path folder``, and return the path of its results file.

    Args:
        harness: ``"lmms-eval"`` or ``"lm-eval"``. lm-eval does not know whether an answer is
            truncated.
        model: name of the model, such as ``org/Model-7B``.
        tasks: answers by task, from `egoplan_answers` and similar functions.
        time: time in the harness's form. Default: ``20260101_120000`` or
            ``2026-01-01T12-00-00.000001``.
        log_samples: false to write no samples.
    """
    is_lmms = harness == "lmms-eval"
    time = time or ("20260101_120000" if is_lmms else "2026-01-01T12-00-00.000001")
    model_folder = folder / re.sub(r"[\"<>:/|\\?*\[\]]+", "__", model)
    model_folder.mkdir(parents=True, exist_ok=True)
    records = {task: _scored(task, answers, is_lmms) for task, answers in tasks.items()}
    entries = {task: _entry(task, scored, is_lmms) for task, scored in records.items()}
    groups = _egothink_groups(entries)
    content = {
        "results": groups | entries,
        "details": {task: _details(task, scored) for task, scored in records.items()},
        "groups": groups,
        "group_subtasks": {task: [] for task in tasks},
        "configs": {task: _config(task, is_lmms) for task in tasks},
        "versions": {task: _version(task) for task in tasks},
        "n-shot": dict.fromkeys(tasks, 0),
        "n-samples": {
            task: {"original": len(answers.docs), "effective": len(answers.docs)}
            for task, answers in tasks.items()
        },
        "config": {
            "model": "hf_vlm" if is_lmms else "hf-vlm-ranker",
            "model_args": f"pretrained={model}" if is_lmms else {"pretrained": model},
            "limit": None,
        },
        "git_hash": None,
        "date": time if is_lmms else _seconds(time),
        "lmms_eval_version" if is_lmms else "lm_eval_version": "0.7.3" if is_lmms else "0.4.13",
        "model_source": "hf_vlm" if is_lmms else "hf-vlm-ranker",
        "model_name": model,
        "model_name_sanitized": model_folder.name,
        "total_evaluation_time_seconds": "10.662052783001855",
    }
    path = model_folder / (f"{time}_results.json" if is_lmms else f"results_{time}.json")
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
    for task, answers in tasks.items() if log_samples else ():
        log = model_folder / (
            f"{time}_samples_{task}.jsonl" if is_lmms else f"samples_{task}_{time}.jsonl"
        )
        with log.open("w", encoding="utf-8") as lines:
            for number, values in enumerate(records[task]):
                line = (_lmms_eval_line if is_lmms else _lm_eval_line)(
                    task, answers, number, values
                )
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def _seconds(time):
    """Return the start time of a run that takes one second, on a machine in UTC."""
    return (
        datetime.strptime(time[:19], "%Y-%m-%dT%H-%M-%S").replace(tzinfo=timezone.utc).timestamp()
    )


def _scored(task, answers, is_lmms):
    score = _scorer(task)
    responses = (
        answers.responses
        if is_lmms
        else [[*map(_without_truncation, texts)] for texts in answers.responses]
    )
    return [score(doc, response) for doc, response in zip(answers.docs, responses, strict=True)]


def _scorer(task):
    """Return the function that scores a task's questions."""
    benchmark, _, preset = task.partition("__")
    if not preset:
        return _shared(task)["process_results"]

    def score(doc, replies):
        return score_preset(benchmark, preset, doc, replies)

    return score


def _without_truncation(response):
    return re.sub(r'"truncated": (true|false)', '"truncated": null', response, count=1)


def _entry(task, records, is_lmms):
    """Return a task's entry in the results, with metrics aggregated as in the harness."""
    name = _kind(task)[1]
    entry = {"alias": task} | ({} if is_lmms else {"name": task, "sample_len": len(records)})
    for metric in _shared(task)["metric_list"]:
        if metric["metric"] == "details":
            continue
        if values := [record[metric["metric"]] for record in records if metric["metric"] in record]:
            entry[f"{metric['metric']},{name}"] = metric["aggregation"](values)
            for kind in (
                ("_stderr", "_stderr_clt", "_stderr_clustered") if is_lmms else ("_stderr",)
            ):
                entry[f"{metric['metric']}{kind},{name}"] = "N/A"
    return entry


def _details(task, records):
    """Return a task's aggregated details, which are not in the harness's table."""
    (aggregation,) = (
        metric["aggregation"]
        for metric in _shared(task)["metric_list"]
        if metric["metric"] == "details"
    )
    return aggregation([record["details"] for record in records])


def _egothink_groups(entries):
    groups = {}
    for capability in ("", *dict.fromkeys(dimension.capability for dimension in DIMENSIONS)):
        members = [task for task in EGOTHINK_TASKS if task.startswith(f"egothink_{capability}")]
        if all(task in entries for task in members):
            name = f"egothink_bench_{capability}".rstrip("_")
            means = {
                f"{metric},judged": fmean(entries[task][f"{metric},judged"] for task in members)
                for metric in ("score", "judge_coverage")
            }
            groups[name] = means | {
                "score_stderr,judged": "N/A",
                "judge_coverage_stderr,judged": "N/A",
                "alias": name,
            }
    return groups


def _config(task, is_lmms):
    shared, (_, name) = _shared(task), _kind(task)
    source_of = (
        (lambda function: f"<function {function.__name__} at 0x7f256c22f060>")
        if is_lmms
        else inspect.getsource
    )
    return {
        "task": task,
        "test_split": "val",
        "process_results": source_of(_scorer(task)),
        "metric_list": [
            metric | {"aggregation": source_of(metric["aggregation"])}
            for metric in shared["metric_list"]
        ],
        "output_type": "generate_until"
        if name != "none" or "generate" in task or "reasoned" in task or "__" in task
        else "multiple_choice",
        "repeats": 1,
        "metadata": {"version": _version(task), **shared["metadata"]}
        | _shortcut(task)
        | _preset(task)
        | (_PROMPTS if task.startswith("egointent") else {}),
    }


def _shortcut(task):
    """Return the condition that a task's name ends with, and its own task, as metadata."""
    for name in SHORTCUTS:
        if task.endswith(f"_{name}"):
            return {"shortcut": name, "condition_of": task.removesuffix(f"_{name}")}
    if task.endswith("_narrated"):
        return {"instead_of_video": "narrations"}
    return {}


def _preset(task):
    """Return the preset that a task's name ends with, as its metadata have it."""
    _, _, preset = task.partition("__")
    return {"preset": preset} if preset else {}


@cache
def _version(task):
    """Return the package's version of the task.

    For other names, return that of the benchmark's first task.
    """
    versions = package_versions()
    bases = (name for name in sorted(versions, reverse=True) if task.startswith(name))
    return float(
        versions[
            next(bases, next(name for name in versions if name.split("_")[0] == task.split("_")[0]))
        ]
    )


def _lmms_eval_line(task, answers, number, values):
    response, doc = answers.responses[number], answers.docs[number]
    return {
        "doc_id": number,
        "target": _target(doc),
        "filtered_resps": response[0] if len(response) == 1 else response,
        "token_counts": [{"input_tokens": 90, "output_tokens": 30}] * len(response),
        "doc_hash": sha256(str(number).encode()).hexdigest(),
        **values,
        "input": doc.get("question", "The prompt."),
    }


def _lm_eval_line(task, answers, number, values):
    response, doc = answers.responses[number], answers.docs[number]
    benchmark = task.partition("_")[0]
    added = {"data": "0" * 64, "version": f"{_version(task)}, {__version__}"} | _ADDED[benchmark]
    added |= {"row": number} if "row" in added else {}
    prompt = "USER: " + "<image>\n" * 8 + doc.get("question", "The prompt.") + " ASSISTANT:"
    continuations = (
        doc["choices"]
        if len(response) > 1
        else [{"until": [], "max_gen_toks": 30, "do_sample": False}]
    )
    return {
        "doc_id": number,
        "doc": doc | added,
        "target": _target(doc),
        "arguments": {
            f"gen_args_{index}": {
                "arg_0": prompt,
                "arg_1": text,
                "arg_2": {"visual": f"{benchmark} {number}"},
            }
            for index, text in enumerate(continuations)
        },
        "resps": [[text] for text in response],
        "filtered_resps": [*map(_without_truncation, response)],
        "filter": _kind(task)[1],
        "metrics": list(values),
        **{
            f"{kind}_hash": sha256(f"{kind} {number}".encode()).hexdigest()
            for kind in ("doc", "prompt", "target")
        },
        **values,
        "record": {"tokens": 90, "images": 8},
    }


def _target(doc):
    names = ("golden_choice_idx", "answer", "step_id", "id")
    return next(doc[name] for name in names if name in doc)


def _kind(task):
    return next(kind for beginning, kind in _KINDS.items() if task.startswith(beginning))


def _shared(task):
    return _read_shared(_kind(task)[0])


@cache
def _load(path):
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _read_shared(name):
    """Read a shared file as the harnesses do, with functions instead of their names."""

    class Loader(yaml.SafeLoader):
        pass

    folder = LM_EVAL_TASKS.parent / "shared"

    def function(_, node):
        module, _, attribute = node.value.rpartition(".")
        path = folder / f"{module}.py"
        # A preset's own file has the function that scores it.
        return getattr(_load(path) if path.exists() else import_module(module), attribute, None)

    Loader.add_constructor("!function", function)
    path = folder / f"{name}.yaml"
    return yaml.load(path.read_text(encoding="utf-8"), Loader)
