"""Runs of EgoIntent as lmms-eval leaves them on the disk."""

import json

from lmms_egoplan.benchmarks.egointent.answer_files import LoggedRun, LoggedStep, logged_group, prompt_versions
from lmms_egoplan.benchmarks.egointent.metrics import score_step
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.report.task_versions import logged_version

TIME = "20260101_120000"
METADATA = {"version": 1.0, "prompt": "1", "judge_prompt": "1"}


def graded_step(step_id, ratings, judge="qwen", found=FIELDS):
    """A step with these ratings of local intent, global intent and next-step plan."""
    rated = dict(zip(FIELDS, ratings, strict=True))
    judges = {field: judge if field in found and rated[field] is not None else None for field in FIELDS}
    errors = {field: "no reply" if rated[field] is None else None for field in FIELDS}
    nothing = dict.fromkeys(FIELDS)
    return GradedStep(
        step_id=step_id,
        fields=dict.fromkeys(found, "text"),
        ratings=rated,
        judgements=nothing,
        judges=judges,
        errors=errors,
        suspect=[],
        truncated=False,
        frames_shown=6,
        frames_sampled=6,
    )


def sample(step, scenario="make tea", unverified=False, category=None, video_id="v1"):
    """The logged line of a step; with a category, of a Goal-Step step."""
    doc = {
        "step_id": step.step_id,
        "video_id": video_id,
        "scenario": None if category else scenario,
        "category": category,
        "environment": "indoor",
        "unverified": unverified,
        "split_size": 10,
    }
    return {"doc_id": 0, "target": step.step_id, **score_step(doc, [step.to_text()])}


def write_run(folder, samples, model="org/Model-7B", time=TIME, metadata=METADATA, together=False):
    """The samples and the results of a run; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(line) + "\n" for line in samples)
    (folder / f"{time}_samples_egointent.jsonl").write_text(lines, encoding="utf-8")
    filters = [{"name": "judged", "filter": [{"function": "<class 'utils.Judged'>", "together": together}]}]
    results = {
        "model_name": model,
        "config": {"model": "hf_vlm", "model_args": f"pretrained={model}"},
        "configs": {"egointent": {"metadata": metadata, "filter_list": filters}},
    }
    (folder / f"{time}_results.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def scenario_run(folder, scores, model, judge="qwen"):
    """A run of which each scenario's only step has one rating in all fields."""
    lines = [
        sample(graded_step(f"{scenario}-1", [float(score)] * 3, judge), scenario) for scenario, score in scores.items()
    ]
    return write_run(folder, lines, model)


def read_runs(folders):
    """The runs below some folders, named after their models."""
    return [_read_run(path) for folder in folders for path in sorted(folder.rglob("*_samples_egointent.jsonl"))]


def _read_run(path):
    results = json.loads(path.with_name(path.name.replace("samples_egointent.jsonl", "results.json")).read_text())
    steps = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        logged = json.loads(line)
        record, unverified = logged["overall"], logged.get("unverified") == {"unverified": True}
        name, is_goalstep = logged_group(record, unverified)
        fields = {field: record[field] for field in GradedStep.__dataclass_fields__ if field in record}
        graded = GradedStep.from_text(json.dumps(fields))
        steps[graded.step_id] = LoggedStep(graded, record[name], unverified, is_goalstep)
    versions = prompt_versions(results["configs"]["egointent"])
    return LoggedRun(results["model_name"].rpartition("/")[2], steps, logged_version(results, "egointent"), *versions)
