"""Ask a judge or another language model the open prompts of one call, concurrently."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loguru import logger

from lmms_egoplan.judging.cache import JudgementCache, cache_key
from lmms_egoplan.judging.endpoint import (
    JUDGING,
    EndpointError,
    NoAnswerError,
    RefusedRequestError,
)
from lmms_egoplan.judging.failures import unrated
from lmms_egoplan.judging.judgement import Judgement, Prompt, RatingScale
from lmms_egoplan.judging.leases import PromptLeases
from lmms_egoplan.judging.limits import LimitError
from lmms_egoplan.judging.progress import (
    JUDGING_WORDS,
    WRITING_WORDS,
    MessageWords,
    RequestProgress,
)
from lmms_egoplan.judging.reading import FILTERED_HINT, UNCLEAR, ReplyReader
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.stopping import ReadabilityRule, RefusalRule, SilenceRule
from lmms_egoplan.judging.text import is_filtered
from lmms_egoplan.judging.token_log import TokenLog
from lmms_egoplan.judging.tokens import ReplyTokens, StepUsage
from lmms_egoplan.judging.usage import Verdicts
from lmms_egoplan.run_events import JUDGEMENT, record_event

if TYPE_CHECKING:
    from lmms_egoplan.judging.batches import Batches
    from lmms_egoplan.judging.client import Client

IsReadable = Callable[[str, Judgement], bool]
"""Return whether a reply to the prompt with this id can be read."""

# Judging allows two repeats after a reply without a rating. Plain completions are never repeated.
_ATTEMPTS = 3
# Seconds between updates of the waits in the progress bar.
_TICK_S = 5.0


def is_complete(_: str, reply: Judgement) -> bool:
    """Return whether a reply is complete. This suffices for replies that nobody reads."""
    return reply.error is None


@dataclass(frozen=True)
class PromptSet:
    """The distinct prompts of one call, and how they are asked.

    Attributes:
        answers: Prompt -> ids of the answers that it judges.
        scale: Reads the ratings; None to accept any complete reply.
        settings: The judge or language model.
        title: Short name of the task; "" for no title.
        step: See `complete_all`.
        is_readable: See `complete_all`.
    """

    answers: Mapping[Prompt, Sequence[str]]
    scale: RatingScale | None
    settings: JudgeSettings
    title: str = ""
    step: str = ""
    is_readable: IsReadable = is_complete

    @property
    def words(self) -> MessageWords:
        """The words for messages."""
        return WRITING_WORDS if self.scale is None else JUDGING_WORDS

    @property
    def step_title(self) -> str:
        """The name of the requests in a list of steps."""
        return self.title or self.words.doing


@dataclass(frozen=True)
class _PromptOutcome:
    """The outcome of one prompt.

    Attributes:
        judgement: The judgement.
        refusal: The endpoint's message if it refuses this request; None otherwise.
        is_answered: Whether the endpoint replied or refused.
    """

    judgement: Judgement
    refusal: str | None = None
    is_answered: bool = True


class PromptRun:
    """One run over distinct prompts.

    Attributes:
        judgements: Judgements so far, by prompt.
    """

    def __init__(self, prompts: PromptSet, cache: JudgementCache) -> None:
        """Read cached replies by the current rule, and open the progress bar.

        Args:
            prompts: the prompts.
            cache: the open database.
        """
        self.judgements: dict[Prompt, Judgement] = {}
        self._prompts = prompts
        self._answers = prompts.answers
        self._settings = prompts.settings
        self._cache = cache
        self._keys = {self._key(prompt): prompt for prompt in prompts.answers}
        model = prompts.words.model
        self._reader = ReplyReader(prompts.scale, self._settings, model, started=time.time())
        self._limits = self._settings.usage.limits
        self._silence = SilenceRule(self._settings.concurrency)
        self._readability = ReadabilityRule(self._verdicts(), self._settings.max_tokens)
        self._num_sent = 0
        self._stopped: EndpointError | None = None
        self._refusals: RefusalRule
        self._leases: PromptLeases
        self._progress: RequestProgress
        self._open_progress()
        num_missing = len(prompts.answers) - len(self.judgements)
        self._tokens = TokenLog(prompts.step_title, self._settings, num_missing)

    def _key(self, prompt: Prompt) -> str:
        return cache_key(self._settings.model, self._settings.parameters, prompt)

    def _verdicts(self) -> Verdicts:
        """Return the counts of this model's replies that are read in the same way."""
        settings = self._settings
        way = self._prompts.scale or self._prompts.step
        key = (settings.where, settings.name(settings.model), way)
        return settings.usage.verdicts.setdefault(key, Verdicts())

    def _open_progress(self) -> None:
        """Read cached replies, and open the progress bar."""
        failed: dict[str, Judgement] = {}
        elsewhere: Counter[str] = Counter()
        for key, stored in self._load().items():
            prompt = self._keys[key]
            judgement = self._reader.read_stored(stored)
            if judgement is None or self._is_retried(judgement):
                continue
            if judgement.error is not None:
                failed[key] = judgement
                continue
            self.judgements[prompt] = judgement
            if stored.endpoint != self._settings.where:
                elsewhere[stored.endpoint] += len(self._answers[prompt])
        self._progress = RequestProgress(
            self._prompts.words,
            self._prompts.title,
            total=sum(len(ids) for ids in self._answers.values()),
            cached=sum(len(self._answers[prompt]) for prompt in self.judgements),
            is_hidden=self._settings.options.is_estimate,
        )
        self._progress.elsewhere = elsewhere
        for key, judgement in failed.items():
            self._settle(key, judgement)

    def _load(self) -> dict[str, Judgement]:
        """Load the stored outcomes of all prompts, by key."""
        if self._settings.ignores_cache:
            return {}
        return self._cache.load_failures(self._keys) | self._cache.load(self._keys)

    def _is_retried(self, judgement: Judgement) -> bool:
        """Return whether a stored reply without a clear rating is requested again.

        Without a scale, the caller decides which replies are rejected.
        """
        if self._prompts.scale is None or not self._settings.options.retry_rejected:
            return False
        return judgement.error == UNCLEAR or is_filtered(judgement.finish)

    def close(self) -> None:
        """Close the progress bar, record the tokens, and log the summary."""
        model = self._settings.model
        replies = [
            judgement for judgement in self.judgements.values() if judgement.reply is not None
        ]
        cached_tokens = [
            ReplyTokens(reply.prompt_tokens, reply.completion_tokens)
            for reply in replies
            if reply.cached
        ]
        used = self._tokens.usage()
        cached = StepUsage.of_replies(self._prompts.step_title, cached_tokens, model)
        if not self._settings.options.is_estimate:
            self._settings.usage.steps.append(used)
        judges = {reply.judge for reply in replies} or {model}
        self._progress.summarize(judges, used.describe(), cached.describe())

    async def ask(self) -> None:
        """Send all open prompts, `settings.concurrency` at a time.

        New prompts come first, then earlier failures. With `settings.options.batch`, send them as
        batches, and collect those of earlier runs.

        On return and on every error, requests in flight are cancelled and finished results are
        stored.

        Raises:
            EndpointError: no client can be created; or a refusal applies to all requests (the
                message names the answer); or all of the first ten answers are refused with the same
                message.
            NoAnswerError: many answers in a row got no reply. The message has their number and the
                last cause.
            NoReadableReplyError: none of the first replies can be read.
            LimitError: a limit on requests or cost is reached.
        """
        from lmms_egoplan.judging.client import Client

        self._check_readability()
        keys = self._open_keys()
        self._warn_of_batches(keys)
        async with (
            Client(self._settings, self._count_retry, JUDGING) as client,
            PromptLeases(
                keys, self._cache, self._reader.read_from_other_process, self._settle
            ) as self._leases,
            self._sender(client) as sender,
        ):
            await self._work(sender, min(self._settings.concurrency, len(keys)))
        if self._stopped is not None:
            raise self._stopped

    def _check_readability(self) -> None:
        """Take account of stored replies of this endpoint.

        Raise `NoReadableReplyError` if its replies cannot be read.
        """
        if not self._readability.has_readable and self._has_readable_stored_reply():
            self._readability.count(is_readable=True, is_cut=False)
        if self._readability.is_broken:
            raise self._readability.error()

    def _has_readable_stored_reply(self) -> bool:
        """Return whether a stored reply of this endpoint can be read."""
        for prompt, judgement in self.judgements.items():
            if judgement.endpoint == self._settings.where:
                first_answer = self._answers[prompt][0]
                if self._prompts.is_readable(first_answer, judgement):
                    return True
        return False

    def _open_keys(self) -> list[str]:
        """Return the keys of open prompts, in the order of asking. Forget rejected replies."""
        missing = [key for key, prompt in self._keys.items() if prompt not in self.judgements]
        failures = self._cache.load_failures(missing)
        if self._settings.options.retry_rejected:
            self._cache.forget(missing)
        self._refusals = RefusalRule(failures)
        return sorted(missing, key=lambda key: key in failures)

    def _warn_of_batches(self, keys: Sequence[str]) -> None:
        """Warn if open prompts may be in batches, but this run sends them one by one."""
        pending = self._cache.load_batches(keys)
        if pending and not self._settings.options.batch:
            logger.warning(
                f"{len(pending)} prompts may be in batches and are sent again; to "
                "collect those, add --batch"
            )

    def _sender(self, client: "Client") -> "AbstractAsyncContextManager[Client | Batches]":
        """Return the object that sends prompts: the client, or one that sends batches."""
        from lmms_egoplan.judging.batches import Batches

        if self._settings.options.batch:
            return Batches(client, self._keys, self._leases, self._progress)
        return nullcontext(client)

    async def _work(self, sender: "Client | Batches", num_workers: int) -> None:
        """Send prompts with several workers until none is left or one of them fails."""
        workers = [asyncio.create_task(self._ask_next(sender)) for _ in range(num_workers)]
        ticker = asyncio.create_task(self._show_waits())
        try:
            await asyncio.gather(*workers)
        finally:
            for task in (*workers, ticker):
                task.cancel()
            await asyncio.gather(*workers, ticker, return_exceptions=True)

    async def _show_waits(self) -> None:
        """Show long waits in the progress bar, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._progress.asked_elsewhere = self._leases.num_busy
            self._progress.show_waits()

    async def _ask_next(self, sender: "Client | Batches") -> None:
        """Send one prompt after another until none is left or the run stops."""
        while True:
            key = await self._leases.take()
            if key is None:
                return
            self._num_sent += 1
            number = self._num_sent
            self._progress.waiting[key] = time.time()
            outcome = await self._outcome(self._keys[key], sender)
            del self._progress.waiting[key]
            if outcome is None:
                return
            self._record(key, outcome, number)

    async def _outcome(self, prompt: Prompt, sender: "Client | Batches") -> _PromptOutcome | None:
        """Ask a prompt; return None if the run stopped before its first reply.

        Raises:
            EndpointError: an error that concerns all prompts. The message names the answer.
        """
        model = f"the {self._prompts.words.model}"
        try:
            judgement = await self._judge(prompt, sender)
        except RefusedRequestError as error:
            refusal = str(error)
            problem = f"{model} refuses this request: {refusal}"
            failed = unrated(self._settings, problem)
            if error.is_filtered:
                failed = unrated(self._settings, f"{problem}; {FILTERED_HINT}", "content_filter")
            return _PromptOutcome(failed, refusal=refusal)
        except NoAnswerError as error:
            failed = unrated(self._settings, f"no answer from {model}: {error}")
            return _PromptOutcome(failed, is_answered=False)
        except EndpointError as error:
            raise EndpointError(
                f"{error} (asked about {self._answers[prompt][0]})", error.what
            ) from error
        return None if judgement is None else _PromptOutcome(judgement)

    def _record(self, key: str, outcome: _PromptOutcome, number: int) -> None:
        """Record the outcome of the prompt that was sent as the `number`-th.

        Raises:
            EndpointError: the first prompts are all refused, or many in a row got no reply.
        """
        judgement = outcome.judgement
        refusal = outcome.refusal
        record_event(
            JUDGEMENT,
            step=self._prompts.step_title,
            key=key,
            is_rated=judgement.error is None,
            model=self._settings.model,
            prompt_tokens=judgement.prompt_tokens,
            reply_tokens=judgement.completion_tokens,
        )
        self._leases.finish(key, judgement if outcome.is_answered else None)
        self._settle(key, judgement, "judged", is_refused=refusal is not None)
        # Without a scale, a refused prompt may just be too long for the model.
        if refusal is not None and self._prompts.scale is not None:
            has_rated = self._progress.counts["cached"] > self._progress.elsewhere.total()
            self._refusals.check(key, refusal, number, has_rated=has_rated)
        self._silence.check(judgement, is_answered=outcome.is_answered)

    async def _judge(self, prompt: Prompt, sender: "Client | Batches") -> Judgement | None:
        """Ask a prompt, up to three times.

        Returns None if the run stopped before its first reply.
        """
        tokens: list[ReplyTokens] = []
        judgement = None
        max_attempts = 1 if self._prompts.scale is None else _ATTEMPTS
        for attempt in range(1, max_attempts + 1):
            if self._stopped is not None:
                break
            reply = await self._ask(prompt, sender)
            if reply is None:
                break
            if attempt > 1:
                self._progress.counts["retried"] += 1
            tokens.append(ReplyTokens(reply.prompt_tokens, reply.completion_tokens))
            self._count_tokens(tokens[-1], is_repeat=attempt > 1)
            read = self._reader.read_new(reply, attempt)
            judgement = read.judgement
            if read.is_at_limit:
                self._progress.counts["cut"] += 1
            if reply.finish is not None and not read.is_stopped:
                self._count_verdict(prompt, judgement, is_cut=read.is_at_limit)
            if judgement.error is None:
                break
        if judgement is None:
            return None
        total = ReplyTokens.total(tokens)
        return replace(judgement, prompt_tokens=total.prompt, completion_tokens=total.reply)

    async def _ask(self, prompt: Prompt, sender: "Client | Batches") -> Judgement | None:
        """Send a request within the limits.

        If one of them is reached, the run stops. Returns None if the request was not sent.
        """
        options = self._settings.options
        model = self._settings.model
        try:
            bound = options.highest_cost(model, prompt, self._settings.max_tokens)
            await self._limits.reserve(bound, waits=not options.batch)
            try:
                reply = await sender.ask(prompt)
            finally:
                self._limits.release(bound)
        except LimitError as error:
            self._stop(error)
            return None
        cost = options.cost(model, reply.prompt_tokens, reply.completion_tokens)
        try:
            if cost is not None or reply.finish is not None:
                self._limits.pay(cost)
        except LimitError as error:
            self._stop(error)
        return reply

    def _count_tokens(self, tokens: ReplyTokens, *, is_repeat: bool) -> None:
        """Count the tokens of a reply."""
        self._tokens.add(tokens, is_repeat=is_repeat)
        self._progress.counts["tokens"] += (tokens.prompt or 0) + (tokens.reply or 0)

    def _count_verdict(self, prompt: Prompt, judgement: Judgement, *, is_cut: bool) -> None:
        """Count a reply as readable or not.

        Stop the run after many unreadable ones if none before was readable.
        """
        answer = self._answers[prompt][0]
        is_readable = judgement.error is None and self._prompts.is_readable(answer, judgement)
        self._readability.count(is_readable=is_readable, is_cut=is_cut)
        if self._readability.is_broken and self._stopped is None:
            self._stop(self._readability.error(answer, judgement))

    def _count_retry(self) -> None:
        """Count a retry of a request that failed."""
        self._limits.retry()
        self._progress.counts["retried"] += 1

    def _stop(self, error: EndpointError) -> None:
        """Send nothing more. Requests in flight are finished."""
        self._stopped = self._stopped or error
        self._leases.stop()

    def _settle(
        self, key: str, judgement: Judgement, how: str = "cached", *, is_refused: bool = False
    ) -> None:
        """Set the judgement of a prompt, and count its answers as `how` or as failed."""
        prompt = self._keys[key]
        self.judgements[prompt] = judgement
        num_answers = len(self._answers[prompt])
        if judgement.error is None:
            self._progress.count(**{how: num_answers})
        else:
            self._progress.count_failed(
                num_answers, is_refused=is_refused, is_filtered=is_filtered(judgement.finish)
            )
