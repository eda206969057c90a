"""Compute how this project's tasks deviate from the published pipelines.

Run it with `python docs/deviations.py`.

The table replaces the lines between the marks in comparing.md. The published side comes from the
slow references in the tests, which test_pipelines.py compares with the pipelines' own code; that of
the presets from presets.yaml, which the tests compare with such references. The questions are the
official annotation files in ../shared/data/egoplan. If they are absent, questions in the same
format are made from the annotations of EPIC-KITCHENS-100 and Ego4D Goal-Step that are there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from benchmarks.egoplan import published_reference as published  # noqa: E402
from benchmarks.egoplan.bench2_questions import LEAD  # noqa: E402
from benchmarks.egoplan.derived_questions import DATA, available, derive  # noqa: E402
from lmms_egoplan.benchmarks.egoplan import prompts, visuals  # noqa: E402
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, Preset, load_presets, prompt_of  # noqa: E402
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS  # noqa: E402
from lmms_egoplan.benchmarks.egoplan.reply import parse_letter  # noqa: E402
from lmms_egoplan.benchmarks.splits import EGOPLAN  # noqa: E402
from lmms_egoplan.task_files import (  # noqa: E402
    read_task_file,
    scores_end_token,
    task_paths,
)

PAGE = ROOT / "docs" / "comparing.md"
BEGIN, END = "<!-- deviations: python docs/deviations.py -->\n", "<!-- end of deviations -->\n"
DERIVED = 420
CORPUS = ROOT / "tests" / "benchmarks" / "egoplan" / "replies.yaml"

Record = dict[str, Any]


def official(name: str) -> list[Record] | None:
    """Return the records of an official annotation file; None if it is absent."""
    path = DATA / "egoplan" / name
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, list) else next(iter(content.values()))


def questions() -> tuple[list[Record], list[Record], str]:
    """Return questions of EgoPlan-Bench and of EgoPlan-Bench2, and their origin."""
    first, second = official(EGOPLAN.files["val"]), official("EgoPlan-Bench2.json")
    origin = "the official annotation files"
    if first is None or second is None:
        derived = derive(DERIVED)
        origin = (
            "questions made from annotations of EPIC-KITCHENS-100 and Ego4D Goal-Step, and "
            "the published examples"
        )
        examples = json.loads((DATA / "egoplan" / "examples.json").read_text(encoding="utf-8"))
        first = first or [*derived, *examples["EgoPlan_validation"]]
        ego4d = [record for record in derived if record["video_source"] == "Ego4D"]
        second = second or [*map(as_bench2, ego4d), *examples["EgoPlan_Bench2"]]
    return (
        first,
        [{"video_source": "Ego4D", "video_id": "v", **record} for record in second],
        origin,
    )


def as_bench2(record: Record) -> Record:
    """Return a record with the start of its task, up to three frames before its first action."""
    actions = record["task_progress_metadata"]
    first = actions[0]["start_frame"] if actions else record["current_observation_frame"]
    return record | {"task_start_frame": max(0, first - LEAD)}


def doc_of(record: Record) -> Record:
    """Return a record as a row of the prepared data."""
    return record | {
        "question": record.get("question") or prompts.QUESTION.format(goal=record["task_goal"]),
        "choices": [record[f"choice_{letter}"] for letter in "abcd"],
        "past_actions": record["task_progress_metadata"],
        "first_frame": record.get("task_start_frame"),
    }


def frames(task: str, record: Record) -> list[int]:
    """Return the frames that a task of this project shows to models that take images."""
    numbers: list[int] = []

    class Reader(visuals.FrameReader):
        def read_frames(self, _doc: Any, requested: Any) -> list[Any]:
            numbers.extend(requested)
            return list(requested)

    Reader("egoplan").visual_input(
        doc_of(record), task_file(task)["lmms_eval_specific_kwargs"]["default"]
    )
    return numbers


def task_file(task: str) -> dict[str, Any]:
    """Return a task's YAML."""
    return read_task_file(task_paths("lmms-eval")[task])


def text(task: str, record: Record) -> str:
    """Return a task's prompt."""
    return (
        prompts.bench2_published_prompt(doc_of(record))
        if "generate" in task
        else doc_of(record)["question"]
    )


def differing_prompts(task: str, records: list[Record], reference: Any) -> str:
    """Return the share of the questions whose prompt is not the published one."""
    return share(sum(text(task, record) != reference(record) for record in records), len(records))


def without_end(task: str, records: list[Record]) -> str:
    """Return the share of the choices that a task scores without the token that ends the answer."""
    is_closed = scores_end_token(task_file(task))
    return share(0 if is_closed else 4 * len(records), 4 * len(records))


def differing(task: str, records: list[Record], reference: Any) -> str:
    """Return the share of the published frames that a task does not show in the same place."""
    total = different = 0
    for record in records:
        expected, actual = reference(record), frames(task, record)
        total += len(expected)
        different += sum(
            index >= len(actual) or actual[index] != frame for index, frame in enumerate(expected)
        )
    return share(different, total)


def share(count: int, total: int) -> str:
    """Return a count with its share, as text."""
    return f"{count:,} of {total:,} ({100 * count / total:.1f} %)"


def clip_frames(record: Record) -> list[int]:
    """Return the published frames of the clips, and the observation."""
    return [
        *(frame for clip in published.clips(record) for frame in clip),
        record["current_observation_frame"],
    ]


def actions_of(record: Record) -> list[Record]:
    """Return the past actions of a record."""
    return record["task_progress_metadata"]


