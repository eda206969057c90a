"""Count the tokens of a run, and log its expected cost while it runs."""

import math

from loguru import logger
from tqdm import tqdm

from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.tokens import ReplyTokens, StepUsage, expectation

# The expected cost is logged after this many replies, and again after each further part of the
# prompts.
_FIRST_REPLIES = 50
_PART = 0.1


class TokenLog:
    """The tokens of a run's replies.

    The expected cost is not logged for batches: all prompts are sent before the first reply.
    """

    def __init__(self, title: str, settings: JudgeSettings, num_prompts: int) -> None:
        """Begin without replies.

        Args:
            title: name of the step.
            settings: the judge or language model.
            num_prompts: number of prompts of the run.
        """
        self._title = title
        self._settings = settings
        self._num_prompts = num_prompts
        self._num_answered = 0
        self._tokens: list[ReplyTokens] = []
        self._next_expectation = _FIRST_REPLIES

    def add(self, tokens: ReplyTokens, *, is_repeat: bool) -> None:
        """Count the tokens of a reply, to a new prompt or to a repeated one."""
        self._tokens.append(tokens)
        if not is_repeat:
            self._num_answered += 1
        if self._num_answered >= self._next_expectation and not is_repeat:
            self._next_expectation += max(1, math.ceil(_PART * self._num_prompts))
            self._log_expectation()

    def usage(self) -> StepUsage:
        """Return the requests and tokens so far."""
        return StepUsage.of_replies(self._title, self._tokens, self._settings.model)

    def _log_expectation(self) -> None:
        """Log the expected cost of the run by its replies so far."""
        options = self._settings.options
        known = [tokens for tokens in self._tokens if tokens.is_known]
        if options.batch or not known or self._num_answered >= self._num_prompts:
            return
        message = expectation(
            StepUsage.of_replies(self._title, known, self._settings.model),
            options.prices,
            prompts=self._num_prompts,
            requests=self._num_prompts * len(self._tokens) / self._num_answered,
            max_tokens=self._settings.max_tokens,
        )
        with tqdm.external_write_mode():
            logger.info(message)
