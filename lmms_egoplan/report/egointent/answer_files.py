"""Read EgoIntent's stored answers, judge them and write the result.

The answers come from a run or from another framework.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.egointent.judge import GradedStep, Prediction, grade
from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER, RELEASE
from lmms_egoplan.benchmarks.egointent.metrics import score_release_step, score_step
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member, parse_record
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.report.samples import Origin, is_sample, stored_lines, write_lines
from lmms_egoplan.validation import AnyText, Checked, read_as

# Names of task variants that users define start with this, for example egointent_16.
TASK = "egointent"
V1 = "egointent_v1"
# The judge's protocol, and the function that scores a step.
KINDS = {TASK: (RELEASE, score_release_step), V1: (PAPER, score_step)}
_HOW = (
    'use samples of a harness, or lines such as {"step_id": "1", "answer": '
    '"{\\"local_intent\\": ...}"}'
)


class StoredStep(Checked):
    """One reply as stored in a file.

    Attributes:
        where: File and line, for messages.
        kind: The task whose judge prompts apply.
        step_id: Id of the step.
        reply: The model's reply.
        video_id: Id of the step's video; None if the file does not contain it.
        truncated: True if the limit on new tokens ended the reply; None if unknown.
        frames_shown: Number of frames that the model was shown; 0 if the file does not say.
        media: The form of the visual input; None if unknown.
        run: The run that produced the reply; None if unknown.
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
    """Read replies in the order of the paths and lines; each step may occur once in each task.

    Args:
        paths: Files, or folders with sample files of EgoIntent's tasks. A line is a sample of a
            harness, a judged answer, or ``{"step_id": "1", "answer": "..."}``, optionally with
            ``kind`` and ``truncated``.

    Raises:
        LmmsEgoplanError: A file cannot be read, has another format, or repeats a step. The message
            names line and field.
    """
    steps: dict[tuple[str, str], StoredStep] = {}
    for path in paths:
        for where, line, run in stored_lines(path, TASK):
            step = _stored(where, line, run)
            earlier = steps.setdefault((step.kind, step.step_id), step)
            if earlier is not step:
                raise LmmsEgoplanError(
                    f"{step.where}: duplicate step {step.step_id!r}, already in "
                    f"{earlier.where}; use the answers of one run"
                )
    return list(steps.values())


def rows_of(stored: Sequence[StoredStep]) -> list[Mapping[str, Any]]:
    """Return the prepared row of each step.

    Raises:
        DataMissingError: The steps are not prepared.
        LmmsEgoplanError: The prepared data lack a step, or have it in another video.
    """
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    for step in stored:
        if step.step_id not in rows or step.video_id not in (None, rows[step.step_id]["video_id"]):
            raise LmmsEgoplanError(
                f"{step.where}: the prepared data have no step_id {step.step_id!r} in video "
                f"{step.video_id or 'unknown'}; prepare the data that these answers were "
                "generated from"
            )
    return [rows[step.step_id] for step in stored]


def judge_stored(
    stored: Sequence[StoredStep], rows: Sequence[Mapping[str, Any]], settings: JudgeSettings
) -> list[GradedStep]:
    """Read and judge each reply as the filter of its task does; keep the order.

    Args:
        stored: The replies.
        rows: The prepared row of each reply, see `rows_of`.
        settings: The judge.
    """
    judged_steps: dict[int, GradedStep] = {}
    for kind, (protocol, _) in KINDS.items():
        steps_of_kind = {index: step for index, step in enumerate(stored) if step.kind == kind}
        is_together = '"together": true' in json.dumps(
            [step.run and step.run.config for step in steps_of_kind.values()]
        )
        predictions = [
            Prediction.of_reply(
                rows[index],
                step.reply,
                truncated=step.truncated,
                frames_shown=step.frames_shown,
                media=step.media,
            )
            for index, step in steps_of_kind.items()
        ]
        graded = grade(predictions, settings, protocol, together=is_together)
        judged_steps |= zip(steps_of_kind, graded, strict=True)
    return [judged_steps[index] for index in range(len(stored))]


def write_judged(path: Path, stored: Sequence[StoredStep], judged: Sequence[GradedStep]) -> None:
    """Write judged steps as JSON Lines, the format that `read_stored` and reports read."""
    lines = (
        asdict(answer) | {"kind": step.kind, "judge_prompt": KINDS[step.kind][0].name}
        for step, answer in zip(stored, judged, strict=True)
    )
    write_lines(path, lines, [step.run for step in stored])


def _stored(where: str, line: str, run: Origin | None) -> StoredStep:
    record = parse_record(where, line, _HOW)
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object with step_id and answer; {_HOW}")
    if isinstance(record.get("diagnostics"), dict):
        raise LmmsEgoplanError(
            f"{where}: answers of egointent_diagnostics cannot be judged here, because the judge "
            "needs the frames. Set a judge and repeat the run with --use_cache"
        )
    if is_sample(where, record, main_metric="overall"):
        step = member(record, DETAILS, "step") or {}
        record = step | {"kind": TASK if "overall_missing_zero" in record else V1}
    reply = record.get("reply", record.get("answer"))
    known_fields = {"where": where, "reply": reply, "run": run or record.get("run")}
    return read_as(StoredStep, where, {"kind": TASK} | record | known_fields)
