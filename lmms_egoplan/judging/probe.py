"""Test a judge with one request before anything depends on it."""

import asyncio
import functools
from collections.abc import Callable
from dataclasses import replace

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.judging.endpoint import (
    PROBING,
    EndpointError,
    NoAnswerError,
    RefusedRequestError,
)
from lmms_egoplan.judging.failures import JudgeError, failure_message
from lmms_egoplan.judging.judgement import DEMO, Judgement, Prompt
from lmms_egoplan.judging.progress import JUDGING_WORDS, MessageWords
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings, judge_settings, set_model
from lmms_egoplan.judging.text import NO_TEXT
from lmms_egoplan.judging.threads import run_in_thread

ProbeForm = Callable[[JudgeSettings], tuple[JudgeSettings, Prompt]]
"""Return the settings and the form of prompts of a benchmark's judge, see `probe`."""

PROBE = Prompt("Reply with the word: ready")
# Token limit of the reply to the probe.
_PROBE_TOKENS = 16
# Seconds until the probe says that it is waiting.
_SILENCE_S = 10.0


def probe(
    settings: JudgeSettings, form: Prompt = PROBE, words: MessageWords = JUDGING_WORDS
) -> str:
    """Send the judge one request with a short limit on its reply; return the replying model's name.

    Any chat completion passes, even if it is cut off. If the endpoint refuses the limit, the
    request is repeated with that of `settings`. An endpoint that is too busy (429) passes, because
    it accepts the key. A warning is logged, and the requested name is returned. The probe waits up
    to 60 s, or up to 300 s while the endpoint replies 503, for both requests together, and logs
    after 10 s that it is waiting.

    Args:
        settings: the judge.
        form: a prompt of the same form as those that will be sent: system message, images, schema.
        words: words for messages.

    Raises:
        JudgeError: the endpoint refuses, is unreachable, or does not return a chat completion; or
            no client can be created; or a limit on requests or cost is reached.
        LmmsEgoplanError: the cost has a limit, but the file of prices lacks the judge.

    >>> probe(JudgeSettings("demo"))
    'demo'
    """
    if settings.model == DEMO:
        return DEMO
    if settings.options.max_cost is not None:
        settings.options.price(settings.model)
    announce_endpoint(settings)
    try:
        return run_in_thread(_Probe(settings, form).ask())
    except EndpointError as error:
        if isinstance(error, NoAnswerError) and error.is_busy:
            logger.warning(
                f"The {words.model} {settings.model} at {settings.where} is busy; requests will "
                f"be retried: {error}"
            )
            return settings.model
        failure = failure_message(settings, error, words)
    raise JudgeError(failure)


class _Probe:
    """The test request, and its repetition with another limit. They share the time."""

    def __init__(self, settings: JudgeSettings, form: Prompt) -> None:
        self._settings = settings
        self._form = form
        self._remaining = PROBING

    async def ask(self) -> str:
        """Send the request; return the name of the model that replied.

        Raises:
            EndpointError: see `Client.ask`, or the reply cannot be used.
        """
        announcement = asyncio.create_task(_announce_wait(self._settings))
        try:
            reply = await self._send_shortened()
        finally:
            announcement.cancel()
        cost = self._settings.options.cost(
            self._settings.model, reply.prompt_tokens, reply.completion_tokens
        )
        if cost:
            self._settings.usage.limits.pay(cost, is_typical=False)
        if reply.error not in (None, NO_TEXT):
            raise NoAnswerError(f"its reply cannot be used: {reply.error}")
        return self._settings.name(reply.judge)

    async def _send_shortened(self) -> Judgement:
        """Send the request with a short limit, and again with the usual one if that is refused."""
        max_tokens = self._settings.max_tokens
        try:
            return await self._send(min(max_tokens, _PROBE_TOKENS))
        except RefusedRequestError as error:
            # Some models refuse a limit that ends their thinking, or that is lower than another
            # parameter.
            if "token" not in str(error) or max_tokens <= _PROBE_TOKENS:
                raise
            return await self._send(max_tokens)

    async def _send(self, max_tokens: int) -> Judgement:
        """Send the request once, with a limit on the reply."""
        from lmms_egoplan.judging.client import Client

        settings = replace(self._settings, max_tokens=max_tokens)
        limits = settings.usage.limits
        bound = settings.options.highest_cost(settings.model, self._form, max_tokens)
        await limits.reserve(bound)
        try:
            async with Client(settings, limits.retry, self._remaining) as client:
                try:
                    return await client.ask(self._form)
                finally:
                    self._remaining = client.rest
        finally:
            limits.release(bound)


async def _announce_wait(settings: JudgeSettings) -> None:
    await asyncio.sleep(_SILENCE_S)
    logger.info(
        f"Waiting for {settings.name(settings.model)} at {settings.where}, for at most "
        f"{PROBING.total_s:.0f} s, or {PROBING.loading_s:.0f} s while it replies 503"
    )


def announce_judge(
    default_model: str, otherwise: str = "", probe_form: ProbeForm | None = None
) -> None:
    """Test the configured judge with one request, or log how to configure a judge.

    Repeated calls do nothing.

    Args:
        default_model: see `judge_settings`.
        otherwise: one line about alternatives, logged if no judge is configured.
        probe_form: the form of the test request; None for a short text.

    Raises:
        JudgeError: the configured judge is unreachable or refuses, or its cache cannot be used.
        LmmsEgoplanError: a setting of the judge is wrong; see `judge_settings`.
    """
    settings = judge_settings(default_model)
    if settings is None:
        missing = "No judge is set: answers are saved without ratings, and `score` is NaN."
        log_once("WARNING", f"{missing} Set a judge with\n{HOW_TO_SET}")
        if otherwise:
            log_once("WARNING", otherwise)
        return
    form = PROBE
    tested = settings
    if probe_form is not None:
        tested, form = probe_form(settings)
    _try(tested, form)
    variable, _ = set_model()
    if not variable:
        log_once(
            "INFO",
            "Each benchmark uses its own default judge. To use one judge for all, set "
            "LMMS_EGOPLAN_JUDGE_MODEL.",
        )
    elif settings.model != DEMO:
        log_once(
            "INFO", f"{variable} sets the judge for all benchmarks and overrides their defaults."
        )


@functools.cache
def _try(settings: JudgeSettings, form: Prompt) -> None:
    """Test the cache and the judge, once for each judge and form."""
    if settings.model != DEMO:
        try:
            with JudgementCache(default_cache_path()):
                pass
        except CacheError as error:
            raise JudgeError(str(error)) from None
    logger.info(f"Judge: {probe(settings, form)}")


def announce_endpoint(settings: JudgeSettings) -> None:
    """Log once which model is asked, and where."""
    log_once("INFO", f"Asking {settings.name(settings.model)} at {settings.where}")


@functools.cache
def log_once(level: str, message: str) -> None:
    """Log a message unless it was logged before."""
    logger.log(level, message)
