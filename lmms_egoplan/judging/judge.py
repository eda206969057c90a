"""Send many prompts to a judge or another language model concurrently. Reuse cached replies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.judging.endpoint import EndpointError
from lmms_egoplan.judging.failures import JudgeError, failure_message, unrated
from lmms_egoplan.judging.judgement import (
    DEMO,
    Judgement,
    JudgeRequest,
    Prompt,
    RatingScale,
    judge_by_words,
)
from lmms_egoplan.judging.probe import PROBE, announce_endpoint, probe
from lmms_egoplan.judging.progress import JUDGING_WORDS, RequestProgress
from lmms_egoplan.judging.run import IsReadable, PromptRun, PromptSet, is_complete
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.judging.threads import run_in_thread
from lmms_egoplan.judging.tokens import StepUsage, prompt_tokens
from lmms_egoplan.text import clean_text, join_list


def judge_all(
    requests: Sequence[JudgeRequest],
    scale: RatingScale,
    settings: JudgeSettings,
    *,
    title: str = "",
) -> list[Judgement]:
    """Judge all requests, `settings.concurrency` at a time.

    Every rated reply is stored when it arrives.

    - A prompt with a rated reply in the cache (`default_cache_path`) is not sent. This holds even
      if the current rule finds no clear rating in the reply.
    - Duplicate prompts are sent once. If several processes judge the same prompt, only one of them
      sends it.
    - Prompts that were refused or not rated before are sent last.
    - A prompt that the content filter of this endpoint stopped, or whose last reply it stopped, is
      not sent again. `settings.options.retry_rejected` sends it.
    - A reply that is cut off or has no rating is requested up to two more times. A request that the
      endpoint refuses with 400, 413 or 422 is not repeated.
    - Lone surrogates in a prompt are sent as ``?``.
    - If none of the first 20 replies can be read, no more are requested. Later calls with the same
      `settings.usage` then request none.
    - `settings.options` limits requests and cost. At a limit, requests in flight are finished, and
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
    ...     JudgeRequest("question/1", "Rate: a red cup", reference="a cup", answer="a red cup"),
    ...     JudgeRequest("question/2", "Rate: A cup.", reference="a cup", answer="A cup."),
    ... ]
    >>> judgements = judge_all(requests, scale, JudgeSettings("demo"))
    >>> [judgement.rating for judgement in judgements]
    [0.5, 1]
    >>> judgements[0].reply
    "Word comparison: 2 of 3 words are among the reference's 2. Rating: [[0.5]]"
    """
    if settings.model == DEMO:
        progress = RequestProgress(JUDGING_WORDS, title, len(requests))
        progress.count(judged=len(requests))
        progress.summarize([DEMO], "0 tokens", "0 tokens")
        return [judge_by_words(request, scale.best) for request in requests]
    prompts = [
        Prompt(
            clean_text(request.prompt),
            request.images,
            request.repeat,
            system=request.system,
            protocol=request.protocol,
        )
        for request in requests
    ]
    answers = _answers_by_prompt(prompts, [request.id for request in requests])
    return _ask_all(prompts, PromptSet(answers, scale, settings, title))


def complete_all(
    prompts: Mapping[str, Prompt],
    settings: JudgeSettings,
    *,
    title: str,
    step: str = "",
    is_readable: IsReadable = is_complete,
) -> dict[str, Judgement]:
    """Send every prompt to a language model as one user message.

    Every reply is stored when it arrives.

    Works like `judge_all`, except that any complete reply is accepted. No reply is paid for twice:
    after a reply that was cut off, its prompt is sent again only with another token limit. Prompts
    that were refused or got no reply are sent each time, unless a content filter of this endpoint
    stopped the prompt or its reply.

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
    cleaned = [replace(prompt, text=clean_text(prompt.text)) for prompt in prompts.values()]
    answers = _answers_by_prompt(cleaned, [*prompts])
    prompt_set = PromptSet(answers, None, settings, title, step, is_readable)
    return dict(zip(prompts, _ask_all(cleaned, prompt_set), strict=True))


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
        self._title = title
        self._settings = settings
        self._hint = hint

    def rate(
        self, requests: Sequence[JudgeRequest], scale: RatingScale, part: str = ""
    ) -> list[Judgement]:
        """Judge like `judge_all`, but do not raise if the batch fails.

        The failure is logged, and the answers that were not judged have it in place of a rating.
        Later batches are not sent.

        Args:
            requests: the answers to judge.
            scale: reads the ratings.
            part: short name of this batch, for the progress bar.

        Raises:
            JudgeError: the test request of `settings.options` failed.
        """
        if not requests:
            return []
        if self.failure is not None:
            return [unrated(self._settings, f"not judged: {self.failure}")] * len(requests)
        title = f"{self._title} {part}".rstrip()
        try:
            return judge_all(requests, scale, self._settings, title=title)
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


