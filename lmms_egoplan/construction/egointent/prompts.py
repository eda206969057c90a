"""Ask a language model for the parts of a step.

The paper prints no prompts for this. The prompts in ``prompts.yaml`` are the project's own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_egoplan.jsonl import check_record
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import Record

PROMPTS: dict[str, Any] = module_yaml(__file__)


def ask(
    step: str,
    prompts: Mapping[str, str | Prompt],
    read: Callable[[str, Any], Any],
    settings: JudgeSettings,
    title: str,
) -> tuple[dict[str, Any], list[Rejection]]:
    """Call `ask_json` with the step's schema.

    The second prompt includes the problem of the first reply.
    """
    schema = PROMPTS["schemas"][step]
    replies = ask_json(
        step, prompts, settings, title, schema=schema, read=read, once_more=_second_prompt
    )
    return replies.values, replies.rejections


def read_fields(record_type: type[Record], reply: Any) -> Record:
    """Read a reply as a record.

    Raises:
        ValueError: The reply has another form.
    """
    record, problems = check_record(record_type, reply)
    if record is None:
        raise ValueError("; ".join(problems))
    return record


def bullets(texts: Sequence[str]) -> str:
    """Format narrations as a list."""
    return "\n".join(f"- {text}" for text in texts) or "(nothing is narrated)"


def _second_prompt(prompt: Prompt, problem: str) -> Prompt:
    return replace(prompt, text=PROMPTS["again"].format(prompt=prompt.text, problem=problem))
