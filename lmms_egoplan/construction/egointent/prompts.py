"""What a language model is asked while steps are made, and how.

The paper prints no prompt for this: the project's own stand in ``prompts.yaml``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_egoplan.construction.egointent.steps import Step
from lmms_egoplan.judging import JudgeSettings
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.rejections import Rejection

# Candidates asked for of each field, and texts that tell where a video was taken: ours, the paper has no numbers.
CANDIDATES = 3
_SUMMARIES = 40

_PROMPTS: dict[str, Any] = yaml_beside(__file__)
_NOTHING = "(nothing is narrated)"


def ask(
    step: str,
    prompts: Mapping[str, str | Prompt],
    read: Callable[[str, Any], Any],
    settings: JudgeSettings,
    title: str,
) -> tuple[dict[str, Any], list[Rejection]]:
    """Call `ask_json` with the step's schema; the second prompt names the problem of the first reply."""
    schema = _PROMPTS["schemas"][step]
    return ask_json(step, prompts, settings, title, schema=schema, read=read, once_more=once_more)


def place_prompt(goal: str, texts: Sequence[str]) -> str:
    """Where a video was taken, by texts that sum up its parts."""
    return _PROMPTS["place"].format(goal=goal, texts=_lines(texts[:_SUMMARIES]))


def place_prompt_with_frames(goal: str, images: tuple[str, ...]) -> Prompt:
    """Where a video was taken, by frames as data URLs."""
    return Prompt(_PROMPTS["place_from_frames"].format(goal=goal), images)


def candidates_prompt(step: Step) -> str:
    """Candidates of a step's procedural intent and next step, by the whole event's context (sec. 3.3)."""
    segment, purpose = step.leaf
    part = segment.step_description
    return _PROMPTS["candidates"].format(
        goal=step.video.goal_description,
        part=part if purpose == step.video.goal_description else f"{purpose}: {part}",
        before=_lines([narration.text for narration in step.before]),
        narration=step.narration.text,
        after=_lines([narration.text for narration in step.after]),
        count=CANDIDATES,
    )


def support_prompt(step: Step, candidates: Mapping[str, Sequence[str]]) -> str:
    """Which candidates are supported by what comes before the cut; nothing that comes after it is told (sec. 3.3)."""
    return _PROMPTS["support"].format(
        before=_lines([narration.text for narration in step.before]),
        narration=step.narration.text,
        **{name: _numbered(texts) for name, texts in candidates.items()},
    )


def once_more(prompt: Prompt, problem: str) -> Prompt:
    """The same question after a reply that could not be used."""
    return replace(prompt, text=_PROMPTS["again"].format(prompt=prompt.text, problem=problem))


def _lines(texts: Sequence[str]) -> str:
    return "\n".join(f"- {text}" for text in texts) or _NOTHING


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
