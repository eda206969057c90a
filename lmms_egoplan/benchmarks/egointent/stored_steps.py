"""EgoIntent's answers in files: what a run or another framework has stored, and what judging writes."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from lmms_egoplan.benchmarks.egointent.answer_files import TASK
from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import DIAGNOSTICS_VERSION, SCORES
from lmms_egoplan.benchmarks.egointent.diagnostics.metrics import score_diagnostics
from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import DEFAULT_JUDGE as DEFAULT_DIAGNOSTICS_JUDGE
from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import DiagnosedStep, Diagnosis, diagnose
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, RELEASE_JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.metrics import (
    Values,
    field_score,
    judge_coverage,
    judge_models,
    score_release_step,
    score_step,
)
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.scoring import DEFAULT_JUDGE, GradedStep, Prediction, grade
from lmms_egoplan.benchmarks.egointent.splits import PREPARED
from lmms_egoplan.benchmarks.egointent.step_answer import Answer, JudgedStep
from lmms_egoplan.benchmarks.egointent.visuals import visual_input
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.report.benchmark import Judged
from lmms_egoplan.report.judged import judged_record
from lmms_egoplan.report.logged_samples import HOW_TO_LOG, Origin, find_sample_files, origin_of
from lmms_egoplan.storage import write_whole
from lmms_egoplan.validation import AnyText, Checked, read_as

V1, DIAGNOSTICS = "egointent_v1", "egointent_diagnostics"
_DEFAULTS = {TASK: DEFAULT_JUDGE, V1: DEFAULT_JUDGE, DIAGNOSTICS: DEFAULT_DIAGNOSTICS_JUDGE}
_VERSIONS = {TASK: RELEASE_JUDGE_VERSION, V1: JUDGE_VERSION, DIAGNOSTICS: DIAGNOSTICS_VERSION}
_SCORES: dict[str, tuple[Callable[..., Values], type[JudgedStep]]] = {
    TASK: (score_release_step, GradedStep),
    V1: (score_step, GradedStep),
    DIAGNOSTICS: (score_diagnostics, Diagnosis),
}
_NAMES = {TASK: [RELEASE_NAMES[field] for field in FIELDS], V1: FIELDS, DIAGNOSTICS: tuple(SCORES)}
_HOW = 'give a harness\'s samples, or lines such as {"step_id": "1", "answer": "{\\"local_intent\\": ...}"}'


class StoredStep(Checked):
    """A reply as a file holds it.

    where: file and line, for messages.
    kind: the task whose judge's prompts apply.
    frames_shown: 0 where the file does not say.
    run: the run of the reply; None where it is unknown.
    """

    where: str
    kind: Literal["egointent", "egointent_v1", "egointent_diagnostics"]
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
    for path in paths:
        files = [file.path for file in find_sample_files(path, TASK)] if path.is_dir() else [path]
        lines = [(where, line, origin_of(file)) for file in files for where, line in read_lines(file)]
        if not lines:
            raise LmmsEgoplanError(f"{path}: no answers to EgoIntent's steps; {HOW_TO_LOG}")
        for step in (_stored(*line) for line in lines):
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
    rows = {row["step_id"]: row for row in PREPARED.load("test")}
    for step in stored:
        if step.step_id not in rows or step.video_id not in (None, rows[step.step_id]["video_id"]):
            raise LmmsEgoplanError(
                f"{step.where}: step_id {step.step_id!r} of video {step.video_id or 'unknown'} is no step of the "
                "prepared data; prepare the data that the answers were made with"
            )
    return [rows[step.step_id] for step in stored]


def judge_stored(
    stored: Sequence[StoredStep], rows: Sequence[Mapping[str, Any]], judges: Mapping[str, JudgeSettings]
) -> list[JudgedStep]:
    """Have each reply read and judged as the filter of its task does, in order.

    Args:
        rows: of the steps, see `rows_of`.
        judges: by kind.
    """
    judged: dict[int, JudgedStep] = {}
    for kind, settings in judges.items():
        places = [place for place, step in enumerate(stored) if step.kind == kind]
        shown = [(stored[place], rows[place]) for place in places]
        if kind == DIAGNOSTICS:
            answers = [_answer(DiagnosedStep, *x, load_images=_images(*x)) for x in shown]
            steps: Sequence[JudgedStep] = diagnose(answers, settings)
        else:
            is_together = '"together": true' in json.dumps([step.run and step.run.config for step, _ in shown])
            answers = [_answer(Prediction, *x) for x in shown]
            steps = grade(answers, settings, together=is_together, release=kind == TASK)
        judged |= zip(places, steps, strict=True)
    return [judged[place] for place in range(len(stored))]


def write_judged(path: Path, stored: Sequence[StoredStep], judged: Sequence[JudgedStep]) -> None:
    """Write judged steps as JSON lines, which `read_stored` and the report read."""
    lines = (
        asdict(answer)
        | {"kind": step.kind, "judge_prompt": _VERSIONS[step.kind]}
        | ({"run": step.run.model_dump()} if step.run else {})
        for step, answer in zip(stored, judged, strict=True)
    )
    write_whole(path, "".join(f"{json.dumps(line)}\n" for line in lines))


def judges_of(stored: Sequence[StoredStep]) -> dict[str, str]:
    """Return the default judge of each task that the replies are of."""
    return {kind: judge for kind, judge in _DEFAULTS.items() if any(step.kind == kind for step in stored)}


def summaries(
    stored: Sequence[StoredStep], rows: Sequence[Mapping[str, Any]], judged: Sequence[JudgedStep]
) -> Iterator[str]:
    """Return one line for each task: its score, how much of it is judged, and by whom."""
    for kind in judges_of(stored):
        found = [
            _SCORES[kind][0](row, [answer.to_text()])
            for step, row, answer in zip(stored, rows, judged, strict=True)
            if step.kind == kind
        ]
        ratings = [(name, field_score([values[name] for values in found])) for name in _NAMES[kind]]
        scores = ", ".join(f"{name} {'n/a' if math.isnan(score) else f'{score:.1f}'}" for name, score in ratings)
        yield (
            f"{kind}: mean {fmean(score for _, score in ratings):.1f} ({scores}), {len(found)} steps, "
            f"{judge_coverage([values['judge_coverage'] for values in found]):.1%} of what was found is judged, by "
            f"{judge_models([values['judge_model'] for values in found])}"
        )


def judged_samples(path: Path) -> Iterator[Judged]:
    """See `BenchmarkReport.judged_samples`."""
    stored = read_stored([path])
    for step, row, (_, line) in zip(stored, rows_of(stored), read_lines(path), strict=True):
        record = parse_record(step.where, line)
        score, kind = _SCORES[step.kind]
        config = {
            "process_results": f"def {score.__name__}",
            "metadata": {"judge_prompt": record.get("judge_prompt")},
        }
        yield step.kind, config, score(row, [judged_record(kind, step.where, record).to_text()])


def _stored(where: str, line: str, run: Origin | None) -> StoredStep:
    record = parse_record(where, line, _HOW)
    if not isinstance(record, dict):
        raise LmmsEgoplanError(f"{where}: expected an object with step_id and answer; {_HOW}")
    logged = next((record[name] for name in ("diagnostics", "overall") if isinstance(record.get(name), dict)), None)
    if logged is not None:
        kind = DIAGNOSTICS if "diagnostics" in record else TASK if "overall_missing_zero" in record else V1
        record = logged | {"kind": kind}
    reply = record.get("reply", record.get("answer"))
    known = {"where": where, "reply": reply, "run": run or record.get("run")}
    return read_as(StoredStep, where, {"kind": TASK} | record | known)


def _answer(kind: type[Answer], step: StoredStep, row: Mapping[str, Any], **others: Any) -> Answer:
    return kind.of_reply(row, step.reply, step.truncated, step.frames_shown, step.media, **others)


def _images(step: StoredStep, row: Mapping[str, Any]) -> Callable[[], Any]:
    """Return what reads the frames that the model was shown."""
    return partial(visual_input, row, {"media": "frames", "max_frames": step.frames_shown or row["num_frames"]})
