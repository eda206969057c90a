"""Ask language models for JSON: for what benchmarks are made of, and for judges that answer in JSON."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.asking import Asking
from lmms_egoplan.judging.json_text import CUT_OFF, NOT_JSON, UnreadableError, read_json_reply
from lmms_egoplan.judging.judge import complete_all
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.reply import is_ended
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings, judge_settings, set_model
from lmms_egoplan.rejections import Rejection

__all__ = ["CUT_OFF", "NOT_JSON", "NO_REPLY", "WRONG_FORM", "ask_json", "language_model"]

NO_REPLY = "no reply"
WRONG_FORM = "reply of another form than asked for"


def language_model(default_model: str, name: str | None = None, asking: Asking | None = None) -> JudgeSettings:
    """Return the language model to ask, set as a judge is set.

    Args:
        default_model: asked where neither `name` nor the environment names one.
        name: of the model, as the endpoint has it.
        asking: options of the command; an estimate needs no endpoint.

    Raises:
        LmmsEgoplanError: the environment sets none, or sets it wrongly.
    """
    settings = judge_settings(default_model)
    if settings is None and asking is not None and asking.is_estimate:
        settings = JudgeSettings(set_model()[1] or default_model)
    if settings is None:
        raise LmmsEgoplanError(f"no language model is set to ask. Set one as a judge is set:\n{HOW_TO_SET}")
    return replace(settings, model=name or settings.model, asking=asking or settings.asking)


def ask_json(
    step: str,
    prompts: Mapping[str, str | Prompt],
    settings: JudgeSettings,
    title: str,
    *,
    kind: type = dict,
    schema: Mapping[str, Any] | None = None,
    read: Callable[[str, Any], Any] = lambda _, value: value,
    once_more: Callable[[Prompt, str], Prompt] = lambda prompt, _: replace(prompt, repeat=prompt.repeat + 1),
) -> tuple[dict[str, Any], list[Rejection]]:
    """Ask a language model for JSON, and once more where the reply cannot be used.

    The second request has a cache key of its own.
    Replies in the cache are read by the same rules as new ones. `settings.asking` counts the prompts and those without
    a usable reply, and names the models that answered. Its `retry_rejected` requests rejected replies again that were
    in the cache.

    Args:
        step: see `Rejection`.
        prompts, title: see `complete_all`; without prompts, nothing is asked.
        kind: see `read_json_reply`.
        schema: JSON schema of the reply, for endpoints that support one.
        read: Convert a reply's JSON, given the prompt's name; raises ValueError if it has another form.
        once_more: Make the second prompt from the first one and the problem; by default, the prompt is repeated.

    Returns:
        By the prompts' names, what `read` returned; and a `Rejection` for each prompt without a usable reply.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    whole = {
        name: replace(prompt if isinstance(prompt, Prompt) else Prompt(prompt), schema=schema)
        for name, prompt in prompts.items()
    }

    def ask_twice(some: Mapping[str, Prompt], title: str, settings: JudgeSettings) -> dict[str, tuple[Any, bool]]:
        found: dict[str, tuple[Any, bool]] = {}
        for words in (title, f"{title}, once more"):
            replies = complete_all(some, settings, title=words)
            settings.asking.models |= {name: reply.judge for name, reply in replies.items() if reply.reply is not None}
            new = {name: _value(step, name, reply, kind, read) for name, reply in replies.items()}
            found |= {name: (new[name], reply.cached) for name, reply in replies.items()}
            some = {
                name: once_more(some[name], f"{value.reason}: {value.detail}")
                for name, value in new.items()
                if isinstance(value, Rejection) and value.reason != NO_REPLY
            }
        return found

    found = ask_twice(whole, title, settings)
    if settings.asking.retry_rejected:
        stale = {
            name: whole[name] for name, (value, cached) in found.items() if cached and isinstance(value, Rejection)
        }
        found |= ask_twice(stale, f"{title}, rejected before", replace(settings, is_afresh=True))
    rejections = [value for value, _ in found.values() if isinstance(value, Rejection)]
    settings.asking.asked += len(found)
    settings.asking.lost += len(rejections)
    return {name: value for name, (value, _) in found.items() if not isinstance(value, Rejection)}, rejections


def _value(step: str, name: str, reply: Judgement, kind: type, read: Callable[[str, Any], Any]) -> Any:
    """Read a reply, or say why it cannot be used."""
    if is_ended(reply.finish or "") is not True:
        return Rejection(step, CUT_OFF, name, reply.error or f"finish_reason {reply.finish!r}")
    if reply.error is not None:
        return Rejection(step, NO_REPLY, name, reply.error)
    try:
        return read(name, read_json_reply(reply.reply or "", kind))
    except UnreadableError as error:
        return Rejection(step, error.reason, name, str(error))
    except ValueError as error:
        return Rejection(step, WRONG_FORM, name, str(error))
