"""Many prompts to one model at once, each reply stored before its slot asks for the next."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.judging.cache import JudgementCache, Outcome, cache_key
from lmms_egoplan.judging.claims import Claims
from lmms_egoplan.judging.endpoint import JUDGING, Endpoint, NoAnswerError, RefusedError, RefusedRequestError
from lmms_egoplan.judging.judgement import Judgement, Prompt, RatingScale
from lmms_egoplan.judging.progress import Progress
from lmms_egoplan.judging.reading import is_unclear, read_rating
from lmms_egoplan.judging.reply import Reply, is_cut, is_ended
from lmms_egoplan.judging.settings import MAX_TOKENS, JudgeSettings

# A reply without a rating is asked again twice. Where no rating is asked for, no reply is paid for twice.
_ASKS = 3
# So many answers in a row without a reply end the run, or twice as many as are asked at once if that is more.
_LEAST_IN_A_ROW = 8
# Where the first so many answers that are asked are all refused in the same words, so would be all others.
_FIRST = 10
# Seconds between looks at what is waited for.
_TICK_S = 5.0
# The error of a stored reply whose rating no longer counts.
_UNCLEAR = "the judge's stored reply has no clear rating; it is not asked for again"


class Dispatcher:
    """One run over prompts that differ from each other.

    judgements: by prompt, what has come so far.
    """

    def __init__(
        self,
        prompts: Mapping[Prompt, Sequence[str]],
        scale: RatingScale | None,
        settings: JudgeSettings,
        cache: JudgementCache,
        progress: Progress,
    ) -> None:
        """Prepare a run.

        Args:
            prompts: the ids of the answers that depend on each prompt.
            scale: None where any reply will do that has ended.
        """
        self.judgements: dict[Prompt, Judgement] = {}
        self._prompts, self._scale, self._settings = prompts, scale, settings
        self._cache, self._progress = cache, progress
        self._model = "the language model" if scale is None else "the judge"
        self._keys = {cache_key(settings.model, settings.parameters, prompt): prompt for prompt in prompts}
        self._started = time.time()
        self._asked = self._without_reply = 0
        self._first_refusals: list[str] = []

    def restore(self) -> None:
        """Take what the cache has, read by today's rule, and open the progress bar.

        Failures count if their reply now has a rating. Where no rating is asked for, replies that were paid for and cut
        off at the same limit count, too. Replies without a clear rating do not if rejected ones are requested again.
        """
        keys = [] if self._settings.is_afresh else [*self._keys]
        failures = self._cache.load_failures(keys)
        for key, outcome in (failures | self._cache.load(keys)).items():
            judgement = judgement_of(outcome, self._scale)
            if judgement is not None and not (judgement.error and self._settings.asking.retry_rejected):
                prompt = self._keys[key]
                self.judgements[prompt] = judgement
                if outcome.endpoint != self._settings.where and judgement.error is None:
                    self._progress.elsewhere[outcome.endpoint] += len(self._prompts[prompt])
        rated = [prompt for prompt, judgement in self.judgements.items() if judgement.error is None]
        stored, cached = (sum(len(self._prompts[prompt]) for prompt in some) for some in (self.judgements, rated))
        self._progress.start(cached=cached)
        self._progress.finish(failed=stored - cached)
        if self._scale is None:
            for key, outcome in failures.items():
                reply = outcome.judgement
                is_paid = reply.reply is not None and is_cut(reply.finish or "")
                if is_paid and outcome.max_tokens == self._settings.max_tokens:
                    self._settle(key, replace(reply, cached=True))

    async def run(self) -> None:
        """Ask for all the others, `settings.concurrency` at a time: what was never asked before what has failed before.

        However it ends, requests in flight are cancelled and what has come is stored first.

        Raises:
            ClientError: nothing can be asked from this environment.
            RefusedError: at the first refusal that concerns all requests; names its answer. Or all of the first ten
                answers are refused in the same words.
            NoAnswerError: many answers in a row ended without any reply; names how many, and the last cause.
        """
        missing = [key for key, prompt in self._keys.items() if prompt not in self.judgements]
        failures = self._cache.load_failures(missing)
        if self._settings.asking.retry_rejected:
            self._cache.forget(missing)
        self._failed_before = {key: _words(failure.judgement.error or "") for key, failure in failures.items()}
        keys = sorted(missing, key=self._failed_before.__contains__)
        async with (
            Endpoint(self._settings, self._progress.retry, JUDGING) as endpoint,
            Claims(keys, self._cache, self._read_stored, self._settle) as claims,
        ):
            slots = min(self._settings.concurrency, len(keys))
            workers = [asyncio.create_task(self._ask(claims, endpoint)) for _ in range(slots)]
            ticker = asyncio.create_task(self._tell_waits(claims))
            try:
                await asyncio.gather(*workers)
            finally:
                for task in (*workers, ticker):
                    task.cancel()
                await asyncio.gather(*workers, ticker, return_exceptions=True)

    async def _ask(self, claims: Claims, endpoint: Endpoint) -> None:
        while (key := await claims.take()) is not None:
            prompt = self._keys[key]
            ids = self._prompts[prompt]
            self._asked += 1
            number, refusal, is_answered = self._asked, None, True
            self._progress.ask(key)
            try:
                judgement = await self._judge(prompt, endpoint)
            except RefusedRequestError as error:
                refusal = str(error)
                judgement = self._unrated(f"{self._model} refuses this request: {refusal}")
            except NoAnswerError as error:
                is_answered = False
                judgement = self._unrated(f"no answer from {self._model}: {error}")
            except RefusedError as error:
                raise RefusedError(f"{error} (asked about {ids[0]})") from error
            self.judgements[prompt] = judgement
            settings = self._settings
            outcome = Outcome(judgement, settings.where, prompt.text, settings.max_tokens) if is_answered else None
            claims.finish(key, outcome)
            if judgement.error is None:
                self._progress.finish(key, judged=len(ids))
            else:
                self._progress.finish(key, failed=len(ids), refused=len(ids) * (refusal is not None))
            # A prompt without a rating may be too long for the model, and tells nothing of the others.
            if refusal is not None and number <= _FIRST and self._scale is not None:
                self._check_first(key, refusal)
            self._without_reply = 0 if is_answered else self._without_reply + 1
            if self._without_reply >= max(_LEAST_IN_A_ROW, 2 * self._settings.concurrency):
                raise NoAnswerError(f"{self._without_reply} prompts in a row got no reply ({judgement.error})")

    async def _judge(self, prompt: Prompt, endpoint: Endpoint) -> Judgement:
        for ask in range(1 if self._scale is None else _ASKS):
            if ask:
                self._progress.retry()
            reply, seconds = await endpoint.ask(prompt)
            is_at_limit = self._is_at_limit(reply)
            self._progress.counts["tokens"] += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
            self._progress.counts["cut"] += is_at_limit
            has_ended = reply.text is not None and not is_at_limit and is_ended(reply.finish) is not False
            rating = read_rating(self._scale, reply.text, reply.finish) if has_ended and self._scale else None
            is_good = has_ended if self._scale is None else rating is not None
            judgement = Judgement(
                rating=rating,
                reply=reply.text,
                judge=reply.model or self._settings.model,
                error=None if is_good else self._why(reply, is_at_limit=is_at_limit),
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                seconds=seconds,
                finish="length" if is_at_limit else reply.finish,
            )
            if is_good:
                break
        return judgement

    def _is_at_limit(self, reply: Reply) -> bool:
        """Return whether a limit ended the reply; some servers always say ``stop``."""
        return is_cut(reply.finish) or reply.completion_tokens == self._settings.max_tokens

    def _why(self, reply: Reply, *, is_at_limit: bool) -> str:
        """Return why the last reply cannot be used."""
        reason = f"finish_reason {reply.finish!r}"
        if is_at_limit:
            count = "an unknown number of" if reply.completion_tokens is None else reply.completion_tokens
            why = (
                f"it was cut off after {count} tokens ({reason}); the limit is {self._settings.max_tokens}, which "
                f"{MAX_TOKENS} sets"
            )
        elif is_ended(reply.finish) is False:
            why = f"it was stopped before its end ({reason})"
        else:
            where = "" if is_ended(reply.finish) else f" at its end ({reason})"
            why = reply.problem or f"there is no rating in it{where}"
        which = "reply" if self._scale is None else f"last of {_ASKS} replies"
        return f"{self._model}'s {which} cannot be used: {why}"

    def _check_first(self, key: str, refusal: str) -> None:
        words = _words(refusal)
        # Where the endpoint has judged others, one that was refused before says nothing about all.
        is_known = self._progress.counts["cached"] > self._progress.elsewhere.total()
        if is_known and self._failed_before.get(key, "").endswith(words):
            return
        self._first_refusals.append(words)
        if len(self._first_refusals) == _FIRST and len(set(self._first_refusals)) == 1:
            raise RefusedError(f"{refusal} (so for all of the first {_FIRST} answers)")

    def _read_stored(self, outcome: Outcome) -> Judgement | None:
        """Read what another process has stored during this run for a prompt of this one."""
        if outcome.judgement.error is None:
            return judgement_of(outcome, self._scale)
        is_mine = outcome.endpoint == self._settings.where and outcome.max_tokens == self._settings.max_tokens
        is_recent = isinstance(outcome.time, float) and outcome.time >= self._started
        return outcome.judgement if is_recent and is_mine else None

    def _settle(self, key: str, judgement: Judgement) -> None:
        prompt = self._keys[key]
        self.judgements[prompt] = judgement
        answers = len(self._prompts[prompt])
        if judgement.error is None:
            self._progress.finish(cached=answers)
        else:
            self._progress.finish(failed=answers)

    async def _tell_waits(self, claims: Claims) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._progress.asked_elsewhere = claims.busy
            self._progress.wait()

    def _unrated(self, error: str) -> Judgement:
        return Judgement(None, None, self._settings.model, error=error)


def judgement_of(outcome: Outcome, scale: RatingScale | None) -> Judgement | None:
    """Read a stored reply as the scale reads it now; None if it is to be asked for.

    A stored reply without a clear rating is not asked for again, unless it was a failure before.
    """
    stored = replace(outcome.judgement, cached=True)
    is_failure = stored.error is not None
    if scale is None:
        return None if is_failure else replace(stored, rating=None)
    rating = read_rating(scale, stored.reply, stored.finish)
    if rating is not None:
        return replace(stored, rating=rating, error=None)
    if is_failure or not is_unclear(scale, stored.reply, stored.finish):
        return None
    return replace(stored, rating=None, error=_UNCLEAR)


def _words(refusal: str) -> str:
    """Return a refusal without its numbers, which may be the request's own."""
    return re.sub(r"\d+", "0", refusal)
