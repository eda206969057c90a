"""Rules that end a run early, because more requests would cost time or money for nothing."""

import re
from collections.abc import Mapping

from lmms_egoplan.judging.endpoint import EndpointError, NoAnswerError
from lmms_egoplan.judging.failures import NoReadableReplyError
from lmms_egoplan.judging.judgement import Judgement
from lmms_egoplan.judging.usage import Verdicts
from lmms_egoplan.text import strip_controls

# The run ends after this many requests in a row without a reply, or after twice the concurrency if
# that is more.
_LEAST_IN_A_ROW = 8
# Number of first requests. The run ends if all of them are refused with the same message.
_FIRST_ANSWERS = 10
# The run ends after this number of replies if none of them can be read.
_UNREADABLE = 20
# Characters of the beginning and of the end of such a reply that are printed.
_SHOWN = 250


class SilenceRule:
    """End a run after many prompts in a row without a reply."""

    def __init__(self, concurrency: int) -> None:
        self._most_in_a_row = max(_LEAST_IN_A_ROW, 2 * concurrency)
        self._num_in_a_row = 0

    def check(self, judgement: Judgement, *, is_answered: bool) -> None:
        """Count the outcome of a prompt.

        Raises:
            NoAnswerError: many prompts in a row got no reply. The message has the last cause.
        """
        if is_answered:
            self._num_in_a_row = 0
        else:
            self._num_in_a_row += 1
        if self._num_in_a_row >= self._most_in_a_row:
            raise NoAnswerError(
                f"{self._num_in_a_row} prompts in a row got no reply ({judgement.error})"
            )


class RefusalRule:
    """End a run whose first prompts are all refused with the same message."""

    def __init__(self, earlier_failures: Mapping[str, Judgement]) -> None:
        """Begin without refusals.

        Args:
            earlier_failures: stored failures of prompts, by key.
        """
        self._earlier = {
            key: _wording(failure.error or "") for key, failure in earlier_failures.items()
        }
        self._wordings: list[str] = []

    def check(self, key: str, refusal: str, number: int, *, has_rated: bool) -> None:
        """Count the refusal of a prompt, if it is one of the first.

        Args:
            key: key of the prompt.
            refusal: the endpoint's message.
            number: number of the prompt in the order of sending, from 1.
            has_rated: whether this endpoint has rated answers before. Then, a refusal that is
                already stored does not concern all requests.

        Raises:
            EndpointError: all of the first prompts are refused with the same message.
        """
        if number > _FIRST_ANSWERS:
            return
        wording = _wording(refusal)
        if has_rated and self._earlier.get(key, "").endswith(wording):
            return
        self._wordings.append(wording)
        if len(self._wordings) == _FIRST_ANSWERS and len(set(self._wordings)) == 1:
            raise EndpointError(
                f"{refusal} (the same for all of the first {_FIRST_ANSWERS} answers)"
            )


class ReadabilityRule:
    """End a run if none of the first replies can be read.

    The replies of all calls of a command that read alike count together.
    """

    def __init__(self, verdicts: Verdicts, max_tokens: int) -> None:
        """Continue to count.

        Args:
            verdicts: the counts so far.
            max_tokens: token limit of a reply, for the message.
        """
        self._verdicts = verdicts
        self._max_tokens = max_tokens

    @property
    def has_readable(self) -> bool:
        """True if a reply could be read."""
        return self._verdicts.readable > 0

    def count(self, *, is_readable: bool, is_cut: bool) -> None:
        """Count a reply.

        Args:
            is_readable: whether it can be read.
            is_cut: whether the token limit ended it.
        """
        if is_readable:
            self._verdicts.readable += 1
        else:
            self._verdicts.unreadable += 1
        if is_cut:
            self._verdicts.cut += 1

    @property
    def is_broken(self) -> bool:
        """True if the run must end."""
        return self._verdicts.unreadable >= _UNREADABLE and not self.has_readable

    def error(self, answer: str = "", last: Judgement | None = None) -> NoReadableReplyError:
        """Return the error about replies that cannot be read.

        Args:
            answer: id of the answer that the last reply is about.
            last: the last reply, which the message quotes; None for no quotation.
        """
        cut = ""
        if self._verdicts.cut:
            cut = (
                f" ({self._verdicts.cut} of them were cut off at the limit of "
                f"{self._max_tokens} tokens)"
            )
        example = ""
        if last is not None:
            example = f". The last one, about {answer}: {_excerpt(last)}"
        return NoReadableReplyError(
            f"none of its first {self._verdicts.unreadable} replies can be read{cut}{example}"
        )


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