def after_observation(records: list[Record]) -> str:
    """Return the share of the questions that show a frame after the observation, if known."""
    ends = [
        (x["stop_frame"], record["current_observation_frame"])
        for record in records
        for x in actions_of(record)
    ]
    if not any(stop > observation for stop, observation in ends):
        return "not known: these questions have no action that ends after the observation"
    return share(sum(map(published.runs_past, records)), len(records))


def letters() -> str:
    """Return the share of the tests' replies that this project's reader reads differently."""
    corpus = yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    replies = [*corpus["claims"], *corpus["unclear"]]
    return share(
        sum((parse_letter(reply) or "") != published.bench2_letter(reply) for reply in replies),
        len(replies),
    )


def preset_frames(preset: Preset, record: Record) -> list[int]:
    """Return the numbers of all images that a preset shows; none for a video file."""
    numbers: list[int] = []

    class Reader(visuals.FrameReader):
        def read_frames(self, _doc: Any, requested: Any) -> list[Any]:
            numbers.extend(requested)
            return list(requested)

        def _progress_video(self, _doc: Any, _progress: Any) -> str:
            return ""

    settings = {name: value for name, value in preset.visual_settings.items() if name != "size"}
    Reader(preset.benchmark).visual_input(doc_of(record), settings)
    return numbers


def preset_column(
    preset: Preset, task: str, records: list[Record], replies: list[str]
) -> tuple[str, ...]:
    """Return the column of a preset, compared with a default task."""
    total = different = prompts = 0
    for record in records:
        expected, actual = preset_frames(preset, record), frames(task, record)
        total += len(expected)
        different += sum(
            index >= len(actual) or actual[index] != frame for index, frame in enumerate(expected)
        )
        prompts += prompt_of(preset, doc_of(record)) != text(task, record)
    letters = "-" if preset.parser == LIKELIHOOD else "not stated"
    if "parser" not in preset.unknown and preset.parser != LIKELIHOOD:
        read = READERS[preset.parser]
        letters = share(
            sum((read(reply) or "") != (parse_letter(reply) or "") for reply in replies),
            len(replies),
        )
    return (
        f"`{preset.benchmark}__{preset.name}`",
        f"{len(records):,}",
        "not stated"
        if "media" in preset.unknown
        else "a file"
        if not total
        else share(different, total),
        "not stated" if "prompt" in preset.unknown else share(prompts, len(records)),
        letters,
        ", ".join(preset.open_fields) or "none",
    )


def preset_table(task: str, records: list[Record]) -> str:
    """Return the table of a benchmark's presets, one column each."""
    corpus = yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    replies = [*corpus["claims"], *corpus["unclear"]]
    benchmark = "egoplan" if task == "egoplan_val" else task
    presets = load_presets(benchmark)
    columns = [preset_column(preset, task, records, replies) for preset in presets.values()]
    labels = (
        *(
            "task",
            "questions",
            f"frames that differ from `{task}`",
            f"prompts that differ from `{task}`",
        ),
        "replies of the tests that `acc_clear` reads differently",
        "unknown fields",
    )
    rows = [("", *(f"`{name}`" for name in presets)), ("---",) * (len(columns) + 1)]
    rows += [(label, *(column[row] for column in columns)) for row, label in enumerate(labels)]
    return "\n".join([f"| {' | '.join(row)} |" for row in rows])


def table() -> str:
    """Return the table with one column per published pipeline.

    Also return the sentence that says what was compared.
    """
    first, second, origin = questions()
    names = ("egoplan_val", "egoplan_val_clips", "egoplan_bench2")
    new = ("egoplan_val_published", "egoplan_val_clips_published", "egoplan_bench2_generate")
    rows = [
        ("", "EgoPlan-Bench, one video", "EgoPlan-Bench, clips", "EgoPlan-Bench2"),
        ("---",) * 4,
        ("our default task", *(f"`{name}`" for name in names)),
        ("our task as published", *(f"`{name}`" for name in new)),
        ("questions", *(f"{len(records):,}" for records in (first, first, second))),
    ]
    for label, tasks in (("default task", names), ("as published", new)):
        single, clips, bench2 = tasks
        rows += [
            (
                f"frames that differ, {label}",
                differing(single, first, published.single_video),
                differing(clips, first, clip_frames),
                differing(bench2, second, published.bench2_frames),
            ),
            (
                f"choices scored without their end, {label}",
                *(without_end(task, first) for task in (single, clips)),
                without_end(bench2, second) if label == "default task" else "letters",
            ),
            (
                f"prompts that differ, {label}",
                differing_prompts(single, first, lambda record: record["question"]),
                f"{differing_prompts(clips, first, lambda record: record['question'])}; from the "
                f"tuned model's: {differing_prompts(clips, first, published.tuned_question)}",
                differing_prompts(bench2, second, published.bench2_prompt),
            ),
        ]
    rows += [
        (
            "questions that show a frame after the observation, as published",
            "none",
            after_observation(first),
            "none",
        ),
        (
            "questions on which the authors' code fails",
            share(sum(map(published.video_fails, first)), len(first)),
            share(sum(map(published.authors_fail, first)), len(first)),
            "none",
        ),
        (
            "replies of the tests in which `acc_clear` reads another letter than `acc`",
            "-",
            "-",
            letters(),
        ),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    presets = ["Presets of EgoPlan-Bench:", preset_table("egoplan_val", first)]
    presets += ["Presets of EgoPlan-Bench2:", preset_table("egoplan_bench2", second)]
    return "\n".join([f"Computed from {origin}.", "", *lines, "", "\n\n".join(presets), ""])


def page() -> str:
    """Return the page with the computed table."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{head}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if not available():
        sys.exit(f"the annotations are absent: {DATA}")
    PAGE.write_text(page(), encoding="utf-8")
