"""JSON that a language model was asked for, for what benchmarks are made of."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode_objects, repetition
from lmms_egoplan.judging.judge import complete_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.reply import is_cut, without_thinking
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings, judge_settings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import shown

NO_REPLY = "no reply"
CUT_OFF = "reply that was cut off"
NOT_JSON = "reply that is not JSON"

_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.IGNORECASE | re.DOTALL)


def language_model(default_model: str, name: str | None = None) -> JudgeSettings:
    """The language model to ask, set as a judge is set.

    Args:
        default_model: asked where neither `name` nor the environment names one.
        name: of the model, as the endpoint has it.

    Raises:
        LmmsEgoplanError: the environment sets none, or sets it wrongly.
    """
    settings = judge_settings(default_model)
    if settings is None:
        raise LmmsEgoplanError(f"no language model is set to ask. Set one as a judge is set:\n{HOW_TO_SET}")
    return replace(settings, model=name) if name else settings


def ask_json(
    step: str, prompts: Mapping[str, str | Prompt], settings: JudgeSettings, title: str, show_progress: bool
) -> dict[str, Any]:
    """Ask a language model for JSON.

    Args:
        step: see `Rejection`.
        prompts, title: see `complete_all`; without prompts, nothing is asked.

    Returns:
        By the prompts' names, what each reply says; a `Rejection` where there is no JSON.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    replies: dict[str, Any] = {}
    if not prompts:
        return replies
    for name, reply in complete_all(prompts, settings, title=title, show_progress=show_progress).items():
        if reply.error is not None:
            reason = CUT_OFF if is_cut(reply.finish or "") else NO_REPLY
            replies[name] = Rejection(step, reason, name, reply.error)
            continue
        try:
            replies[name] = read_json_reply(reply.reply or "")
        except ValueError as error:
            replies[name] = Rejection(step, NOT_JSON, name, str(error))
    return replies


def read_json_reply(reply: str) -> Any:
    """The JSON that a reply is, behind a model's thinking, alone or alone in a code block.

    Raises:
        ValueError: it is something else, or an object in it has a key more than once.
    """
    text = without_thinking(reply)
    if text is None:
        raise ValueError("the model's thinking does not end")
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = decode_objects(fenced[1] if fenced else text)
    except ValueError as error:
        raise ValueError(f"{error}: {shown(text.strip())}") from error
    if problem := repetition(value):
        raise ValueError(problem)
    return value
