"""Ask a judge or another language model the open prompts of one call, concurrently."""

import asyncio
import re
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
from lmms_egoplan.judging.failures import NoReadableReplyError, unrated
from lmms_egoplan.judging.judgement import Judgement, Prompt, RatingScale
from lmms_egoplan.judging.leases import PromptLeases
from lmms_egoplan.judging.limits import LimitError
from lmms_egoplan.judging.progress import JUDGING_WORDS, WRITING_WORDS, RequestProgress
from lmms_egoplan.judging.reading import UNCLEAR, ReplyReader
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.tokens import FIRST_REPLIES, ReplyTokens, StepUsage, expectation
from lmms_egoplan.judging.usage import Verdicts
from lmms_egoplan.text import strip_controls

if TYPE_CHECKING:
    from lmms_egoplan.judging.batches import Batches
    from lmms_egoplan.judging.client import Client

IsReadable = Callable[[str, Judgement], bool]
"""Return whether a reply to the prompt with this id can be read."""

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


def is_complete(_: str, reply: Judgement) -> bool:
    """Return whether a reply is complete. This suffices for replies that nobody reads."""
    return reply.error is None


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

    def __init__(
        self,
        answers: Mapping[Prompt, Sequence[str]],
        scale: RatingScale | None,
        settings: JudgeSettings,
        cache: JudgementCache,
        title: str = "",
        step: str = "",
        is_readable: IsReadable = is_complete,
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
        self._answers = answers
        self._scale = scale
        self._settings = settings
        self._cache = cache
        self._is_readable = is_readable
        self._words = WRITING_WORDS if scale is None else JUDGING_WORDS
        self._title = title or self._words.doing
        self._keys = {
            cache_key(settings.model, settings.parameters, prompt): prompt for prompt in answers
        }
        self._reader = ReplyReader(scale, settings, self._words.model, started=time.time())
        self._limits = settings.usage.limits
        verdicts_of = (settings.where, settings.name(settings.model), scale or step)
        self._verdicts = settings.usage.verdicts.setdefault(verdicts_of, Verdicts())
        self._tokens: list[ReplyTokens] = []
        self._next_expectation = FIRST_REPLIES
        self._num_asked = 0
        self._num_to_ask = 0
        self._num_without_reply = 0  # in a row
        self._first_refusals: list[str] = []
        self._earlier_refusals: dict[str, str] = {}
        self._stopped: EndpointError | None = None
        self._leases: PromptLeases
        self._progress: RequestProgress
        self._open_progress(title)

    def _open_progress(self, title: str) -> None:
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
            self._words,
            title,
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
        """Return whether a stored reply without a clear rating is requested again."""
        return judgement.error == UNCLEAR and self._settings.options.retry_rejected

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
        used = StepUsage.of_replies(self._title, self._tokens, model)
        cached = StepUsage.of_replies(self._title, cached_tokens, model)
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

        self._check_verdicts()
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

    def _open_keys(self) -> list[str]:
        """Return the keys of open prompts, in the order of asking. Forget rejected replies."""
        missing = [key for key, prompt in self._keys.items() if prompt not in self.judgements]
        self._num_to_ask = len(missing)
        failures = self._cache.load_failures(missing)
        if self._settings.options.retry_rejected:
            self._cache.forget(missing)
        self._earlier_refusals = {
            key: _wording(failure.error or "") for key, failure in failures.items()
        }
        return sorted(missing, key=lambda key: key in self._earlier_refusals)

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

    def _check_verdicts(self) -> None:
        """Take account of stored replies of this endpoint.

        Raise `NoReadableReplyError` if its replies cannot be read.
        """
        verdicts = self._verdicts
        if not verdicts.readable and self._has_readable_stored_reply():
            verdicts.readable += 1
        if verdicts.unreadable >= _UNREADABLE and not verdicts.readable:
            raise self._unreadable()

    def _has_readable_stored_reply(self) -> bool:
        """Return whether a stored reply of this endpoint can be read."""
        for prompt, judgement in self.judgements.items():
            if judgement.endpoint == self._settings.where:
                first_answer = self._answers[prompt][0]
                if self._is_readable(first_answer, judgement):
                    return True
        return False

    def _stop(self, error: EndpointError) -> None:
        """Send nothing more. Requests in flight are finished."""
        self._stopped = self._stopped or error
        self._leases.stop()

    async def _ask_next(self, sender: "Client | Batches") -> None:
        """Send one prompt after another until none is left or the run stops."""
        while True:
            key = await self._leases.take()
            if key is None:
                return
            self._num_asked += 1
            number = self._num_asked
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
        model = f"the {self._words.model}"
        try:
            judgement = await self._judge(prompt, sender)
        except RefusedRequestError as error:
            refusal = str(error)
            failed = unrated(self._settings, f"{model} refuses this request: {refusal}")
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
        self._leases.finish(key, judgement if outcome.is_answered else None)
        self._settle(key, judgement, "judged", is_refused=refusal is not None)
        # Without a scale, a refused prompt may just be too long for the model.
        if refusal is not None and number <= _FIRST_ANSWERS and self._scale is not None:
            self._check_first(key, refusal)
        if outcome.is_answered:
            self._num_without_reply = 0
        else:
            self._num_without_reply += 1
        if self._num_without_reply >= max(_LEAST_IN_A_ROW, 2 * self._settings.concurrency):
            raise NoAnswerError(
                f"{self._num_without_reply} prompts in a row got no reply ({judgement.error})"
            )

    async def _judge(self, prompt: Prompt, sender: "Client | Batches") -> Judgement | None:
        """Ask a prompt, up to three times.

        Returns None if the run stopped before its first reply.
        """
        tokens: list[ReplyTokens] = []
        judgement = None
        max_attempts = 1 if self._scale is None else _ATTEMPTS
        for attempt in range(1, max_attempts + 1):
            if self._stopped is not None:
                break
            reply = await self._ask(prompt, sender)
            if reply is None:
                break
            if attempt > 1:
                self._progress.counts["retried"] += 1
            tokens.append(ReplyTokens(reply.prompt_tokens, reply.completion_tokens))
            self._count_tokens(tokens[-1])
            read = self._reader.read_new(reply, attempt)
            judgement = read.judgement
            if read.is_at_limit:
                self._progress.counts["cut"] += 1
            if reply.finish is not None and not read.is_filtered:
                self._count_verdict(prompt, judgement, is_cut=read.is_at_limit)
            if judgement.error is None:
                break
        if judgement is None:
            return None
        total = ReplyTokens.total(tokens)
        return replace(judgement, prompt_tokens=total.prompt, completion_tokens=total.reply)

    def _count_tokens(self, tokens: ReplyTokens) -> None:
        """Count the tokens of a reply.

        Log the expected cost of the run after the first replies, and again as they double.
        """
        self._tokens.append(tokens)
        if len(self._tokens) == self._next_expectation:
            self._next_expectation *= 2
            self._log_expectation()
        self._progress.counts["tokens"] += (tokens.prompt or 0) + (tokens.reply or 0)

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

    def _count_verdict(self, prompt: Prompt, judgement: Judgement, *, is_cut: bool) -> None:
        """Count a reply as readable or not.

        Stop the run after many unreadable ones if none before was readable.
        """
        verdicts = self._verdicts
        answer = self._answers[prompt][0]
        if judgement.error is None and self._is_readable(answer, judgement):
            verdicts.readable += 1
        else:
            verdicts.unreadable += 1
        if is_cut:
            verdicts.cut += 1
        if verdicts.unreadable >= _UNREADABLE and not verdicts.readable and self._stopped is None:
            self._stop(self._unreadable(f". The last one, about {answer}: {_excerpt(judgement)}"))

    def _unreadable(self, example: str = "") -> NoReadableReplyError:
        """Return the error about replies that cannot be read, with a sentence about one of them."""
        verdicts = self._verdicts
        cut = ""
        if verdicts.cut:
            cut = (
                f" ({verdicts.cut} of them were cut off at the limit of "
                f"{self._settings.max_tokens} tokens)"
            )
        return NoReadableReplyError(
            f"none of its first {verdicts.unreadable} replies can be read{cut}{example}"
        )

    def _log_expectation(self) -> None:
        """Log the expected cost of the run by its first replies."""
        first = StepUsage.of_replies(self._title, self._tokens, self._settings.model)
        if self._num_to_ask > len(self._tokens) and not first.unknown:
            max_tokens = self._settings.max_tokens
            prices = self._settings.options.prices
            logger.info(expectation(first, prices, self._num_to_ask, max_tokens))

    def _count_retry(self) -> None:
        """Count a retry of a request that failed."""
        self._limits.retry()
        self._progress.counts["retried"] += 1

    def _check_first(self, key: str, refusal: str) -> None:
        """Raise `EndpointError` if all of the first prompts are refused with the same message."""
        words = _wording(refusal)
        # If this endpoint has rated answers before, a refusal that is already stored does not
        # concern all requests.
        has_rated = self._progress.counts["cached"] > self._progress.elsewhere.total()
        if has_rated and self._earlier_refusals.get(key, "").endswith(words):
            return
        self._first_refusals.append(words)
        if len(self._first_refusals) == _FIRST_ANSWERS and len(set(self._first_refusals)) == 1:
            raise EndpointError(
                f"{refusal} (the same for all of the first {_FIRST_ANSWERS} answers)"
            )

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
            num_refused = num_answers if is_refused else 0
            self._progress.count(failed=num_answers, refused=num_refused)

    async def _show_waits(self) -> None:
        """Show long waits in the progress bar, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._progress.asked_elsewhere = self._leases.num_busy
            self._progress.show_waits()


def _excerpt(judgement: Judgement) -> str:
    """Return the beginning and the end of a reply in quotation marks; its error without a text."""
    if judgement.reply is None:
        return judgement.error or ""
    line = strip_controls(judgement.reply)
    if len(line) > 2 * _SHOWN:
        line = f"{line[:_SHOWN]} [...] {line[-_SHOWN:]}"
    return repr(line)


def _wording(refusal: str) -> str:
    """Return a refusal with all numbers masked, since they may differ between requests."""
    return re.sub(r"\d+", "0", refusal)
