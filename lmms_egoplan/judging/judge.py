"""Send many prompts to a judge or another language model concurrently. Reuse cached replies."""

import asyncio
import functools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, TypeVar

from loguru import logger

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.asking import FIRST_REPLIES, Step, Verdicts, prompt_tokens
from lmms_egoplan.judging.cache import (
    CacheError,
    JudgementCache,
    PromptLeases,
    cache_key,
    default_cache_path,
)
from lmms_egoplan.judging.endpoint import (
    JUDGING,
    PROBING,
    EndpointError,
    NoAnswerError,
    RefusedRequestError,
)
from lmms_egoplan.judging.judgement import (
    DEMO,
    Judgement,
    JudgeRequest,
    Prompt,
    RatingScale,
    judge_by_words,
)
from lmms_egoplan.judging.limits import LimitError
from lmms_egoplan.judging.progress import Progress, Words
from lmms_egoplan.judging.settings import (
    HOW_TO_SET,
    MAX_TOKENS,
    PARAMETERS,
    JudgeSettings,
    judge_settings,
    set_model,
)
from lmms_egoplan.judging.text import NO_TEXT, is_cut, is_ended, is_unclear, read_rating
from lmms_egoplan.text import clean_text, join_list, strip_controls

if TYPE_CHECKING:
    from lmms_egoplan.judging.batches import Batches
    from lmms_egoplan.judging.client import Client

Result = TypeVar("Result")
ProbeForm = Callable[[JudgeSettings], tuple[JudgeSettings, Prompt]]
"""Return the settings and the form of prompts of a benchmark's judge, see `probe`."""

PROBE = Prompt("Reply with the word: ready")
# Token limit of the reply to the probe.
_PROBE_TOKENS = 16
# Seconds until the probe says that it is waiting.
_SILENCE_S = 10.0
_JUDGING = Words("Judging", "answers", "judged", "judge")
_WRITING = Words("Asking for", "prompts", "answered", "language model")
# Judging allows two repeats after a reply without a rating. Plain completions are never repeated.
_ATTEMPTS = 3
# The run ends after this many requests in a row without a reply, or after twice the concurrency if
# that is more.
_LEAST_IN_A_ROW = 8
# Number of first requests. The run ends if all of them are refused with the same message.
_FIRST_ANSWERS = 10
# The run ends after this number of replies if none of them can be read.
_UNREADABLE = 20
# Characters of the beginning and of the end of such a reply that are printed.
_SHOWN = 250
# Seconds between updates of the waits in the progress bar.
_TICK_S = 5.0
# Error for a stored reply whose rating no longer counts.
_UNCLEAR = "the judge's stored reply has no clear rating; it is not requested again"


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


