"""Define the error of a judge that fails, and the judgements without a reply."""

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.endpoint import EndpointError
from lmms_egoplan.judging.judgement import Judgement
from lmms_egoplan.judging.progress import MessageWords
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.variables import MAX_TOKENS, PARAMETERS


class JudgeError(LmmsEgoplanError):
    """The judge cannot be reached, refuses, or stopped replying.

    The message quotes the endpoint and contains no secret.

    Attributes:
        judgements: One per request, in order; those without a rating have `error` set. Empty from
            `probe`.
    """

    def __init__(self, message: str, judgements: list[Judgement] | None = None) -> None:
        super().__init__(message)
        self.judgements = judgements or []


class NoReadableReplyError(EndpointError):
    """None of a model's first replies can be read."""

    def __init__(self, message: str) -> None:
        remedy = (
            f"Change the model (LMMS_EGOPLAN_JUDGE_MODEL), the token limit ({MAX_TOKENS}), the "
            "prompt (another judge protocol, if there is one) or the thinking "
            f"({PARAMETERS}, such as "
            '{"chat_template_kwargs": {"enable_thinking": false}}), then repeat the command: '
            "all answers are stored"
        )
        super().__init__(message, "cannot be used", remedy)


def failure_message(settings: JudgeSettings, error: EndpointError, words: MessageWords) -> str:
    """Return the message about an endpoint that failed."""
    return (
        f"The {words.model} {settings.model} at {settings.where} {error.what}: {error}. "
        f"{error.remedy}"
    )


def unrated(settings: JudgeSettings, error: str, finish: str | None = None) -> Judgement:
    """Return a judgement without a reply."""
    return Judgement(
        rating=None,
        reply=None,
        judge=settings.model,
        error=error,
        finish=finish,
        endpoint=settings.where,
        max_tokens=settings.max_tokens,
    )
