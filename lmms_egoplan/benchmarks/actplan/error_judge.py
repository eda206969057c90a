"""A judge's types of errors in plans (sec. 5.6), and how far they agree with people's."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.actplan.answer_files import StoredPlan
from lmms_egoplan.benchmarks.actplan.labelled_plans import ERRORS
from lmms_egoplan.benchmarks.actplan.records import ShownInstance, instance_key
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.judging import JudgeSettings
from lmms_egoplan.judging.agreement import Agreement, agreement
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.sanitize import without_marks
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.validation import AnyText, Checked, Text, read_as, shown

_TEXTS: dict[str, str] = yaml_beside(__file__)
PROMPT_VERSION = _TEXTS["version"]
# It must read images; EgoThink's judge does.
DEFAULT_JUDGE = "gpt-4o-2024-11-20"
# What `judge actplan` writes for the report.
JUDGED_ERRORS = "judged_errors.jsonl"
_LONGER_SIDE = 768
# JSON schema of the reply.
_STEPS = {"type": "array", "items": {"type": "integer"}}
_SCHEMA = {"type": "object", "properties": dict.fromkeys(ERRORS, _STEPS), "additionalProperties": False}

Errors = Mapping[str, Sequence[int]]
"""By type of error, the steps concerned, from 1; 0 stands for the whole plan."""


@dataclass(frozen=True)
class JudgedPlan:
    """A plan with the types of errors that a judge, and maybe people, found in it.

    images: whether the plan's model was shown images.
    people: None where people marked none of the plan.
    judge: None where the judge gave no usable reply; `error` tells why.
    judge_model: that answered; without a reply, one that answered about another plan, or that was asked.
    prompt: version of what the judge was asked; "1" showed square brackets in plans as round ones.
    """

    id: str
    model: str
    candidate: str
    images: bool
    people: Errors | None
    judge: Errors | None
    judge_model: str
    error: str | None = None
    prompt: str = PROMPT_VERSION

    @property
    def judge_name(self) -> str:
        """The judge's model, with the version of an earlier prompt."""
        return self.judge_model if self.prompt == PROMPT_VERSION else f"{self.judge_model}, prompt {self.prompt}"


class _Line(Checked):
    id: Text
    model: Text
    candidate: AnyText
    images: bool
    people: dict[str, list[int]] | None
    judge: dict[str, list[int]] | None
    judge_model: Text
    error: AnyText | None
    prompt: Text = "1"


def judge_errors(
    plans: Sequence[tuple[str, StoredPlan]],
    instances: Mapping[str, ShownInstance],
    settings: JudgeSettings,
) -> list[JudgedPlan]:
    """Ask a judge for the types of errors in plans; replies are kept as those of other judges.

    Args:
        plans: each with its model's name.
        instances: by `instance_key`.

    Raises:
        JudgeError: the judge cannot be asked.
    """
    counts: Counter[str] = Counter()
    prompts: dict[str, str | Prompt] = {}
    steps: dict[str, int] = {}
    for model, stored in plans:
        name = f"{stored.plan.id} of {model}"
        counts[name] += 1
        own = f"{name}, plan {counts[name]}" if counts[name] > 1 else name
        prompts[own] = errors_prompt(stored, instances[instance_key(stored.plan.id)])
        steps[own] = len(official_steps(stored.plan.text))

    def read(name: str, reply: dict[str, Any]) -> Errors:
        return read_errors(reply, steps[name])

    replies, rejections = ask_json("errors", prompts, settings, "types of errors", schema=_SCHEMA, read=read)
    models = settings.asking.models
    silent = next(iter(models.values()), settings.name(settings.model))
    failures = {rejection.where: f"{rejection.reason}: {rejection.detail}" for rejection in rejections}
    return [
        JudgedPlan(
            stored.plan.id,
            model,
            stored.plan.text,
            stored.images,
            stored.errors,
            replies.get(name),
            models.get(name, silent),
            failures.get(name),
        )
        for (model, stored), name in zip(plans, prompts, strict=True)
    ]


def errors_prompt(stored: StoredPlan, instance: ShownInstance) -> Prompt:
    """Ask a judge about a plan, after the pictures if the plan's model had them.

    The judge sees the steps as they are: it reports steps of a wrong form. Its reply is JSON, so brackets in a plan
    cannot pass for a verdict.
    """
    steps = official_steps(without_marks(stored.plan.text))
    plan = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)) or "(no steps)"
    references = "\n\n".join("\n".join(steps) for steps in stored.plan.references)
    images = tuple(_picture(image) for image in instance.images) if stored.images else ()
    text = _TEXTS["prompt"].format(
        pictures=_TEXTS["pictures"] if images else "",
        task=instance.description.strip(),
        references=references,
        plan=plan,
    )
    return Prompt(text, images)


def read_errors(reply: dict[str, Any], steps: int) -> Errors:
    """The types of errors in a judge's reply; a type without steps is none.

    Args:
        steps: of the plan.

    Raises:
        ValueError: the reply has other keys, or something else than steps.
    """
    if not reply.keys() <= ERRORS.keys():
        raise ValueError(f"expected types of errors, found {shown(reply)}")
    for marked in reply.values():
        if not isinstance(marked, list) or not all(type(step) is int and 0 <= step <= steps for step in marked):
            raise ValueError(f"expected steps of the plan, found {shown(marked)}")
    return {key: sorted(set(reply[key])) for key in ERRORS if reply.get(key)}


def agreements(judged: Sequence[JudgedPlan]) -> dict[str, tuple[int, int, int, Agreement]]:
    """By type, over the plans that both have marked: how many have it by people, by the judge and by both; agreement.

    Empty where there is no such plan.
    """
    both = [(plan.people, plan.judge) for plan in judged if plan.people is not None and plan.judge is not None]
    found = {}
    for key in ERRORS if both else ():
        people, judge = ([float(key in marks) for marks in column] for column in zip(*both, strict=True))
        same = sum(a == b == 1 for a, b in zip(people, judge, strict=True))
        found[key] = (int(sum(people)), int(sum(judge)), same, agreement(people, judge, (0.0, 1.0)))
    return found


def judged_lines(judged: Sequence[JudgedPlan]) -> str:
    """A JSON object in a line for each."""
    return "".join(f"{json.dumps(asdict(plan), ensure_ascii=False)}\n" for plan in judged)


def read_judged(path: Path) -> list[JudgedPlan]:
    """Plans as `judged_lines` wrote them.

    Raises:
        LmmsEgoplanError: the file cannot be read or holds something else; names the line.
    """
    return [
        JudgedPlan(**read_as(_Line, where, parse_record(where, line)).model_dump()) for where, line in read_lines(path)
    ]


def _picture(content: bytes) -> str:
    with Image.open(BytesIO(content)) as image:
        return jpeg_url(image, _LONGER_SIDE)
