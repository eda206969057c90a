"""Many prompts to one judge at once, each reply stored as it comes."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, Entry, JudgementCache, cache_key
from lmms_egoplan.judging.endpoint import JUDGING, PARAMETERS, Endpoint, NoAnswerError, RefusedError
from lmms_egoplan.judging.judgement import Judgement, Prompt, RatingScale
from lmms_egoplan.judging.progress import Progress
from lmms_egoplan.judging.reply import without_thinking
from lmms_egoplan.judging.settings import JudgeSettings

# A reply without a rating is asked again twice.
_ASKS = 3
# So many answers in a row without a reply end the run, or twice as many as are asked at once if that is more.
_LEAST_IN_A_ROW = 8


class Asking:
    """One run over prompts that differ from each other.

    judgements: by prompt, what has come so far.
    """

    def __init__(
        self,
        prompts: dict[Prompt, Sequence[str]],
        scale: RatingScale,
        settings: JudgeSettings,
        cache: JudgementCache,
        progress: Progress,
    ) -> None:
        """`prompts` tells the ids of the answers that hang on each prompt."""
        self.judgements: dict[Prompt, Judgement] = {}
        self._without_reply = 0
        self._prompts, self._scale, self._settings = prompts, scale, settings
        self._cache, self._progress = cache, progress

    async def run(self) -> None:
        """Ask for all, `settings.concurrency` at a time.

        However it ends, requests in flight are cancelled and what has come is stored first.

        Raises:
            ClientError: nothing can be asked from this environment.
            RefusedError: at the first request that the endpoint refuses; names its answer.
            NoAnswerError: many answers in a row ended without any reply; names how many, and the last cause.
        """
        self._arrived: asyncio.Queue[tuple[Prompt, Entry] | None] = asyncio.Queue()
        prompts = iter(self._prompts)
        async with Endpoint(self._settings, self._progress.retry, JUDGING) as endpoint:
            storing = asyncio.create_task(self._store())
            slots = min(self._settings.concurrency, len(self._prompts))
            asking = [asyncio.create_task(self._ask(prompts, endpoint)) for _ in range(slots)]
            try:
                await asyncio.gather(*asking)
            finally:
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
                self._arrived.put_nowait(None)
                await storing

    async def _ask(self, prompts: Iterable[Prompt], endpoint: Endpoint) -> None:
        for prompt in prompts:
            try:
                self.judgements[prompt] = judgement = await self._judge(prompt, endpoint)
            except RefusedError as error:
                raise RefusedError(f"{error} (asked about {self._prompts[prompt][0]})") from error
            if judgement.rating is not None:
                self._arrived.put_nowait((prompt, self._entry(prompt, judgement)))
                continue
            self._progress.finish(failed=len(self._prompts[prompt]))
            if self._without_reply >= max(_LEAST_IN_A_ROW, 2 * self._settings.concurrency):
                raise NoAnswerError(f"{self._without_reply} prompts in a row got no reply ({judgement.error})")

    async def _judge(self, prompt: Prompt, endpoint: Endpoint) -> Judgement:
        judgement = Judgement(None, None, self._settings.model)
        for ask in range(_ASKS):
            if ask:
                self._progress.retry()
            try:
                reply, seconds = await endpoint.ask(prompt)
            except NoAnswerError as failure:
                self._without_reply += 1
                return replace(judgement, error=f"no answer from the judge: {failure}")
            self._without_reply = 0
            self._progress.tokens += (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
            rating = read_rating(self._scale, reply.text)
            why = reply.problem or "there is no rating in it"
            judgement = Judgement(
                rating=rating,
                reply=reply.text,
                judge=reply.model or self._settings.model,
                error=None if rating is not None else f"the judge's last of {_ASKS} replies is of no use: {why}",
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                seconds=seconds,
            )
            if rating is not None:
                break
        return judgement

    async def _store(self) -> None:
        """Store what has arrived, in one transaction each time, until there is a None."""
        unstored: dict[Prompt, Entry] = {}
        warned = finished = False
        while not finished:
            arrived = [await self._arrived.get()]
            while not self._arrived.empty():
                arrived.append(self._arrived.get_nowait())
            finished = arrived[-1] is None
            fresh = dict(item for item in arrived if item is not None)
            unstored |= fresh
            try:
                await asyncio.to_thread(self._cache.store, {self._key(prompt): e for prompt, e in unstored.items()})
                unstored = {}
            except CacheError as error:
                # The judgements are still in the result; only a repeated run would ask for them again.
                if not warned:
                    logger.warning(f"Judgements are not stored: {error}")
                warned = True
            for prompt in fresh:
                self._progress.finish(judged=len(self._prompts[prompt]))

    def _entry(self, prompt: Prompt, judgement: Judgement) -> Entry:
        assert judgement.rating is not None
        assert judgement.reply is not None
        return Entry(
            prompt=prompt.text,
            reply=judgement.reply,
            rating=judgement.rating,
            model=judgement.judge,
            endpoint=self._settings.where,
            prompt_tokens=judgement.prompt_tokens,
            completion_tokens=judgement.completion_tokens,
            seconds=judgement.seconds,
            time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    def _key(self, prompt: Prompt) -> str:
        return cache_key(self._settings.model, PARAMETERS, prompt)


def read_rating(scale: RatingScale, reply: str | None) -> float | None:
    """The rating in a reply; what a model says while it thinks is none."""
    verdict = None if reply is None else without_thinking(reply)
    return None if verdict is None else scale.read(verdict)
