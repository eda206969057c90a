"""Have a judge mark types of errors in plans (sec. 5.6), and measure its agreement with people."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from io import BytesIO
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.actplan.instances import ShownInstance, instance_key
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, StoredPlan
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import without_marks
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.stats.agreement import Agreement, agreement
from lmms_egoplan.text import numbered
from lmms_egoplan.validation import AnyText, Checked, Text, quoted

_TEXTS: dict[str, str] = module_yaml(__file__)
_PROMPT_VERSION = _TEXTS["version"]

# Output file of `judge actplan`, which the report reads.
JUDGED_ERRORS = "judged_errors.jsonl"
_LONGER_SIDE = 768
# JSON schema of the reply.
_STEPS = {"type": "array", "items": {"type": "integer"}}
_SCHEMA = {
    "type": "object",
    "properties": dict.fromkeys(ERRORS, _STEPS),
    "additionalProperties": False,
}

Errors = dict[str, list[int]]
"""Affected steps by type of error, from 1; 0 means the whole plan."""


class JudgedPlan(Checked):
    """A plan with the types of errors that a judge marked, and those that people marked, if any.

    images: True if the plan's model saw images.
    people: Errors that people marked; None if they did not mark this plan.
    judge: Errors that the judge marked; None without a usable reply.
    judge_model: Model that answered. Without a reply, a model that answered about another plan, or
    the requested one.
    error: Why `judge` is None; else None.
    prompt: Version of the judge's prompt.
    """

    id: Text
    model: Text
    candidate: AnyText
    images: bool
    people: Errors | None
    judge: Errors | None
    judge_model: Text
    error: AnyText | None
    prompt: Text

    @property
    def key(self) -> Hashable:
        """Values that identify the plan among those of all folders."""
        return self.id, self.model, self.candidate, self.judge_name

    @property
    def judge_name(self) -> str:
        """The judge's model, with the prompt's version if that is not the current one."""
        if self.prompt == _PROMPT_VERSION:
            return self.judge_model
        return f"{self.judge_model}, prompt {self.prompt}"


def judge_errors(
    plans: Sequence[tuple[str, StoredPlan]],
    instances: Mapping[str, ShownInstance],
    settings: JudgeSettings,
) -> list[JudgedPlan]:
    """Ask a judge for the types of errors in plans; replies are cached like those of other judges.

    Args:
        plans: Plans, each with the name of its model.
        instances: Instances by `instance_key`.
        settings: The judge's settings.

    Raises:
        JudgeError: The judge cannot be asked.
    """
    counts: Counter[str] = Counter()
    prompts: dict[str, str | Prompt] = {}
    steps: dict[str, int] = {}
    for model, stored in plans:
        name = f"{stored.plan.id} of {model}"
        counts[name] += 1
        unique = f"{name}, plan {counts[name]}" if counts[name] > 1 else name
        prompts[unique] = errors_prompt(stored, instances[instance_key(stored.plan.id)])
        steps[unique] = len(official_steps(stored.plan.text))

    def read(name: str, reply: dict[str, Any]) -> Errors:
        return read_errors(reply, steps[name])

    replies = ask_json("errors", prompts, settings, "types of errors", schema=_SCHEMA, read=read)
    default_model = next(iter(replies.models.values()), settings.name(settings.model))
    failures = {
        rejection.where: f"{rejection.reason}: {rejection.detail}"
        for rejection in replies.rejections
    }
    return [
        JudgedPlan(
            id=stored.plan.id,
            model=model,
            candidate=stored.plan.text,
            images=stored.images,
            people=stored.errors,
            judge=replies.values.get(name),
            judge_model=replies.models.get(name, default_model),
            error=failures.get(name),
            prompt=_PROMPT_VERSION,
        )
        for (model, stored), name in zip(plans, prompts, strict=True)
    ]


def errors_prompt(stored: StoredPlan, instance: ShownInstance) -> Prompt:
    """Build the prompt about a plan, with the pictures first if the plan's model saw them.

    The steps are unchanged, so the judge can report incorrect forms. The reply is JSON, so brackets
    in a plan cannot be mistaken for a verdict.
    """
    steps = official_steps(without_marks(stored.plan.text))
    images = instance.images if stored.images else ()
    text = _TEXTS["prompt"].format(
        pictures=_TEXTS["pictures"] if images else "",
        task=instance.description.strip(),
        references="\n\n".join("\n".join(gold) for gold in stored.plan.references),
        plan=numbered(steps) or "(no steps)",
    )
    urls = [jpeg_url(Image.open(BytesIO(image)), _LONGER_SIDE) for image in images]
    return Prompt(text, tuple(urls))


def read_errors(reply: dict[str, Any], steps: int) -> Errors:
    """Read the types of errors in a judge's reply; types without steps are dropped.

    Args:
        reply: The judge's JSON object.
        steps: Number of the plan's steps.

    Raises:
        ValueError: The reply has unknown keys, or values that are not steps of the plan.
    """
    if not reply.keys() <= ERRORS.keys():
        raise ValueError(f"expected types of errors, found {quoted(reply)}")
    for marked in reply.values():
        if not _are_steps(marked, steps):
            raise ValueError(f"expected steps of the plan, found {quoted(marked)}")
    return {key: sorted(set(reply[key])) for key in ERRORS if reply.get(key)}


def _are_steps(marked: Any, steps: int) -> bool:
    """Return True for a list of a plan's steps, from 1, or of 0 for the whole plan."""
    if not isinstance(marked, list):
        return False
    return all(type(step) is int and 0 <= step <= steps for step in marked)


def agreements(judged: Sequence[JudgedPlan]) -> dict[str, tuple[int, int, int, Agreement]]:
    """Compare judge and people on the plans that both marked, by type of error.

    Returns:
        By type: the number of plans that have it according to people, to the judge and to both; and
        the agreement. Empty if no plan was marked by both.
    """
    by_type: dict[str, tuple[int, int, int, Agreement]] = {}
    both = [plan for plan in judged if plan.people is not None and plan.judge is not None]
    if not both:
        return by_type
    for key in ERRORS:
        people = [float(key in (plan.people or ())) for plan in both]
        judge = [float(key in (plan.judge or ())) for plan in both]
        in_both = sum(a == b == 1 for a, b in zip(people, judge, strict=True))
        result = agreement(people, judge, (0.0, 1.0))
        by_type[key] = (int(sum(people)), int(sum(judge)), in_both, result)
    return by_type
