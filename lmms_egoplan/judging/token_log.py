"""Count the tokens of a run, and log its expected cost after the first replies."""

from loguru import logger

from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.tokens import ReplyTokens, StepUsage, expectation

# The expected cost is logged after this many replies, and again as they double.
_FIRST_REPLIES = 20


class TokenLog:
    """The tokens of a run's replies."""

    def __init__(self, title: str, settings: JudgeSettings, num_requests: int) -> None:
        """Begin without replies.

        Args:
            title: name of the step.
            settings: the judge or language model.
            num_requests: number of requests of the run.
        """
        self._title = title
        self._settings = settings
        self._num_requests = num_requests
        self._tokens: list[ReplyTokens] = []
        self._next_expectation = _FIRST_REPLIES

    def add(self, tokens: ReplyTokens) -> None:
        """Count the tokens of a reply."""
        self._tokens.append(tokens)
        if len(self._tokens) == self._next_expectation:
            self._next_expectation *= 2
            self._log_expectation()

    def usage(self) -> StepUsage:
        """Return the requests and tokens so far."""
        return StepUsage.of_replies(self._title, self._tokens, self._settings.model)

    def _log_expectation(self) -> None:
        """Log the expected cost of the run by its first replies."""
        first = self.usage()
        if self._num_requests > len(self._tokens) and not first.unknown:
            prices = self._settings.options.prices
            max_tokens = self._settings.max_tokens
            logger.info(expectation(first, prices, self._num_requests, max_tokens))
