"""Replies of a language model that are checked, and asked for once more."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lmms_egoplan.benchmarks.egointent.construction.prompts import once_more
from lmms_egoplan.judging import JudgeSettings
from lmms_egoplan.judging.json_replies import NO_REPLY, ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.rejections import Rejection

WRONG_FORM = "reply of another form than asked for"

Value = TypeVar("Value")


def ask_checked(
    step: str,
    prompts: Mapping[str, str | Prompt],
    read: Callable[[str, Any], Value],
    settings: JudgeSettings,
    title: str,
    show_progress: bool,
) -> dict[str, Value | Rejection]:
    """Ask for JSON of a form; what cannot be used is asked for once more, in other words.

    Args:
        step, prompts, title: see `ask_json`.
        read: what a reply says, given the prompt's name and its JSON; raises ValueError where the form is another.

    Returns:
        By the prompts' names, what `read` returned; a `Rejection` where the second reply is of no use either, or none
        came, after the client's own attempts.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    first = _read_all(step, prompts, read, settings, title, show_progress)
    again = {
        name: once_more(prompts[name], f"{found.reason}: {found.detail}")
        for name, found in first.items()
        if isinstance(found, Rejection) and found.reason != NO_REPLY
    }
    if not again:
        return first
    return first | _read_all(step, again, read, settings, f"{title}, once more", show_progress)


def _read_all(
    step: str,
    prompts: Mapping[str, str | Prompt],
    read: Callable[[str, Any], Value],
    settings: JudgeSettings,
    title: str,
    show_progress: bool,
) -> dict[str, Value | Rejection]:
    values: dict[str, Value | Rejection] = {}
    for name, reply in ask_json(step, prompts, settings, title, show_progress).items():
        if isinstance(reply, Rejection):
            values[name] = reply
            continue
        try:
            values[name] = read(name, reply)
        except ValueError as error:
            values[name] = Rejection(step, WRONG_FORM, name, str(error))
    return values
