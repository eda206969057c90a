"""Build EgoPlan's questions and EgoPlan-IT's samples from narrations."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lmms_egoplan.benchmarks.egoplan.footage.sources import read_video_info
from lmms_egoplan.construction.ego4d import UNSURE
from lmms_egoplan.construction.egoplan.goals import identify_goals, pool_goals, read_goals
from lmms_egoplan.construction.egoplan.narrations import (
    Video,
    narration_rows,
    read_ego4d,
    read_epic_kitchens,
)
from lmms_egoplan.construction.egoplan.phrases import to_phrases
from lmms_egoplan.construction.egoplan.questions import (
    DONE_BEFORE,
    NEAR_END,
    Question,
    evaluation_records,
    instruction_records,
    make_questions,
    recognition_records,
    without_clip,
)
from lmms_egoplan.construction.egoplan.statistics import KINDS, accuracies, built_statistics, counts
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.printing import finish_estimate
from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
from lmms_egoplan.judging.usage import LlmUsage
from lmms_egoplan.outputs import results_of
from lmms_egoplan.rejections import Rejection, counted, none_left
from lmms_egoplan.report.egoplan.statistics import statistics_files
from lmms_egoplan.text import clean_text, csv_text
from lmms_egoplan.volumes import with_path_in_error

Source = Literal["epic-kitchens", "ego4d"]

EVALUATION = "EgoPlan_validation.json"
INSTRUCTION = "EgoPlan_IT.json"
RECOGNITION = "EgoPlan_IT_action_recognition.json"
NARRATIONS = "narrations.csv"
GOALS = "goals.json"
REJECTIONS = "rejections.jsonl"
SUMMARY = "summary.json"
FILES = (NARRATIONS, GOALS, REJECTIONS, SUMMARY, EVALUATION)
"""The files that every build writes, except its statistics."""


@dataclass(frozen=True)
class Built:
    """The result of a build.

    Attributes:
        videos: The narrated videos.
        goals: Goals by video id, in Figure 10's form, unchecked.
        questions: The questions.
        has_instruction_data: Whether EgoPlan-IT and action-recognition samples are written, too.
        rejections: Everything that could not be used.
        summary: Counts, and accuracies without the video; if balanced, also those of the same
            goals' questions that are not balanced.
    """

    videos: Sequence[Video]
    goals: dict[str, Any]
    questions: Sequence[Question]
    has_instruction_data: bool
    rejections: Sequence[Rejection]
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Narrations:
    """A file of narrations.

    Attributes:
        path: EPIC-KITCHENS-100's CSV or Ego4D's ``narration.json``.
        source: Layout of the file.
        mean_gap: Mean gap between Ego4D's narrations, see `segments`.
        epic_video_info: EPIC-KITCHENS-100's list of videos, which the narrations must match.
    """

    path: Path
    source: Source
    mean_gap: float | None = None
    epic_video_info: Path | None = None


def build(
    narrations: Narrations,
    goals: Path | None = None,
    *,
    instruction_data: bool = False,
    seed: int = 0,
    drop: Sequence[str] = (),
    is_balanced: bool = False,
    usage: LlmUsage,
) -> Built:
    """Build questions from narrated videos.

    A language model provides the goals, unless `goals` is given, and the verb-object phrases for
    Ego4D; see `complete_all`. Its replies are stored in the cache of judgements.

    Args:
        goals: See `read_goals`.
        instruction_data: Also write EgoPlan-IT and action-recognition samples.
        seed: Random seed for wrong choices and the order of choices.
        drop: Kinds to drop, from `KINDS`.
        is_balanced: If True, no wrong choice was done before, see `make_questions`.
        usage: Options and counts of requests to the language model.

    Raises:
        LmmsEgoplanError: A kind is unknown, a file is invalid, or no question can be built. The
            language model is not set or fails.
    """
    if not set(drop) <= set(KINDS):
        raise LmmsEgoplanError(
            f"--drop {','.join(drop)}: unknown kind; choose from {','.join(KINDS)}"
        )
    info = narrations.epic_video_info
    if narrations.source == "epic-kitchens":
        videos, rejections = read_epic_kitchens(
            narrations.path, read_video_info(info) if info else {}
        )
    else:
        sentences, unknown, rejections = read_ego4d(narrations.path, narrations.mean_gap, drop)
        videos, without_phrase = to_phrases(
            sentences, unknown, language_model(DEFAULT_MODEL, usage=usage)
        )
        rejections += without_phrase
    if goals is None or not videos:  # without videos, this requests nothing
        replies, unusable_replies = identify_goals(
            videos, language_model(DEFAULT_MODEL, usage=usage)
        )
    else:
        replies, unusable_replies = read_goals(goals, videos)
    finish_estimate(usage)
    pooled, without_goal = pool_goals(videos, replies, drop)
    questions, without_question = make_questions(pooled, seed, drop, is_balanced=is_balanced)
    rejections += [*unusable_replies, *without_goal, *without_question]
    if instruction_data:
        rejections += without_clip(questions)
    rejection_counts = dict(counted(rejections))
    if not questions:
        raise LmmsEgoplanError(
            f"{narrations.path}: no questions could be built. {none_left(rejections)}"
        )
    summary = {
        "questions": len(questions),
        "task_goals": len(pooled),
        "videos": len({question.goal.video.video_id for question in questions}),
        "dropped": list(drop),
        "left_out": rejection_counts,
        "kinds_to_drop": counts(questions) | {"unsure-actions": rejection_counts.get(UNSURE, 0)},
        "accuracy_without_video": accuracies(questions),
    }
    if is_balanced:
        unbalanced, _ = make_questions(pooled, seed, drop)
        summary["accuracy_without_video_unbalanced"] = accuracies(unbalanced)
        summary["not_balanced"] = {
            reason: rejection_counts.get(reason, 0) for reason in (NEAR_END, DONE_BEFORE)
        }
    return Built(videos, replies, questions, instruction_data, rejections, summary)


def write(built: Built, out: Path) -> None:
    """Write questions, goals, narrations, rejections and statistics into a folder.

    They replace those of an earlier build, as `results_of` does.

    Raises:
        OSError: The folder cannot be written.
    """
    questions = built.questions
    # Pieces of text, since the whole texts may not fit into memory.
    texts: dict[str, Iterable[str]] = {
        NARRATIONS: (csv_text([row]) for row in narration_rows(built.videos)),
        GOALS: _indented(built.goals),
        REJECTIONS: (json_lines([asdict(rejection)]) for rejection in built.rejections),
        SUMMARY: _indented(built.summary),
        EVALUATION: _json_list(evaluation_records(questions)),
    }
    if built.has_instruction_data:
        texts[INSTRUCTION] = _json_list(instruction_records(questions))
        texts[RECOGNITION] = _json_list(recognition_records(questions))
    statistics = statistics_files({"built here": built_statistics(questions)})
    with results_of(out) as results:
        for name, pieces in texts.items():
            path = results / name
            with with_path_in_error(path), path.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(map(clean_text, pieces))
        for name, content in statistics.items():
            write_whole(
                results / name, clean_text(content) if isinstance(content, str) else content
            )


def summary_lines(built: Built, out: Path) -> Iterator[str]:
    """Yield the lines that the command prints after `write`."""
    for name in (
        "left_out",
        "kinds_to_drop",
        "accuracy_without_video",
        "accuracy_without_video_unbalanced",
        "not_balanced",
    ):
        if name not in built.summary:
            continue
        values = "; ".join(f"{key}: {value}" for key, value in built.summary[name].items())
        yield f"{name.replace('_', ' ').capitalize()}: {values or 'nothing'}"
    yield f"Details: {SUMMARY} and {REJECTIONS} in {out}"
    yield (
        f"{len(built.questions)} questions (not verified by people) on "
        f"{built.summary['task_goals']} task goals in {built.summary['videos']} videos written "
        f"to {out / EVALUATION}"
    )


def _indented(value: Any) -> Iterator[str]:
    """Yield the pieces of indented JSON."""
    yield from json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(value)
    yield "\n"


def _json_list(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a JSON list with one record per line.

    json's own indentation takes ten times as long.
    """
    separator = "[\n"
    for record in records:
        yield f"{separator}{json.dumps(record, ensure_ascii=False)}"
        separator = ",\n"
    yield "\n]\n"
