"""Ask a judge, or any language model, about many things at once; from the cache what was asked before."""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from loguru import logger

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.asking import EstimatedStep, prompt_tokens
from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.judging.dispatch import Dispatcher
from lmms_egoplan.judging.endpoint import PROBING, BusyError, Endpoint, EndpointError, NoAnswerError
from lmms_egoplan.judging.judgement import DEMO, Judgement, JudgeRequest, Prompt, RatingScale, judge_by_words
from lmms_egoplan.judging.progress import Progress
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.text import clean_text

Result = TypeVar("Result")

_PROBE = Prompt("Reply with the word: ready")


class JudgeError(LmmsEgoplanError):
    """The judge cannot be asked, refuses, or is gone; the message has the endpoint's words and no secret.

    judgements: one per request, in order; those without a rating have their `error` set. Empty from `probe`.
    """

    def __init__(self, message: str, judgements: list[Judgement] | None = None) -> None:
        super().__init__(message)
        self.judgements = judgements or []


def judge_all(
    requests: Sequence[JudgeRequest],
    scale: RatingScale,
    settings: JudgeSettings,
    *,
    title: str = "",
) -> list[Judgement]:
    """Judge all requests, `settings.concurrency` at a time, and store every rated reply as it comes.

    What the cache (`default_cache_path`) has a rated reply for is not asked, even if that reply has no clear rating by
    today's rule; a prompt that occurs twice is asked once, by one process where several judge the same; what was
    refused or not rated before is asked last. A reply without a rating, or cut off, is asked again twice; a request
    that the endpoint refuses by 400, 413 or 422 is not. Halves of surrogate pairs in a prompt are asked as ``?``.
    Works whether or not an event loop runs in this thread. The model ``"demo"`` compares words in the process, without
    cache.

    Args:
        title: of what is judged, short, for the progress bar and the log.

    Returns:
        One judgement per request, in order; without a rating, and with an error, where the judge gave none.

    Raises:
        JudgeError: the endpoint refuses a request (a 4xx other than 400, 408, 409, 413, 422 and 429, or an account
            without credit), refuses all of the first ten in the same words, or gives no reply to many answers in a row
            (twice `settings.concurrency`, at least 8), which ends all others too; or nothing was asked, as the cache
            cannot be used or no client can be made.

    >>> scale = RatingScale(read=float, best=1)
    >>> requests = [
    ...     JudgeRequest("question/1", "Rate the answer: a red cup", reference="a cup", answer="a red cup"),
    ...     JudgeRequest("question/2", "Rate the answer: A cup.", reference="a cup", answer="A cup."),
    ... ]
    >>> judgements = judge_all(requests, scale, JudgeSettings("demo"))
    >>> [judgement.rating for judgement in judgements]
    [0.5, 1]
    >>> judgements[0].reply
    "Word comparison: 2 of 3 words are among the reference's 2. Rating: [[0.5]]"
    """
    progress = Progress(title, settings.model, len(requests))
    if settings.model == DEMO:
        progress.start(cached=0)
        progress.finish(judged=len(requests))
        progress.close()
        return [judge_by_words(request, scale.best) for request in requests]
    prompts = [Prompt(clean_text(request.prompt), request.images, request.repeat) for request in requests]
    return _ask_all([request.id for request in requests], prompts, scale, settings, progress)


def complete_all(prompts: Mapping[str, str | Prompt], settings: JudgeSettings, *, title: str) -> dict[str, Judgement]:
    """Send a language model all prompts, each one user message, and store every reply as it comes.

    As `judge_all`, but any text will do as a reply that the model has ended. No reply is paid for twice: one that was
    cut off is asked again only with another limit on tokens, and one that did not come, or was refused, each time.

    Args:
        prompts: by the ids that name them in messages; a text, or images before it. Without any, nothing is asked.

    Returns:
        By id, the `reply`, or the `error`; no ratings.

    Raises:
        JudgeError: as from `judge_all`; or the model is the demo's judge, which writes nothing.
    """
    if not prompts:
        return {}
    if settings.model == DEMO:
        raise JudgeError(f"The model {DEMO!r} compares words and writes nothing. Set another LMMS_EGOPLAN_JUDGE_MODEL")
    progress = Progress(title, settings.model, len(prompts), ("Asking for", "prompts", "answered"))
    whole = (Prompt(prompt) if isinstance(prompt, str) else prompt for prompt in prompts.values())
    cleaned = [replace(prompt, text=clean_text(prompt.text)) for prompt in whole]
    return dict(zip(prompts, _ask_all(list(prompts), cleaned, None, settings, progress), strict=True))


