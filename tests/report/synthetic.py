"""Runs as lmms-eval and lm-eval leave them on the disk, of models that never were: seeded answers, really scored.

    prepare_data(tmp_path, egoplan=60)                       # LMMS_EGOPLAN_DATA must name tmp_path
    write_run(out, "lmms-eval", "org/Model-7B", {"egoplan_val": egoplan_answers(60, 0.4, seed=1)})

Questions depend on their number alone: runs with the same number are over the same questions, which are also those
that `prepare_data` prepares with that number. Answers depend on the seed too.
"""

import inspect
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from datasets import Dataset

from benchmarks.actplan.release import instance_ids, plan, task_description, variant, write_release
from benchmarks.egointent.source import raw_record, write_annotations, write_videos
from benchmarks.egothink.source import raw_records, write_source
from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.actplan.activities import activity_type
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.actplan.reply import form_validity
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, PROMPT_VERSION
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.storage import save_split
from media.files import write_epic_folder, write_numbered_video

LETTERS = "ABCD"
EGOTHINK_TASKS = {f"egothink_{dimension.capability}_{dimension.name}": dimension for dimension in DIMENSIONS}
# (file with the metrics, filter) by the beginning of a task's name; the first that fits.
_KINDS = {
    "egoplan_val_generate": ("egoplan_replies", "none"),
    "egoplan": ("egoplan_ranking", "none"),
    "egothink": ("egothink", "judged"),
    "egointent": ("egointent", "judged"),
    "actplan": ("actplan", "scored"),
}
_LAST_FRAME = 48
# EgoIntent's versions, as its tasks log them.
_PROMPTS = {"prompt": PROMPT_VERSION, "judge_prompt": JUDGE_VERSION}
# What lm-eval's tasks put into a question beside the prepared row.
_ADDED = {
    "egoplan": {"shown": {"num_frames": 8}},
    "egothink": {"row": 0, "shown": {"prompts": "default"}},
    "egointent": {"shown": {"max_frames": 60}},
    "actplan": {"row": 0, "num_images": 2},
}


@dataclass(frozen=True)
class Answers:
    """Questions of a task, rows of the prepared data without images, and what `process_results` reads about each."""

    docs: list[dict[str, Any]]
    responses: list[list[str]]


def egoplan_docs(count):
    """Questions with 0 to 12 past actions; 3 of 4 in the domain, some 7 to a video."""
    chance = random.Random(count)
    verbs, things = ("take", "wash", "open", "put down", "pour", "cut"), ("cup", "lid", "knife", "box", "tap", "pan")
    docs = []
    for number in range(count):
        video, source = number // 7, "Ego4D" if number // 7 % 4 == 3 else "EpicKitchens"
        choices = [f"{verb} {chance.choice(things)}" for verb in chance.sample(verbs, 4)]
        gold, goal = chance.randrange(4), f"{chance.choice(verbs)} the {chance.choice(things)}"
        past = range(chance.randrange(13))
        docs.append(
            {
                "sample_id": number + 1,
                "video_source": source,
                "video_id": f"0a{video}-2c" if source == "Ego4D" else f"P{video % 32 + 1:02}_{video}",
                "task_goal": goal,
                "question": "Considering the progress shown in the video and my current observation in the last frame, "
                f"what action should I take next in order to {goal}?",
                "choices": choices,
                "golden_choice_idx": LETTERS[gold],
                "answer": choices[gold],
                "current_observation_frame": _LAST_FRAME,
                "past_actions": [
                    {
                        "narration_text": f"{chance.choice(verbs)} {chance.choice(things)}",
                        "start_frame": 1 + 3 * place,
                        "stop_frame": 3 + 3 * place,
                    }
                    for place in past
                ],
                "media_path": "/nowhere",
                "split_size": count,
            }
        )
    return docs


def egothink_docs(dimension, count):
    """Questions of one dimension, given by its name."""
    (found,) = (each for each in DIMENSIONS if each.name == dimension)
    return [
        {"id": f"{dimension}/{number}", "dimension": dimension} | {name: raw[name] for name in ("question", "answer")}
        for number, raw in enumerate(raw_records(found, count), 1)
    ]


def egointent_docs(count):
    """Steps of four videos in five scenarios, three of them indoors."""
    return [
        record
        | {"unverified": False, "video_path": f"/nowhere/{record['video_id']}.mp4", "num_frames": 3}
        | {"split_size": count}
        for record in _egointent_records(count)
    ]


