"""Types of failures in wrong answers (arXiv 2312.06722, Fig. 6), labelled by people or by a judge.

The paper names three types and shows a case of each, without numbers. The procedure is this
project's. ``failures.yaml`` contains the judge's prompt.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import without_marks
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report.tables import Column, Table, interval_columns, table_of_runs
from lmms_egoplan.stats.agreement import MIN_ITEMS, agreement
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS, score_interval
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.validation import AnyText, Checked, Text, quoted

_PROMPT: dict[str, str] = module_yaml(__file__)
# Bump when the judge's input or question changes.
_VERSION = "2"
_SCHEMA = {
    "type": "object",
    "properties": {"type": {"enum": ["visual", "state", "knowledge", "other"]}},
    "required": ["type"],
    "additionalProperties": False,
}
"""JSON schema of the judge's reply."""

FAILURES = {
    "visual": "Type-1: Insufficient integration of visual modality",
    "state": "Type-2: Omitting key state changes in task progress",
    "knowledge": "Type-3: Inadequate application of world knowledge",
    "other": "None of the three",
}
"""The types as printed in Fig. 6, after the paper's numbers.

"other" is this project's, for answers that fit none of the three.
"""
LABELS = "failures.jsonl"
"""File of labels, in exports and in the folder of `judge egoplan`."""
PEOPLE = "people"
"""`Failure.by` of labels that people gave."""
# Longer side of the frames that a judge sees, in pixels.
_LONGER_SIDE = 512

Frames = Callable[[], Sequence[Any]] | None
"""Reads the images of a question's progress; None if its media are missing."""


class Failure(Checked):
    """A wrong answer with the type of failure that people or a judge assigned.

    Attributes:
        id: The question's id and the name of the model, as in reports of the same runs.
        run: The run's model and start, and the task.
        model: Name of the run, with the task's name unless that is the main task.
        video: The question's video, the cluster of intervals.
        texts: Texts that people and judges see, by title.
        wrong: Number of wrong answers from which this one was drawn.
        by: `PEOPLE`, or the judge with the version of its prompt, and that it saw no frames; ""
            before.
        type: None without a label or a usable verdict.
        why: Why there is no type; None if there is one.
    """

    id: Text
    run: Text
    model: Text
    video: Text
    texts: dict[str, str]
    wrong: int
    by: AnyText = ""
    type: Literal["visual", "state", "knowledge", "other"] | None = None
    why: AnyText | None = "no label, or labels that differ"

    @property
    def key(self) -> Hashable:
        """Values that identify the label among those of all folders."""
        return self.id, self.run, self.by


def judge_failures(
    wrong: Sequence[tuple[Failure, Frames]], settings: JudgeSettings
) -> Iterator[Failure]:
    """Yield each answer with the type that a judge names.

    It sees the frames of the questions whose media exist.

    Raises:
        JudgeError: The judge cannot be asked.
    """
    prompts = {failure.id: failure_prompt(failure.texts, frames) for failure, frames in wrong}
    replies = ask_json(
        "failures", prompts, settings, "types of failures", schema=_SCHEMA, read=_read
    )
    reasons = {
        rejection.where: f"{rejection.reason}: {rejection.detail}"
        for rejection in replies.rejections
    }
    for failure, frames in wrong:
        model = replies.models.get(failure.id, settings.name(settings.model))
        by = f"{model}, prompt {_VERSION}"
        if not frames:
            by += ", no frames"
        labels = {"by": by, "type": replies.values.get(failure.id), "why": reasons.get(failure.id)}
        yield failure.model_copy(update=labels)


def failure_prompt(texts: Mapping[str, str], frames: Frames) -> Prompt:
    """Build the prompt about a wrong answer, with the frames first."""
    sections = "\n".join(f"### {title}\n{without_marks(text)}" for title, text in texts.items())
    images = frames() if frames else ()
    text = _PROMPT["prompt"].format(frames=_PROMPT["frames"] if frames else "", texts=sections)
    return Prompt(text, tuple(jpeg_url(image, _LONGER_SIDE) for image in images))


def _read(_id: str, reply: Mapping[str, Any]) -> str:
    if [*reply] != ["type"] or reply["type"] not in [*FAILURES]:
        raise ValueError(f"expected a type, one of {', '.join(FAILURES)}, found {quoted(reply)}")
    return str(reply["type"])


def share_rows(failures: Sequence[Failure]) -> Iterator[dict[str, Any]]:
    """Yield each type's share of a run's labelled wrong answers, in per cent.

    Intervals are over videos.
    """
    by_run = attrgetter("model", "run", "by")
    for (model, _, by), group in groupby(sorted(failures, key=by_run), by_run):
        answers = list(group)
        typed = [failure for failure in answers if failure.type]
        for key, title in FAILURES.items():
            count = sum(failure.type == key for failure in typed)
            row = {
                "model": model,
                "by": by,
                "wrong": answers[0].wrong,
                "drawn": len(answers),
                "typed": len(typed),
                "type": title,
                "count": count,
                "untyped": len(answers) - len(typed),
                "example": _example(typed, key),
            }
            yield row | _share(typed, key).cells("share")