def _answers_by_prompt(prompts: Sequence[Prompt], ids: Sequence[str]) -> dict[Prompt, list[str]]:
    """Return the ids of the answers that each prompt judges."""
    answers: dict[Prompt, list[str]] = {}
    for prompt, answer_id in zip(prompts, ids, strict=True):
        answers.setdefault(prompt, []).append(answer_id)
    return answers


def _ask_all(prompts: Sequence[Prompt], prompt_set: PromptSet) -> list[Judgement]:
    """Return the judgements of some prompts, in order.

    See `judge_all`, or without a scale `complete_all`.

    Args:
        prompts: prompts of the set. May be repeated.
        prompt_set: the set.
    """
    settings = prompt_set.settings
    if settings.options.batch:  # a batch takes all prompts at once
        settings = replace(settings, concurrency=len(prompt_set.answers))
        prompt_set = replace(prompt_set, settings=settings)
    judgements: dict[Prompt, Judgement] = {}
    failure = None
    try:
        _ask_set(prompt_set, judgements)
    except CacheError as error:
        failure = str(error)
    except EndpointError as error:
        failure = failure_message(settings, error, prompt_set.words)
    except KeyboardInterrupt:
        batches = ""
        if settings.options.batch:
            batches = "; batches continue at the endpoint, and the repeated command collects them"
        logger.warning(
            f"Interrupted. Finished results are stored; to resume, repeat the command{batches}"
        )
        raise
    named = {
        prompt: replace(judgement, judge=settings.name(judgement.judge))
        for prompt, judgement in judgements.items()
    }
    if failure is None:
        return [named[prompt] for prompt in prompts]
    not_asked = unrated(settings, f"not {prompt_set.words.judged}: {failure}")
    raise JudgeError(failure, [named.get(prompt, not_asked) for prompt in prompts])


def _ask_set(prompt_set: PromptSet, judgements: dict[Prompt, Judgement]) -> None:
    """Ask all prompts without a stored reply, and put all judgements into `judgements`.

    If this fails, `judgements` contains those that are known.

    Raises:
        CacheError: the cache cannot be used.
        EndpointError: see `PromptRun.ask`.
        JudgeError: the test request failed.
    """
    with JudgementCache(default_cache_path()) as cache:
        run = PromptRun(prompt_set, cache)
        try:
            missing = [prompt for prompt in prompt_set.answers if prompt not in run.judgements]
            if prompt_set.settings.options.is_estimate:
                _estimate(missing, prompt_set, run, cache)
            elif missing:
                _test_once(missing, prompt_set)
                announce_endpoint(prompt_set.settings)
                run_in_thread(run.ask())
        finally:
            judgements |= run.judgements
            run.close()


def _test_once(prompts: Sequence[Prompt], prompt_set: PromptSet) -> None:
    """Test the model with one request in the form of these prompts, if the command asks for it.

    A test with a schema also covers prompts without one.

    Raises:
        JudgeError: see `probe`.
    """
    settings = prompt_set.settings
    has_schema = any(prompt.schema is not None for prompt in prompts)
    tested = settings.usage.tested_forms
    if settings.options.probes and not (has_schema in tested or True in tested):
        tested.add(has_schema)
        largest = max(prompts, key=lambda prompt: len(prompt.images))
        probe(settings, replace(largest, text=PROBE.text), prompt_set.words)


def _estimate(
    missing: Sequence[Prompt], prompt_set: PromptSet, run: PromptRun, cache: JudgementCache
) -> None:
    """Add prompts to the estimate instead of asking them.

    Reply tokens are expected by the stored replies to similar prompts.
    """
    settings = prompt_set.settings
    num_stored, stored_tokens = cache.reply_tokens(
        settings.where, settings.model, [prompt.text for prompt in missing]
    )
    expected = None
    if num_stored:
        expected = round(len(missing) * stored_tokens / num_stored)
    usage = StepUsage(
        prompt_set.title,
        requests=len(missing),
        prompt_tokens=sum(prompt_tokens(prompt) for prompt in missing),
        reply_tokens=len(missing) * settings.max_tokens,
        model=settings.model,
        expected=expected,
        stored=num_stored,
    )
    settings.usage.steps.append(usage)
    not_sent = unrated(settings, "not sent: this is an estimate")
    run.judgements |= dict.fromkeys(missing, not_sent)
