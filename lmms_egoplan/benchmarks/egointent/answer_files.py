"""EgoIntent's answers in files: what a run or another framework has stored, and what judging writes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, RELEASE_JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.metrics import score_release_step, score_step
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep, Prediction, grade
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.report.samples import Origin, stored_lines, write_lines
from lmms_egoplan.validation import AnyText, Checked, read_as

# Variants that users make have names that begin so, such as egointent_16.
TASK = "egointent"
V1 = "egointent_v1"
# Version of the judge's prompt, and function that scores a step.
KINDS = {TASK: (RELEASE_JUDGE_VERSION, score_release_step), V1: (JUDGE_VERSION, score_step)}
_HOW = 'give a harness\'s samples, or lines such as {"step_id": "1", "answer": "{\\"local_intent\\": ...}"}'


class StoredStep(Checked):
    """A reply as a file holds it.

    where: file and line, for messages.
    kind: the task whose judge's prompts apply.
    frames_shown: 0 where the file does not say.
    run: the run of the reply; None where it is unknown.
    """

    where: str
    kind: Literal["egointent", "egointent_v1"]
    step_id: AnyText
    reply: AnyText
    video_id: AnyText | None = None
    truncated: bool | None = None
    frames_shown: int = 0
    media: AnyText | None = None
    run: Origin | None = None


def read_stored(paths: Iterable[Path]) -> list[StoredStep]:
    """Read replies in the order of the paths and lines, each step once in each task.

    Args:
        paths: files, or folders with sample files of EgoIntent's tasks. A line is a harness's sample, a judged answer,
            or ``{"step_id": "1", "answer": "..."}``, which may have ``kind`` and ``truncated``.

    Raises:
        LmmsEgoplanError: a file cannot be read, holds something else, or repeats a step; names line and field.
    """
    steps: dict[tuple[str, str], StoredStep] = {}
    for step in (_stored(*line) for path in paths for line in stored_lines(path, TASK)):
        if (earlier := steps.setdefault((step.kind, step.step_id), step)) is not step:
            raise LmmsEgoplanError(
                f"{step.where}: step {step.step_id!r} is already in {earlier.where}; give the answers of one run"
            )
    return list(steps.values())


def rows_of(stored: Sequence[StoredStep]) -> list[Mapping[str, Any]]:
    """Return the prepared row of each step.

    Raises:
        DataMissingError: the steps are not prepared.
        LmmsEgoplanError: a step is unknown there, or of another video.
    """
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    for step in stored:
        if step.step_id not in rows or step.video_id not in (None, rows[step.step_id]["video_id"]):
            raise LmmsEgoplanError(
                f"{step.where}: step_id {step.step_id!r} of video {step.video_id or 'unknown'} is no step of the "
                "prepared data; prepare the data that the answers were made with"
            )
    return [rows[step.step_id] for step in stored]


def judge_stored(
    stored: Sequence[StoredStep], rows: Sequence[Mapping[str, Any]], settings: JudgeSettings
) -> list[GradedStep]:
    """Have each reply read and judged as the filter of its task does, in order.

    Args:
        rows: of the steps, see `rows_of`.
    """
    judged: dict[int, GradedStep] = {}
    for kind in KINDS:
        of_kind = {index: step for index, step in enumerate(stored) if step.kind == kind}
        is_together = '"together": true' in json.dumps([step.run and step.run.config for step in of_kind.values()])
        predictions = [
            Prediction.of_reply(
                rows[index], step.reply, truncated=step.truncated, frames_shown=step.frames_shown, media=step.media
            )
            for index, step in of_kind.items()
        ]
        graded = grade(predictions, settings, together=is_together, release=kind == TASK)
        judged |= zip(of_kind, graded, strict=True)
    return [judged[index] for index in range(len(stored))]


def write_judged(path: Path, stored: Sequence[StoredStep], judged: Sequence[GradedStep]) -> None:
    """Write judged steps as JSON lines, which `read_stored` and the report read."""
    lines = (
        asdict(answer) | {"kind": step.kind, "judge_prompt": KINDS[step.kind][0]}
        for step, answer in zip(stored, judged, strict=True)
    )
    write_lines(path, lines, [step.run for step in stored])


def _stored(where: str, line: str, run: Origin | None) -> StoredStep:
    record = parse_record(where, line, _HOW)
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object with step_id and answer; {_HOW}")
    if isinstance(record.get("diagnostics"), dict):
        raise LmmsEgoplanError(
            f"{where}: an answer to the diagnostics; to judge it, set a judge and repeat the run with --use_cache"
        )
    if isinstance(record.get("overall"), dict):
        record = record["overall"] | {"kind": TASK if "overall_missing_zero" in record else V1}
    reply = record.get("reply", record.get("answer"))
    known = {"where": where, "reply": reply, "run": run or record.get("run")}
    return read_as(StoredStep, where, {"kind": TASK} | record | known)
