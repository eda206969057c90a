"""Runs as lmms-eval and lm-eval leave them on the disk, of models that never were: seeded answers, really scored.

    prepare_data(tmp_path, egoplan=60)                       # LMMS_EGOPLAN_DATA must name tmp_path
    write_run(out, "lmms-eval", "org/Model-7B", {"egoplan_val": egoplan_answers(60, 0.4, seed=1)})

Questions depend on their number alone: runs with the same number are over the same questions, which are also those
that `prepare_data` prepares with that number. Answers depend on the seed too.
"""

import inspect
import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from statistics import fmean

import yaml

from benchmarks.egothink.synthetic import EGOTHINK_TASKS
from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.protocol import PROMPT_VERSION
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.report.run import package_versions
from report.answers import Answers

# (file with the metrics, filter) by the beginning of a task's name; the first that fits.
_KINDS = {
    "egoplan_val_generate": ("egoplan_replies", "none"),
    "egoplan": ("egoplan_ranking", "none"),
    "egothink": ("egothink", "judged"),
    "egointent": ("egointent", "judged"),
    "actplan": ("actplan", "scored"),
}
# EgoIntent's versions, as its tasks log them.
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
    """Write what the harness leaves with ``--output_path folder``; returns the results file.

    Args:
        harness: ``"lmms-eval"`` or ``"lm-eval"``, which does not know whether an answer is truncated.
        model: as given to the harness, ``org/Model-7B``.
        tasks: by name, of any that the project has for `egoplan_answers` and the like.
        time: in the harness's form, ``20260101_120000`` or ``2026-01-01T12-00-00.000001``; that, if None.
    """
    ours = harness == "lmms-eval"
    time = time or ("20260101_120000" if ours else "2026-01-01T12-00-00.000001")
    place = folder / re.sub(r"[\"<>:/|\\?*\[\]]+", "__", model)
    place.mkdir(parents=True, exist_ok=True)
    records = {task: _scored(task, answers, ours) for task, answers in tasks.items()}
    entries = {task: _entry(task, scored, ours) for task, scored in records.items()}
    groups = _egothink_groups(entries)
    content = {
        "results": groups | entries,
        "groups": groups,
        "group_subtasks": {task: [] for task in tasks},
        "configs": {task: _config(task, ours) for task in tasks},
        "versions": {task: _version(task) for task in tasks},
        "n-shot": dict.fromkeys(tasks, 0),
        "n-samples": {
            task: {"original": len(answers.docs), "effective": len(answers.docs)} for task, answers in tasks.items()
        },
        "config": {
            "model": "hf_vlm" if ours else "hf-vlm-ranker",
            "model_args": f"pretrained={model}" if ours else {"pretrained": model},
            "limit": None,
        },
        "git_hash": None,
        "date": time if ours else _seconds(time),
        "lmms_eval_version" if ours else "lm_eval_version": "0.7.3" if ours else "0.4.13",
        "model_source": "hf_vlm" if ours else "hf-vlm-ranker",
        "model_name": model,
        "model_name_sanitized": place.name,
        "total_evaluation_time_seconds": "10.662052783001855",
    }
    path = place / (f"{time}_results.json" if ours else f"results_{time}.json")
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
    for task, answers in tasks.items() if log_samples else ():
        log = place / (f"{time}_samples_{task}.jsonl" if ours else f"samples_{task}_{time}.jsonl")
        with log.open("w", encoding="utf-8") as lines:
            for number, values in enumerate(records[task]):
                line = (_lmms_eval_line if ours else _lm_eval_line)(task, answers, number, values)
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def _seconds(time):
    """Return the start time of a run that takes one second, on a machine in UTC."""
    return datetime.strptime(time[:19], "%Y-%m-%dT%H-%M-%S").replace(tzinfo=timezone.utc).timestamp()


def _scored(task, answers, ours):
    score = _shared(task)["process_results"]
    responses = answers.responses if ours else [[*map(_without_truncation, each)] for each in answers.responses]
    return [score(doc, response) for doc, response in zip(answers.docs, responses, strict=True)]


def _without_truncation(response):
    return re.sub(r'"truncated": (true|false)', '"truncated": null', response, count=1)


def _entry(task, records, ours):
    """A task's entry in the results, as the harness sums up."""
    name = _kind(task)[1]
    entry = {"alias": task} | ({} if ours else {"name": task, "sample_len": len(records)})
    for metric in _shared(task)["metric_list"]:
        if values := [each[metric["metric"]] for each in records if metric["metric"] in each]:
            entry[f"{metric['metric']},{name}"] = metric["aggregation"](values)
            for kind in ("_stderr", "_stderr_clt", "_stderr_clustered") if ours else ("_stderr",):
                entry[f"{metric['metric']}{kind},{name}"] = "N/A"
    return entry


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
            groups[name] = means | {"score_stderr,judged": "N/A", "judge_coverage_stderr,judged": "N/A", "alias": name}
    return groups


def _config(task, ours):
    shared, (_, name) = _shared(task), _kind(task)
    told = (lambda function: f"<function {function.__name__} at 0x7f256c22f060>") if ours else inspect.getsource
    return {
        "task": task,
        "test_split": "val",
        "process_results": told(shared["process_results"]),
        "metric_list": [each | {"aggregation": told(each["aggregation"])} for each in shared["metric_list"]],
        "output_type": "generate_until" if name != "none" or "generate" in task else "multiple_choice",
        "repeats": 1,
        "metadata": {"version": _version(task), **shared["metadata"]}
        | (_PROMPTS if task.startswith("egointent") else {}),
    }


def _version(task):
    """The package's version of the task, or of the first of its benchmark if its name is not the package's."""
    versions = package_versions()
    known = (name for name in sorted(versions, reverse=True) if task.startswith(name))
    return float(versions[next(known, next(name for name in versions if name.split("_")[0] == task.split("_")[0]))])


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
    asked = doc["choices"] if len(response) > 1 else [{"until": [], "max_gen_toks": 30, "do_sample": False}]
    return {
        "doc_id": number,
        "doc": doc | added,
        "target": _target(doc),
        "arguments": {
            f"gen_args_{place}": {"arg_0": prompt, "arg_1": each, "arg_2": {"visual": f"{benchmark} {number}"}}
            for place, each in enumerate(asked)
        },
        "resps": [[each] for each in response],
        "filtered_resps": [*map(_without_truncation, response)],
        "filter": _kind(task)[1],
        "metrics": list(values),
        **{f"{what}_hash": sha256(f"{what} {number}".encode()).hexdigest() for what in ("doc", "prompt", "target")},
        **values,
    }


def _target(doc):
    names = ("golden_choice_idx", "answer", "step_id", "id")
    return next(doc[name] for name in names if name in doc)


def _kind(task):
    return next(kind for beginning, kind in _KINDS.items() if task.startswith(beginning))


def _shared(task):
    return _read_shared(_kind(task)[0])


@cache
def _read_shared(name):
    """The task's metrics as the harnesses read them, functions for their names."""

    class Loader(yaml.SafeLoader):
        pass

    def function(_, node):
        module, _, attribute = node.value.rpartition(".")
        return getattr(import_module(module), attribute)

    Loader.add_constructor("!function", function)
    path = LM_EVAL_TASKS.parent / "shared" / f"{name}.yaml"
    return yaml.load(path.read_text(encoding="utf-8"), Loader)