def _ask_all(
    ids: Sequence[str],
    prompts: Sequence[Prompt],
    scale: RatingScale | None,
    settings: JudgeSettings,
    progress: Progress,
) -> list[Judgement]:
    """Return what becomes of all prompts, in order; see `judge_all`, and `complete_all` without a scale."""
    answers: dict[Prompt, list[str]] = defaultdict(list)
    for prompt, answer in zip(prompts, ids, strict=True):
        answers[prompt].append(answer)
    judgements: dict[Prompt, Judgement] = {}
    failure = None
    try:
        with JudgementCache(default_cache_path()) as cache:
            dispatcher = Dispatcher(answers, scale, settings, cache, progress)
            judgements = dispatcher.judgements
            dispatcher.restore()
            try:
                unanswered = [prompt for prompt in answers if prompt not in judgements]
                if settings.asking.is_estimate:
                    sent = sum(map(prompt_tokens, unanswered))
                    received = len(unanswered) * settings.max_tokens
                    step = EstimatedStep(progress.title, len(unanswered), sent, received, settings.model)
                    settings.asking.steps.append(step)
                    unasked = Judgement(None, None, settings.model, error="not sent: this is an estimate")
                    judgements |= dict.fromkeys(unanswered, unasked)
                elif unanswered:
                    announce(settings)
                    _run_apart(dispatcher.run())
            finally:
                progress.close({each.judge for each in judgements.values() if each.reply is not None})
                judgements |= {
                    prompt: replace(judgement, judge=settings.name(judgement.judge))
                    for prompt, judgement in judgements.items()
                }
    except CacheError as error:
        failure = str(error)
    except EndpointError as error:
        failure = _told(settings, error, "language model" if scale is None else "judge")
    except KeyboardInterrupt:
        logger.warning(f"Stopped: what has been {progress.words[2]} is stored; the same command goes on from there")
        raise
    if failure is None:
        return [judgements[prompt] for prompt in prompts]
    unasked = Judgement(None, None, settings.model, error=f"not {progress.words[2]}: {failure}")
    raise JudgeError(failure, [judgements.get(prompt, unasked) for prompt in prompts])


@functools.cache
def announce(settings: JudgeSettings) -> None:
    """Log once in a process which model is asked, and where."""
    logger.info(f"Asking {settings.name(settings.model)} at {settings.where}")


def probe(settings: JudgeSettings) -> str:
    """Send the judge one short request; returns the name of the model that answered.

    An endpoint that is too busy (429) is there and knows the key: a warning tells, and the name is the one asked for.

    Raises:
        JudgeError: the endpoint refuses, cannot be reached, or answers with something else than a chat completion; or
            no client can be made.

    >>> probe(JudgeSettings("demo"))
    'demo'
    """
    if settings.model == DEMO:
        return DEMO
    announce(settings)

    async def ask() -> str:
        async with Endpoint(settings, lambda: None, PROBING) as endpoint:
            reply, _ = await endpoint.ask(_PROBE)
            if reply.problem:
                raise NoAnswerError(f"its reply cannot be used: {reply.problem}")
            return settings.name(reply.model or settings.model)

    try:
        return _run_apart(ask())
    except BusyError as error:
        logger.warning(f"The judge {settings.model} at {settings.where} is busy, and will be asked again: {error}")
        return settings.model
    except EndpointError as error:
        failure = _told(settings, error)
    raise JudgeError(failure)


def _told(settings: JudgeSettings, error: EndpointError, model: str = "judge") -> str:
    return f"The {model} {settings.model} at {settings.where} {error.WHAT}: {error}. Check {error.CHECK}"


def _run_apart(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread with a loop of its own: the caller's may be running. Ctrl-C cancels it first."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)

    def run() -> Result:
        try:
            return loop.run_until_complete(task)
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    with ThreadPoolExecutor(1, thread_name_prefix="judging") as pool:
        try:
            return pool.submit(run).result()
        except KeyboardInterrupt:
            with suppress(RuntimeError):  # the loop is closed: all is done already
                loop.call_soon_threadsafe(task.cancel)
            raise