def actplan_docs(count):
    """Instances of all settings and types; every tenth without gold plan 2."""
    chance, rows = random.Random(0), []
    for number, instance in enumerate(instance_ids(count)):
        steps = plan(chance, 3 + 7 * number % 58)
        second = [] if number % 10 == 9 else variant(chance, steps)
        rows.append((instance, steps, second))
    rows.sort(key=lambda row: row[0])
    settings = [instance.setting for instance, _, _ in rows]
    return [
        {
            "id": str(instance),
            "scene": instance.scene,
            "activity": instance.activity,
            "setting": instance.setting,
            "activity_type": activity_type(instance.activity),
            "task_description": task_description(instance),
            "gold_plan_1": first,
            "gold_plan_2": second,
            "split_size": count,
            "setting_size": settings.count(instance.setting),
        }
        for instance, first, second in rows
    ]


def prepare_data(folder: Path, egoplan=0, egothink=0, egointent=0, actplan=0) -> None:
    """Prepare so many questions (EgoThink: in each dimension) below `folder`, which ``LMMS_EGOPLAN_DATA`` must name.

    EgoPlan's questions all show the same 48 frames, each with its number (`media.read_number`).
    """
    if egoplan:
        media = {
            "EpicKitchens": write_epic_folder(folder / "media" / "frames", 1, _LAST_FRAME),
            "Ego4D": write_numbered_video(folder / "media" / "video.mp4", _LAST_FRAME + 1),
        }
        rows = [doc | {"media_path": str(media[doc["video_source"]])} for doc in egoplan_docs(egoplan)]
        counts = {"split_size": egoplan, "questions": egoplan}
        summary = {"prepared": "2026-01-01T00:00:00+00:00", "fingerprint": "0" * 64, "missing": [], **counts}
        save_split(Dataset.from_list(rows), "egoplan", "val", summary)
    if egothink:
        prepare_egothink(write_source(folder / "media" / "egothink", egothink))
    if egointent:
        records = _egointent_records(egointent)
        videos = write_videos(folder / "media" / "egointent", {record["video_id"] for record in records})
        prepare_egointent(write_annotations(folder / "media" / "steps.jsonl", records), videos)
    if actplan:
        prepare_actplan(write_release(folder / "media" / "actplan", actplan))


def _egointent_records(count):
    scenarios = ("Assemble Furniture", "Make Tea", "Fold Laundry", "Cut Trees", "Wash Car")
    return [
        raw_record(
            number % 6 + 1,
            step_id=f"step-{number}",
            video_id=f"video-{number // 3 % 4}",
            scenario=scenarios[number % 5],
            category=None,
            environment="indoor" if number % 5 < 3 else "outdoor",
        )
        for number in range(count)
    ]


def egoplan_answers(count, accuracy, seed=0, unscored=0.0):
    """Likelihoods of the choices, of which the mean prefers the right one this often; sum and bytes less often.

    unscored: share of the questions that the model could not score.
    """
    chance, docs, responses = random.Random(seed), egoplan_docs(count), []
    for doc in docs:
        gold = LETTERS.index(doc["golden_choice_idx"])
        best = gold if chance.random() < accuracy else (gold + chance.randrange(1, 4)) % 4
        losses = [chance.uniform(0.5, 1.5) if choice == best else chance.uniform(2, 4) for choice in range(4)]
        if chance.random() < unscored:
            losses[0] = float("nan")
        responses.append(
            [
                json.dumps({"loss": loss, "num_tokens": chance.randint(2, 5), "is_greedy": False})
                for loss, _ in zip(losses, doc["choices"], strict=True)
            ]
        )
    return Answers(docs, responses)


def egoplan_replies(count, accuracy, seed=0, unparsed=0.05):
    """Letters, right this often; `unparsed` is the share of replies without one."""
    chance, docs, responses = random.Random(seed), egoplan_docs(count), []
    for doc in docs:
        gold = LETTERS.index(doc["golden_choice_idx"])
        letter = LETTERS[gold if chance.random() < accuracy else (gold + chance.randrange(1, 4)) % 4]
        responses.append(["I cannot tell." if chance.random() < unparsed else f"{letter}."])
    return Answers(docs, responses)


