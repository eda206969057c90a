"""Types of failures in wrong answers (arXiv 2312.06722, Fig. 6), labelled by people or by a judge.

The paper names three types and shows a case of each, without numbers. The procedure is this
project's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from lmms_egoplan.judging.agreement import agreement
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import without_marks
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report.scores import Mean
from lmms_egoplan.report.statistics import score_interval
from lmms_egoplan.validation import AnyText, Checked, Text, quoted

_TEXTS: dict[str, Any] = module_yaml(__file__)
# The three types in the paper's order, and "other".
FAILURES: dict[str, str] = _TEXTS["types"]
# File of labels, in exports and in the folder of `judge egoplan`.
LABELS, PEOPLE = "failures.jsonl", "people"
_LONGER_SIDE = 512

Frames = Callable[[], Sequence[Any]] | None
"""Reads the images of a question's progress; None if its media are missing."""


class Failure(Checked):
    """A wrong answer with the type of failure that people or a judge assigned.

    id: The question's id and the name of the model, as in reports of the same runs.
    run: The run's model and start, and the task.
    model: Name of the run, with the task's name unless that is the main task.
    video: The question's video, the cluster of intervals.
    texts: Texts that people and judges see, by title.
    wrong: Number of wrong answers from which this one was drawn.
    by: `PEOPLE`, or the judge with the version of its prompt, and that it saw no frames; "" before.
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


def judge_failures(
    wrong: Sequence[tuple[Failure, Frames]], settings: JudgeSettings
) -> Iterator[Failure]:
    """Yield each answer with the type that a judge names.

    It sees the frames of the questions whose media exist.

    Raises:
        JudgeError: The judge cannot be asked.
    """
    prompts = {failure.id: failure_prompt(failure.texts, frames) for failure, frames in wrong}
    types, lost = ask_json(
        "failures", prompts, settings, "types of failures", schema=_TEXTS["schema"], read=_read
    )
    reasons = {rejection.where: f"{rejection.reason}: {rejection.detail}" for rejection in lost}
    for failure, frames in wrong:
        model = settings.asking.models.get(failure.id, settings.name(settings.model))
        by = f"{model}, prompt {_TEXTS['version']}{'' if frames else ', no frames'}"
        labels = {"by": by, "type": types.get(failure.id), "why": reasons.get(failure.id)}
        yield failure.model_copy(update=labels)


def failure_prompt(texts: Mapping[str, str], frames: Frames) -> Prompt:
    """Build the prompt about a wrong answer, with the frames first."""
    sections = "\n".join(f"### {title}\n{without_marks(text)}" for title, text in texts.items())
    text = _TEXTS["prompt"].format(frames=_TEXTS["frames"] if frames else "", texts=sections)
    return Prompt(
        text, tuple(jpeg_url(image, _LONGER_SIDE) for image in (frames() if frames else ()))
    )


def _read(_id: str, reply: Mapping[str, Any]) -> str:
    if [*reply] != ["type"] or reply["type"] not in [*FAILURES]:
        raise ValueError(f"expected a type, one of {', '.join(FAILURES)}, found {quoted(reply)}")
    return str(reply["type"])


def share_rows(failures: Sequence[Failure]) -> Iterator[dict[str, Any]]:
    """Yield each type's share of a run's labelled wrong answers, in per cent, with an interval over
    videos.
    """
    of_run = attrgetter("model", "run", "by")
    for (model, _, by), group in groupby(sorted(failures, key=of_run), of_run):
        answers = list(group)
        typed = [failure for failure in answers if failure.type]
        row = {
            "model": model,
            "by": by,
            "wrong": answers[0].wrong,
            "drawn": len(answers),
            "typed": len(typed),
        }
        for key, title in FAILURES.items():
            hits = [100.0 * (failure.type == key) for failure in typed]
            interval = score_interval(hits, [x.video for x in typed], top=100)
            share = Mean(sum(hits) / len(hits), interval) if hits else Mean()
            example = next(("; ".join(x.texts.values()) for x in typed if x.type == key), "")
            row |= {
                "type": title,
                "count": round(sum(hits) / 100),
                "untyped": len(answers) - len(typed),
            }
            yield row | {"example": example} | share.cells("share")


def agreement_rows(failures: Sequence[Failure]) -> Iterator[dict[str, Any]]:
    """Yield the agreement of each judge with people, over the answers that both labelled."""
    # Without the end of ids, the run's name, which depends on the other runs.
    people = {(x.id.split()[0], x.run): x.type for x in failures if x.by == PEOPLE and x.type}
    judged = [
        x for x in failures if x.by != PEOPLE and x.type and (x.id.split()[0], x.run) in people
    ]
    for by in dict.fromkeys(x.by for x in judged):
        pairs = [(people[x.id.split()[0], x.run], x.type) for x in judged if x.by == by]
        first, second = (
            [float([*FAILURES].index(str(kind))) for kind in side]
            for side in zip(*pairs, strict=True)
        )
        kappa = agreement(first, second, range(len(FAILURES))).kappa_unweighted
        row = {
            "judge": by,
            "answers": len(pairs),
            "equal": 100 * sum(a == b for a, b in pairs) / len(pairs),
        }
        yield row | ({"kappa": kappa.value, "low": kappa.low, "high": kappa.high} if kappa else {})