def _share(typed: Sequence[Failure], key: str) -> Mean:
    """Return the share of a type in per cent; without a value if no answer has a type."""
    if not typed:
        return Mean()
    hits = [100.0 * (failure.type == key) for failure in typed]
    interval = score_interval(hits, [failure.video for failure in typed], top=100)
    return Mean(sum(hits) / len(hits), interval)


def _example(typed: Sequence[Failure], key: str) -> str:
    """Return the texts of the first answer of a type."""
    for failure in typed:
        if failure.type == key:
            return "; ".join(failure.texts.values())
    return ""


def agreement_rows(failures: Sequence[Failure]) -> Iterator[dict[str, Any]]:
    """Yield the agreement of each judge with people, over the answers that both labelled."""
    labels_of_people: dict[tuple[str, str], str] = {}
    for failure in failures:
        if failure.by == PEOPLE and failure.type:
            labels_of_people[_answer_key(failure)] = failure.type
    pairs_of_judge: dict[str, list[tuple[str, str]]] = {}
    for failure in failures:
        key = _answer_key(failure)
        if failure.by != PEOPLE and failure.type and key in labels_of_people:
            pair = (labels_of_people[key], failure.type)
            pairs_of_judge.setdefault(failure.by, []).append(pair)
    for judge, pairs in pairs_of_judge.items():
        num_equal = sum(of_people == of_judge for of_people, of_judge in pairs)
        row = {"judge": judge, "answers": len(pairs), "equal": 100 * num_equal / len(pairs)}
        numbers = {kind: float(number) for number, kind in enumerate(FAILURES)}
        kappa = agreement(
            [numbers[of_people] for of_people, _ in pairs],
            [numbers[of_judge] for _, of_judge in pairs],
            range(len(FAILURES)),
        ).kappa_unweighted
        if kappa:
            row |= {"kappa": kappa.value, "low": kappa.low, "high": kappa.high}
        yield row


def _answer_key(failure: Failure) -> tuple[str, str]:
    """Return what identifies an answer in labels of people and judges.

    The end of ids is the run's name, which depends on the other runs.
    """
    return failure.id.split()[0], failure.run


def failures_table(failures: Sequence[Failure]) -> Table | None:
    """Build the table of types of failures; None without labels."""
    rows = list(share_rows(failures))
    if not rows:
        return None
    columns = (
        Column("model", "Run"),
        Column("by", "Labelled by"),
        Column("type", "Type"),
        Column("count", "Answers of this type"),
        Column("typed", "Answers with a type"),
        Column("share", "Share %", decimals=1),
        *interval_columns("share", decimals=1),
        Column("untyped", "Without a type"),
        Column("drawn", "Drawn"),
        Column("wrong", "Wrong answers"),
        Column("example", "Example"),
    )
    notes = [
        (
            "The three types are those of Fig. 6 of the paper, which shows a case of each "
            'and no numbers. "None of the three", the labelling and the judge\'s prompt are '
            "this project's. Only wrong answers to whole questions with video are "
            "labelled, not those of shortcuts, nor those in which no choice was read."
        ),
        (
            "Labelled by: people, on the page of lmms-egoplan annotate egoplan-failures, "
            "or a judge with the version of its prompt, from lmms-egoplan judge egoplan. "
            '"No frames": the video was missing. Share: of the answers with a type. '
            "Without a type: not labelled, labels that differ, or no usable verdict. "
            "Drawn: answers given to people or judge. Wrong answers: those of which they "
            "are a random sample."
        ),
        (
            "Low to high: 95 % interval by Wilson over videos. Absent with fewer than "
            f"{FEWEST_CLUSTERS} videos."
        ),
    ]
    title = "Types of failures in wrong answers"
    return table_of_runs("egoplan_failures", title, columns, rows, notes)


def failures_agreement_table(failures: Sequence[Failure]) -> Table | None:
    """Build the table of the agreement of judges with people; None without labels by both."""
    rows = list(agreement_rows(failures))
    if not rows:
        return None
    columns = (
        Column("judge", "Judge"),
        Column("answers", "Answers"),
        Column("equal", "Same type %", decimals=1),
        Column("kappa", "Cohen's kappa", decimals=2),
        *interval_columns("kappa", decimals=2),
    )
    notes = [
        (
            "Over the answers to which people and the judge both gave a type. Cohen's kappa of "
            "the four types has a 95 % interval from a bootstrap over answers. No kappa for fewer "
            f"than {MIN_ITEMS} answers, or if one side gives all answers the same type."
        ),
    ]
    title = "Types of failures: judges and people"
    return table_of_runs("egoplan_failures_agreement", title, columns, rows, notes)