def judge_all(
    requests: Sequence[JudgeRequest],
    scale: RatingScale,
    settings: JudgeSettings,
    *,
    title: str = "",
) -> list[Judgement]:
    """Judge all requests, `settings.concurrency` at a time, and store every rated reply when it
    arrives.

    - A prompt with a rated reply in the cache (`default_cache_path`) is not sent. This holds even
      if the current rule finds no clear rating in the reply.
    - Duplicate prompts are sent once. If several processes judge the same prompt, only one of them
      sends it.
    - Prompts that were refused or not rated before are sent last.
    - A reply that is cut off or has no rating is requested up to two more times. A request that the
      endpoint refuses with 400, 413 or 422 is not repeated.
    - Lone surrogates in a prompt are sent as ``?``.
    - If none of the first 20 replies can be read, no more are requested. Later calls with the same
      `settings.asking` then request none.
    - `settings.asking` limits requests and cost. At a limit, requests in flight are finished, and
      no more are sent.
    - The model ``"demo"`` compares words in this process, without the cache.

    Works with or without a running event loop in this thread.

    Args:
        requests: the answers to judge.
        scale: reads the ratings.
        settings: the judge.
        title: short name of the task, for the progress bar and the log.

    Returns:
        One judgement per request, in order. If the judge gave no rating, `rating` is None and
        `error` is set.

    Raises:
        JudgeError: judging stopped early, for one of these reasons:
            - The endpoint refused with a 4xx status other than 400, 408, 409, 413, 422 and 429, or
              because the account has no credit.
            - It refused all of the first ten answers with the same message.
            - Many requests in a row got no reply (twice `settings.concurrency`, at least 8).
            - None of the first 20 replies can be read, not counting filtered ones. The message
              quotes the last one.
            - A limit on requests or cost is reached.
            - The cache cannot be used, or no client can be created.

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
    if settings.model == DEMO:
        progress = Progress(_JUDGING, title, len(requests))
        progress.count(judged=len(requests))
        progress.summarize([DEMO], "0 tokens", "0 tokens")
        return [judge_by_words(request, scale.best) for request in requests]
    prompts = [
        Prompt(x.prompt, x.images, x.repeat, system=x.system, protocol=x.protocol) for x in requests
    ]
    return _ask_all([request.id for request in requests], prompts, scale, settings, title)


def complete_all(
    prompts: Mapping[str, Prompt],
    settings: JudgeSettings,
    *,
    title: str,
    step: str = "",
    is_readable: Callable[[str, Judgement], bool] = lambda _, reply: reply.error is None,
) -> dict[str, Judgement]:
    """Send every prompt to a language model as one user message, and store every reply when it
    arrives.

    Works like `judge_all`, except that any complete reply is accepted. No reply is paid for twice:
    after a reply that was cut off, its prompt is sent again only with another token limit. Prompts
    that were refused or got no reply are sent each time.

    Args:
        prompts: prompts by the id that names them in messages. May be empty.
        settings: the language model.
        title: short name of the task, for the progress bar and the log.
        step: name of the requests whose first 20 replies count together, see `judge_all`.
        is_readable: whether a reply to the prompt with this id can be read.

    Returns:
        Judgements by id, with `reply` or `error` but no rating.

    Raises:
        JudgeError: see `judge_all`; or the model is the demo judge, which writes no text.
    """
    if not prompts:
        return {}
    if settings.model == DEMO:
        raise JudgeError(
            f"The model {DEMO!r} writes no text. Set LMMS_EGOPLAN_JUDGE_MODEL to another model"
        )
    judgements = _ask_all([*prompts], [*prompts.values()], None, settings, title, step, is_readable)
    return dict(zip(prompts, judgements, strict=True))


def probe(settings: JudgeSettings, form: Prompt = PROBE) -> str:
    """Send the judge one request with a short limit on its reply; return the name of the model that
    replied.

    Any chat completion passes, even if it is cut off. If the endpoint refuses the limit, the
    request is repeated with that of `settings`. An endpoint that is too busy (429) passes, because
    it accepts the key. A warning is logged, and the requested name is returned. The probe waits up
    to 60 s, or up to 300 s while the endpoint replies 503, for both requests together, and logs
    after 10 s that it is waiting.

    Args:
        settings: the judge.
        form: a prompt of the same form as those that will be sent: system message, images, schema.

    Raises:
        JudgeError: the endpoint refuses, is unreachable, or does not return a chat completion; or
            no client can be created; or a limit on requests or cost is reached.
        LmmsEgoplanError: the cost has a limit, but the file of prices lacks the judge.

    >>> probe(JudgeSettings("demo"))
    'demo'
    """
    if settings.model == DEMO:
        return DEMO
    asking = settings.asking
    if asking.max_cost is not None:
        asking.price(settings.model)
    _log_once("INFO", f"Asking {settings.name(settings.model)} at {settings.where}")

    async def ask() -> str:
        from lmms_egoplan.judging.client import Client

        patience = PROBING

        async def send(max_tokens: int) -> Judgement:
            nonlocal patience
            bound = asking.highest_cost(settings.model, form, max_tokens)
            await asking.limits.reserve(bound)
            try:
                async with Client(
                    replace(settings, max_tokens=max_tokens), asking.limits.retry, patience
                ) as client:
                    try:
                        return await client.ask(form)
                    finally:
                        patience = client.rest
            finally:
                asking.limits.release(bound)

        waiting = asyncio.create_task(_announce_wait(settings))
        try:
            reply = await send(min(settings.max_tokens, _PROBE_TOKENS))
        except RefusedRequestError as error:
            # Some models refuse a limit that ends their thinking, or that is lower than another
            # parameter.
            if "token" not in str(error) or settings.max_tokens <= _PROBE_TOKENS:
                raise
            reply = await send(settings.max_tokens)
        finally:
            waiting.cancel()
        if cost := asking.cost(settings.model, reply.prompt_tokens, reply.completion_tokens):
            asking.limits.pay(cost, is_typical=False)
        if reply.error not in (None, NO_TEXT):
            raise NoAnswerError(f"its reply cannot be used: {reply.error}")
        return settings.name(reply.judge)

    try:
        return _run_in_thread(ask())
    except EndpointError as error:
        if isinstance(error, NoAnswerError) and error.is_busy:
            logger.warning(
                f"The judge {settings.model} at {settings.where} is busy; judging will "
                f"retry: {error}"
            )
            return settings.model
        failure = _message(settings, error, _JUDGING)
    raise JudgeError(failure)


async def _announce_wait(settings: JudgeSettings) -> None:
    await asyncio.sleep(_SILENCE_S)
    logger.info(
        f"Waiting for {settings.name(settings.model)} at {settings.where}, for at most "
        f"{PROBING.total_s:.0f} s, or "
        f"{PROBING.loading_s:.0f} s while it replies 503"
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
        _log_once("WARNING", f"{missing} Set a judge with\n{HOW_TO_SET}")
        if otherwise:
            _log_once("WARNING", otherwise)
        return
    _try(*((settings, PROBE) if probe_form is None else probe_form(settings)))
    variable, _ = set_model()
    if not variable:
        hint = (
            "Each benchmark uses its own default judge. To use one judge for all, set "
            "LMMS_EGOPLAN_JUDGE_MODEL."
        )
        _log_once("INFO", hint)
    elif settings.model != DEMO:
        _log_once(
            "INFO", f"{variable} sets the judge for all benchmarks and overrides their defaults."
        )


def announce_requests(task: str, requests: int, default_model: str) -> None:
    """Log how many requests to the judge a task needs, before the model runs.

    Log nothing for the demo judge.

    Args:
        task: name of the task.
        requests: the highest possible number, without the repeats after replies without a rating.
        default_model: see `judge_settings`.
    """
    settings = judge_settings(default_model)
    if settings is not None and settings.model != DEMO:
        logger.info(
            f"{task}: up to {requests:,} requests to the judge {settings.model}; stored "
            "judgements cost none"
        )


class UnreadableError(EndpointError):
    """None of a model's first replies can be read."""

    def __init__(self, message: str) -> None:
        remedy = (
            f"Change the model (LMMS_EGOPLAN_JUDGE_MODEL), the token limit ({MAX_TOKENS}), the "
            "prompt (another judge "
            f"protocol, if there is one) or the thinking ({PARAMETERS}, such as "
            '{"chat_template_kwargs": '
            '{"enable_thinking": false}}), then repeat the command: all answers are stored'
        )
        super().__init__(message, "cannot be used", remedy)