def egothink_answers(dimension, count, mean, seed=0, judge="org/judge", unjudged=0.0, truncated=0.1):
    """Answers that a judge rates 0, 0.5 or 1, `mean` in the mean; shares that it leaves out or that are cut off."""
    chance, docs, responses = random.Random(f"{dimension} {seed}"), egothink_docs(dimension, count), []
    for doc in docs:
        rating = None if chance.random() < unjudged else 0.5 * sum(chance.random() < mean for _ in range(2))
        judgement, error = (None, "no reply") if rating is None else (f"Close. Rating: [[{rating}]]", None)
        answer, cut = f"an answer to {doc['id']}", chance.random() < truncated
        judged = JudgedAnswer(doc["id"], answer, cut, False, rating, judgement, judge, error)
        responses.append([judged.to_text()])
    return Answers(docs, responses)


def egothink_bench(count, mean, seed=0, **more):
    """All twelve tasks, for `write_run`."""
    return {
        task: egothink_answers(dimension.name, count, mean, seed, **more) for task, dimension in EGOTHINK_TASKS.items()
    }


def egointent_answers(count, mean, seed=0, judge="org/judge", missing=0.05, unjudged=0.0, truncated=0.1):
    """Fields rated around `mean` of 100; shares of fields that are missing or not judged, and of cut-off replies."""
    chance, docs, responses = random.Random(seed), egointent_docs(count), []
    for doc in docs:
        found = [field for field in FIELDS if chance.random() >= missing]
        rated = {field for field in found if chance.random() >= unjudged}
        levels = {field: float(min(100, max(0, round(chance.gauss(mean, 20))))) for field in FIELDS}
        step = GradedStep(
            step_id=doc["step_id"],
            fields={field: f"{doc[field]}, as predicted" for field in found},
            ratings={field: levels[field] if field in rated else None if field in found else 0.0 for field in FIELDS},
            judgements={field: f"{levels[field]:.0f}" if field in rated else None for field in FIELDS},
            judges={field: judge if field in rated else None for field in FIELDS},
            errors={field: "no reply" if field in found and field not in rated else None for field in FIELDS},
            suspect=[],
            truncated=chance.random() < truncated,
            frames_shown=doc["num_frames"],
            frames_sampled=doc["num_frames"],
        )
        responses.append([step.to_text()])
    return Answers(docs, responses)


def actplan_answers(count, skill, seed=0, bleurt=None, truncated=0.1):
    """Gold plan 1 with each step kept as often as `skill` says, else left out or told in words.

    bleurt: how often a classifier calls a plan correct; None without one.
    """
    chance, docs, responses = random.Random(seed), actplan_docs(count), []
    for doc in docs:
        kept = ((step, chance.random() < skill, chance.random() < 0.5) for step in doc["gold_plan_1"])
        steps = [step if keep else "have a look around" for step, keep, drop in kept if keep or not drop]
        golds = (doc["gold_plan_1"], doc["gold_plan_2"])
        lengths = [_lcs(steps, gold) if gold else None for gold in golds]
        score = PlanScore(
            id=doc["id"],
            official=steps,
            parsed=steps,
            reference_lengths=[len(gold) or None for gold in golds],
            lcs_each=lengths,
            lcs_parsed_each=lengths,
            form_validity=float(form_validity(steps)) if steps else None,
            truncated=chance.random() < truncated,
            bleurt=None if bleurt is None else chance.random() < bleurt,
            bleurt_probability=None if bleurt is None else 0.5,
            bleurt_truncated=None if bleurt is None else False,
            encoder="all-MiniLM-L6-v2",
            classifier=None if bleurt is None else "classifier",
        )
        responses.append([score.to_text()])
    return Answers(docs, responses)


def _lcs(first, second):
    above = [0] * (len(second) + 1)
    for step in first:
        row = [0]
        for place, other in enumerate(second):
            row.append(above[place] + 1 if step == other else max(above[place + 1], row[-1]))
        above = row
    return above[-1]


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
    """Of a run that starts and ends in one second, on a machine whose clock is UTC."""
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
        "metadata": {"version": _version(task)} | (_PROMPTS if task.startswith("egointent") else {}),
    }


def _version(task):
    """Of the tasks, by benchmark."""
    if task in ("egoplan_val_clips", "egoplan_bench"):
        return 1.1
    return 1.0 if task.startswith("egoplan") else 1.1 if task.startswith("actplan") else 1.2


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