class Judge:
    """A judge for one or more batches. After a batch fails, later batches are not sent.

    Attributes:
        failure: Why a batch failed; None if none has.
    """

    def __init__(self, title: str, settings: JudgeSettings, hint: str) -> None:
        """Create the judge without sending anything.

        Args:
            title: short name of the task.
            settings: the judge.
            hint: text for the log if the judge fails, about the answers without ratings.
        """
        self.failure: str | None = None
        self._title, self._settings, self._hint = title, settings, hint

    def rate(
        self, requests: Sequence[JudgeRequest], scale: RatingScale, part: str = ""
    ) -> list[Judgement]:
        """Judge like `judge_all`, but log errors, except those of the test request.

        Judgements then contain the error.

        Args:
            requests: the answers to judge.
            scale: reads the ratings.
            part: short name of this batch, for the progress bar.

        Raises:
            JudgeError: the test request of `settings.asking` failed.
        """
        if self.failure is not None or not requests:
            return [_unrated(self._settings, f"not judged: {self.failure}")] * len(requests)
        try:
            return judge_all(
                requests, scale, self._settings, title=f"{self._title} {part}".rstrip()
            )
        except JudgeError as error:
            if not error.judgements:  # the test request failed
                raise
            self.failure = str(error)
            logger.error(f"{self._title}: {error}\n{self._hint}")
            return error.judgements


def warn_of_missing_ratings(
    title: str,
    names: Sequence[str],
    total: int,
    items: str,
    effect: str = "the scores exclude them",
) -> None:
    """Log one warning that lists items without a rating, at most 20 by name.

    Do nothing if `names` is empty.

    Args:
        title: short name of the task.
        names: the items without a rating.
        total: number of all items.
        items: plural noun for the items.
        effect: what this means for the scores.
    """
    if names:
        logger.warning(
            f"{title}: {len(names)} of {total} {items} are not judged; {effect}: "
            f"{join_list(names, 20)}"
        )


class Run:
    """One run over distinct prompts.

    Attributes:
        judgements: Judgements so far, by prompt.
    """

    def __init__(
        self,
        answers: Mapping[Prompt, Sequence[str]],
        scale: RatingScale | None,
        settings: JudgeSettings,
        cache: JudgementCache,
        title: str = "",
        step: str = "",
        is_readable: Callable[[str, Judgement], bool] = lambda _, reply: reply.error is None,
    ) -> None:
        """Read cached replies by the current rule, and open the progress bar.

        Args:
            answers: prompt -> ids of the answers that it judges.
            scale: reads the ratings; None to accept any complete reply.
            settings: the judge or language model.
            cache: the open database.
            title: short name of the task.
            step: see `complete_all`.
            is_readable: see `complete_all`.
        """
        self.judgements: dict[Prompt, Judgement] = {}
        self._answers, self._scale, self._settings, self._cache = answers, scale, settings, cache
        self._words = _WRITING if scale is None else _JUDGING
        self._keys = {
            cache_key(settings.model, settings.parameters, prompt): prompt for prompt in answers
        }
        self._started = time.time()
        self._asked = self._without_reply = self._to_ask = 0
        self._title, self._tokens = (
            title or self._words.doing,
            list[tuple[int | None, int | None]](),
        )
        self._first_refusals: list[str] = []
        self._is_readable, self._limits = is_readable, settings.asking.limits
        reading = (settings.where, settings.name(settings.model), scale or step)
        self._verdicts = settings.asking.verdicts.setdefault(reading, Verdicts())
        self._stopped: EndpointError | None = None
        self._claims: PromptLeases
        keys = [] if settings.ignores_cache else [*self._keys]
        failed: dict[str, Judgement] = {}
        elsewhere: Counter[str] = Counter()
        for key, stored in (cache.load_failures(keys) | cache.load(keys)).items():
            judgement, prompt = self._read(stored), self._keys[key]
            if judgement is None or (
                judgement.error == _UNCLEAR and settings.asking.retry_rejected
            ):
                continue
            if judgement.error is not None:
                failed[key] = judgement
                continue
            self.judgements[prompt] = judgement
            if stored.endpoint != settings.where:
                elsewhere[stored.endpoint] += len(answers[prompt])
        cached = sum(len(answers[prompt]) for prompt in self.judgements)
        is_hidden = settings.asking.is_estimate
        self._progress = Progress(
            self._words, title, sum(map(len, answers.values())), cached, is_hidden=is_hidden
        )
        self._progress.elsewhere = elsewhere
        for key, judgement in failed.items():
            self._settle(key, judgement)

    def close(self) -> None:
        """Close the progress bar, record the tokens, and log the summary."""
        replies = [
            judgement for judgement in self.judgements.values() if judgement.reply is not None
        ]
        tokens = [
            (reply.prompt_tokens, reply.completion_tokens) for reply in replies if reply.cached
        ]
        used, cached = (
            Step.of_replies(self._title, pairs, self._settings.model)
            for pairs in (self._tokens, tokens)
        )
        if not self._settings.asking.is_estimate:
            self._settings.asking.steps.append(used)
        self._progress.summarize(
            {reply.judge for reply in replies} or {used.model}, used.describe(), cached.describe()
        )

    async def ask(self) -> None:
        """Send all open prompts, `settings.concurrency` at a time: new prompts first, then earlier
        failures.

        With `settings.asking.batch`, send them as batches, and collect those of earlier runs.

        On return and on every error, requests in flight are cancelled and finished results are
        stored.

        Raises:
            EndpointError: no client can be created; or a refusal applies to all requests (the
                message names the answer); or all of the first ten answers are refused with the same
                message.
            NoAnswerError: many answers in a row got no reply. The message has their number and the
                last cause.
            UnreadableError: none of the first replies can be read.
            LimitError: a limit on requests or cost is reached.
        """
        from lmms_egoplan.judging.batches import Batches
        from lmms_egoplan.judging.client import Client

        self._check_verdicts()
        missing = [key for key, prompt in self._keys.items() if prompt not in self.judgements]
        self._to_ask = len(missing)
        failures = self._cache.load_failures(missing)
        if self._settings.asking.retry_rejected:
            self._cache.forget(missing)
        self._failed_before = {
            key: _wording(failure.error or "") for key, failure in failures.items()
        }
        keys = sorted(missing, key=self._failed_before.__contains__)
        is_batch = self._settings.asking.batch
        if (pending := self._cache.load_batches(keys)) and not is_batch:
            logger.warning(
                f"{len(pending)} prompts may be in batches and are sent again; to "
                "collect those, add --batch"
            )
        async with (
            Client(self._settings, self._count_retry, JUDGING) as client,
            PromptLeases(keys, self._cache, self._read_new, self._settle) as self._claims,
            Batches(client, self._keys, self._claims, self._progress)
            if is_batch
            else nullcontext(client) as asked,
        ):
            slots = min(self._settings.concurrency, len(keys))
            workers = [asyncio.create_task(self._ask_next(asked)) for _ in range(slots)]
            ticker = asyncio.create_task(self._show_waits())
            try:
                await asyncio.gather(*workers)
            finally:
                for task in (*workers, ticker):
                    task.cancel()
                await asyncio.gather(*workers, ticker, return_exceptions=True)
        if self._stopped is not None:
            raise self._stopped

    def _check_verdicts(self) -> None:
        """Take account of stored replies of this endpoint.

        Raise `UnreadableError` if its replies cannot be read.
        """
        verdicts = self._verdicts
        stored = (
            (self._answers[x][0], y)
            for x, y in self.judgements.items()
            if y.endpoint == self._settings.where
        )
        if not verdicts.readable and any(starmap(self._is_readable, stored)):
            verdicts.readable += 1
        if verdicts.unreadable >= _UNREADABLE and not verdicts.readable:
            raise self._unreadable()

    def _stop(self, error: EndpointError) -> None:
        """Send nothing more. Requests in flight are finished."""
        self._stopped = self._stopped or error
        self._claims.stop()

    async def _ask_next(self, client: "Client | Batches") -> None:
        settings, model, claims = self._settings, f"the {self._words.model}", self._claims
        while (key := await claims.take()) is not None:
            prompt = self._keys[key]
            self._asked += 1
            number, refusal, is_answered = self._asked, None, True
            self._progress.waiting[key] = time.time()
            try:
                judgement = await self._judge(prompt, client)
            except RefusedRequestError as error:
                refusal = str(error)
                judgement = _unrated(settings, f"{model} refuses this request: {refusal}")
            except NoAnswerError as error:
                is_answered = False
                judgement = _unrated(settings, f"no answer from {model}: {error}")
            except EndpointError as error:
                raise EndpointError(
                    f"{error} (asked about {self._answers[prompt][0]})", error.what
                ) from error
            del self._progress.waiting[key]
            if judgement is None:
                return
            claims.finish(key, judgement if is_answered else None)
            self._settle(key, judgement, "judged", is_refused=refusal is not None)
            # Without a scale, a refused prompt may just be too long for the model.
            if refusal is not None and number <= _FIRST_ANSWERS and self._scale is not None:
                self._check_first(key, refusal)
            self._without_reply = 0 if is_answered else self._without_reply + 1
            if self._without_reply >= max(_LEAST_IN_A_ROW, 2 * settings.concurrency):
                raise NoAnswerError(
                    f"{self._without_reply} prompts in a row got no reply ({judgement.error})"
                )

    async def _judge(self, prompt: Prompt, client: "Client | Batches") -> Judgement | None:
        """Ask a prompt, up to three times; return None if the run stopped before its first reply."""
        scale, counts, tokens = (
            self._scale,
            self._progress.counts,
            list[tuple[int | None, int | None]](),
        )
        judgement = None
        for attempt in range(1 if scale is None else _ATTEMPTS):
            if self._stopped is not None or (reply := await self._ask(prompt, client)) is None:
                break
            counts["retried"] += attempt > 0
            # Some servers always report ``stop``.
            counted = (reply.completion_tokens, reply.stated_tokens)
            is_at_limit = is_cut(reply.finish) or self._settings.max_tokens in counted
            tokens.append((reply.prompt_tokens, reply.completion_tokens))
            self._tokens.append(tokens[-1])
            if len(self._tokens) == FIRST_REPLIES:
                self._log_expectation()
            counts["tokens"] += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
            counts["cut"] += is_at_limit
            has_ended = (
                reply.reply is not None and not is_at_limit and is_ended(reply.finish) is not False
            )
            rating = read_rating(scale, reply.reply, reply.finish) if has_ended and scale else None
            is_good = has_ended if scale is None else rating is not None
            error = None if is_good else self._problem(reply, attempt + 1, is_at_limit=is_at_limit)
            finish = "length" if is_at_limit else reply.finish
            judgement = replace(reply, rating=rating, error=error, finish=finish)
            is_filtered = is_ended(reply.finish) is False and not is_at_limit
            if reply.finish is not None and not is_filtered:
                self._count_verdict(prompt, judgement, is_cut=is_at_limit)
            if is_good:
                break
        if judgement is None:
            return None
        sent, received = (
            None if None in column else sum(column) for column in zip(*tokens, strict=True)
        )
        return replace(judgement, prompt_tokens=sent, completion_tokens=received)

    async def _ask(self, prompt: Prompt, client: "Client | Batches") -> Judgement | None:
        """Send a request within the limits; return None, and stop the run, if one of them is
        reached.
        """
        asking, model, limits = self._settings.asking, self._settings.model, self._limits
        try:
            bound = asking.highest_cost(model, prompt, self._settings.max_tokens)
            await limits.reserve(bound, waits=not asking.batch)
            try:
                reply = await client.ask(prompt)
            finally:
                limits.release(bound)
        except LimitError as error:
            self._stop(error)
            return None
        try:
            cost = asking.cost(model, reply.prompt_tokens, reply.completion_tokens)
            if cost is not None or reply.finish is not None:
                limits.pay(cost)
        except LimitError as error:
            self._stop(error)
        return reply

    def _count_verdict(self, prompt: Prompt, judgement: Judgement, *, is_cut: bool) -> None:
        """Count a reply as readable or not.

        Stop the run after many unreadable ones if none before was readable.
        """
        verdicts, answer = self._verdicts, self._answers[prompt][0]
        is_readable = judgement.error is None and self._is_readable(answer, judgement)
        verdicts.readable += is_readable
        verdicts.unreadable += not is_readable
        verdicts.cut += is_cut
        if verdicts.unreadable >= _UNREADABLE and not verdicts.readable and self._stopped is None:
            self._stop(self._unreadable(f". The last one, about {answer}: {_excerpt(judgement)}"))

    def _unreadable(self, example: str = "") -> "UnreadableError":
        """Return the error about replies that cannot be read, with a sentence about one of them."""
        verdicts, settings = self._verdicts, self._settings
        cut = (
            f" ({verdicts.cut} of them were cut off at the limit of {settings.max_tokens} tokens)"
            * bool(verdicts.cut)
        )
        return UnreadableError(
            f"none of its first {verdicts.unreadable} replies can be read{cut}{example}"
        )

    def _problem(self, reply: Judgement, attempts: int, *, is_at_limit: bool) -> str:
        """Return why the last reply cannot be used."""
        reason = f"finish_reason {reply.finish!r}"
        if is_at_limit:
            count = (
                "an unknown number of"
                if reply.completion_tokens is None
                else reply.completion_tokens
            )
            limit = f"the limit is {self._settings.max_tokens}, set by {MAX_TOKENS}"
            problem = f"it was cut off after {count} tokens ({reason}); {limit}"
        elif is_ended(reply.finish) is False:
            problem = f"it was stopped before its end ({reason})"
        else:
            where = "" if is_ended(reply.finish) else f" at its end ({reason})"
            problem = reply.error or f"it has no rating{where}"
        subject = "reply" if self._scale is None else f"last reply ({attempts} attempts)"
        return f"the {self._words.model}'s {subject} cannot be used: {problem}"

    def _log_expectation(self) -> None:
        """Log the expected cost of the run by its first replies."""
        first = Step.of_replies(self._title, self._tokens, self._settings.model)
        if self._to_ask > FIRST_REPLIES and not first.unknown:
            logger.info(
                self._settings.asking.expectation(first, self._to_ask, self._settings.max_tokens)
            )

    def _count_retry(self) -> None:
        self._limits.retry()
        self._progress.counts["retried"] += 1

    def _check_first(self, key: str, refusal: str) -> None:
        words = _wording(refusal)
        # If this endpoint has rated answers before, a refusal that is already stored does not
        # concern all requests.
        is_known = self._progress.counts["cached"] > self._progress.elsewhere.total()
        if is_known and self._failed_before.get(key, "").endswith(words):
            return
        self._first_refusals.append(words)
        if len(self._first_refusals) == _FIRST_ANSWERS and len(set(self._first_refusals)) == 1:
            raise EndpointError(
                f"{refusal} (the same for all of the first {_FIRST_ANSWERS} answers)"
            )

    def _read(self, stored: Judgement) -> Judgement | None:
        """Read a stored reply by the current rule; return None if the prompt must be requested
        again.

        - A failure counts if the current rule finds a rating in its reply.
        - Without a scale, a reply that was cut off at the same token limit counts, because it was
          paid for.
        - A reply that an earlier rule rated counts, without a rating if the current rule finds no
          clear one.
        """
        scale, is_failure = self._scale, stored.error is not None
        stored = replace(stored, cached=True)
        if scale is None:
            is_paid = stored.reply is not None and is_cut(stored.finish)
            if is_failure and not (is_paid and stored.max_tokens == self._settings.max_tokens):
                return None
            return replace(stored, rating=None)
        rating = read_rating(scale, stored.reply, stored.finish)
        if rating is not None:
            return replace(stored, rating=rating, error=None)
        if is_failure or not is_unclear(scale, stored.reply, stored.finish):
            return None
        return replace(stored, rating=None, error=_UNCLEAR)

    def _read_new(self, stored: Judgement) -> Judgement | None:
        """Read an outcome that another process stored during this run; return None if it does not
        count.
        """
        if stored.error is None:
            return self._read(stored)
        is_mine = (
            stored.endpoint == self._settings.where
            and stored.max_tokens == self._settings.max_tokens
        )
        is_recent = isinstance(stored.time, float) and stored.time >= self._started
        return stored if is_recent and is_mine else None

    def _settle(
        self, key: str, judgement: Judgement, how: str = "cached", *, is_refused: bool = False
    ) -> None:
        prompt = self._keys[key]
        self.judgements[prompt] = judgement
        answers = len(self._answers[prompt])
        if judgement.error is None:
            self._progress.count(**{how: answers})
        else:
            self._progress.count(failed=answers, refused=answers * is_refused)

    async def _show_waits(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._progress.asked_elsewhere = self._claims.busy
            self._progress.show_waits()


def _ask_all(
    ids: Sequence[str],
    prompts: Sequence[Prompt],
    scale: RatingScale | None,
    settings: JudgeSettings,
    title: str,
    *reading: Any,
) -> list[Judgement]:
    """Return the judgements of all prompts, in order; see `judge_all`, or without a scale
    `complete_all`.
    """
    prompts = [replace(prompt, text=clean_text(prompt.text)) for prompt in prompts]
    answers: dict[Prompt, list[str]] = defaultdict(list)
    for prompt, answer in zip(prompts, ids, strict=True):
        answers[prompt].append(answer)
    # The prompts of a batch wait together.
    settings = replace(settings, concurrency=len(answers)) if settings.asking.batch else settings
    judgements: dict[Prompt, Judgement] = {}
    failure, words = None, _WRITING if scale is None else _JUDGING
    try:
        with JudgementCache(default_cache_path()) as cache:
            run = Run(answers, scale, settings, cache, title, *reading)
            judgements = run.judgements
            try:
                missing = [prompt for prompt in answers if prompt not in judgements]
                if settings.asking.is_estimate:
                    settings.asking.steps.append(_estimated(missing, settings, cache, title))
                    judgements |= dict.fromkeys(
                        missing, _unrated(settings, "not sent: this is an estimate")
                    )
                elif missing:
                    if settings.asking.probes:
                        settings.asking.probes = False
                        probe(
                            settings,
                            replace(
                                max(missing, key=lambda prompt: len(prompt.images)), text=PROBE.text
                            ),
                        )
                    _log_once("INFO", f"Asking {settings.name(settings.model)} at {settings.where}")
                    _run_in_thread(run.ask())
            finally:
                run.close()
    except CacheError as error:
        failure = str(error)
    except EndpointError as error:
        failure = _message(settings, error, words)
    except KeyboardInterrupt:
        batches = (
            "; batches continue at the endpoint, and the repeated command collects them"
            * settings.asking.batch
        )
        logger.warning(
            f"Interrupted. Finished results are stored; to resume, repeat the command{batches}"
        )
        raise
    named = {
        prompt: replace(item, judge=settings.name(item.judge))
        for prompt, item in judgements.items()
    }
    if failure is None:
        return [named[prompt] for prompt in prompts]
    unasked = _unrated(settings, f"not {words.judged}: {failure}")
    raise JudgeError(failure, [named.get(prompt, unasked) for prompt in prompts])


def _estimated(
    missing: Sequence[Prompt], settings: JudgeSettings, cache: JudgementCache, title: str
) -> Step:
    """Return the requests of an estimate, with the reply tokens expected by stored replies to
    similar prompts.
    """
    sent, most = sum(map(prompt_tokens, missing)), len(missing) * settings.max_tokens
    stored, tokens = cache.reply_tokens(
        settings.where, settings.model, [prompt.text for prompt in missing]
    )
    expected = round(len(missing) * tokens / stored) if stored else None
    return Step(title, len(missing), sent, most, settings.model, expected=expected, stored=stored)


def _unrated(settings: JudgeSettings, error: str) -> Judgement:
    return Judgement(
        None,
        None,
        settings.model,
        error=error,
        endpoint=settings.where,
        max_tokens=settings.max_tokens,
    )


def _excerpt(judgement: Judgement) -> str:
    """Return the beginning and the end of a reply in quotation marks; its error if it has no text."""
    if judgement.reply is None:
        return judgement.error or ""
    line = strip_controls(judgement.reply)
    return repr(line if len(line) <= 2 * _SHOWN else f"{line[:_SHOWN]} [...] {line[-_SHOWN:]}")


def _message(settings: JudgeSettings, error: EndpointError, words: Words) -> str:
    return (
        f"The {words.model} {settings.model} at {settings.where} {error.what}: {error}. "
        f"{error.remedy}"
    )


def _wording(refusal: str) -> str:
    """Return a refusal with all numbers masked, since they may differ between requests."""
    return re.sub(r"\d+", "0", refusal)


@functools.cache
def _try(settings: JudgeSettings, form: Prompt) -> None:
    if settings.model != DEMO:
        try:
            with JudgementCache(default_cache_path()):
                pass
        except CacheError as error:
            raise JudgeError(str(error)) from None
    logger.info(f"Judge: {probe(settings, form)}")


@functools.cache
def _log_once(level: str, message: str) -> None:
    logger.log(level, message)


def _run_in_thread(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a new thread and event loop, since the caller may be in one.

    Ctrl-C cancels the coroutine.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)

    def run() -> Result:
        with closing(loop):
            return loop.run_until_complete(task)

    with ThreadPoolExecutor(1, thread_name_prefix="judging") as pool:
        try:
            return pool.submit(run).result()
        except KeyboardInterrupt:
            with suppress(RuntimeError):  # the loop is closed, so the coroutine is done
                loop.call_soon_threadsafe(task.cancel)
            raise
