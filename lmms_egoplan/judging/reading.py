"""Read new and stored replies by the current rule."""

from dataclasses import dataclass, replace

from lmms_egoplan.judging.judgement import Judgement, RatingScale
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import is_cut, is_ended, is_filtered, is_unclear, read_rating
from lmms_egoplan.judging.variables import MAX_TOKENS

# What the error about a filtered prompt or reply ends with.
FILTERED_HINT = "only --retry-rejected requests it again"
# Error for a stored reply whose rating no longer counts.
UNCLEAR = "the judge's stored reply has no clear rating; it is not requested again"


@dataclass(frozen=True)
class ReadReply:
    """A new reply and its reading.

    Attributes:
        judgement: The reply with its rating or its error.
        is_at_limit: Whether the token limit ended the reply.
        is_stopped: Whether something else than the model or the token limit ended it.
    """

    judgement: Judgement
    is_at_limit: bool
    is_stopped: bool


@dataclass(frozen=True)
class ReplyReader:
    """Reads the replies of one run.

    Attributes:
        scale: Reads the ratings; None to accept any complete reply.
        settings: The judge or language model.
        model: The model's role, for messages.
        started: Start of the run, in seconds since the epoch.
    """

    scale: RatingScale | None
    settings: JudgeSettings
    model: str
    started: float

    def read_new(self, reply: Judgement, attempt: int) -> ReadReply:
        """Read a new reply.

        Args:
            reply: the reply, without a rating.
            attempt: number of the attempt, from 1.
        """
        # Some servers always report ``stop``.
        counted = (reply.completion_tokens, reply.stated_tokens)
        is_at_limit = is_cut(reply.finish) or self.settings.max_tokens in counted
        is_stopped = is_ended(reply.finish) is False
        is_complete = reply.reply is not None and not is_at_limit and not is_stopped
        rating = None
        is_good = is_complete
        if self.scale is not None:
            if is_complete:
                rating = read_rating(self.scale, reply.reply, reply.finish)
            is_good = rating is not None
        error = None
        if not is_good:
            error = self._problem(reply, attempt, is_at_limit=is_at_limit)
        judgement = replace(
            reply,
            rating=rating,
            error=error,
            finish="length" if is_at_limit else reply.finish,
        )
        return ReadReply(judgement, is_at_limit, is_stopped=is_stopped and not is_at_limit)

    def _problem(self, reply: Judgement, attempts: int, *, is_at_limit: bool) -> str:
        """Return why the last reply cannot be used."""
        reason = f"finish_reason {reply.finish!r}"
        if is_at_limit:
            count = str(reply.completion_tokens)
            if reply.completion_tokens is None:
                count = "an unknown number of"
            problem = (
                f"it was cut off after {count} tokens ({reason}); the limit is "
                f"{self.settings.max_tokens}, set by {MAX_TOKENS}"
            )
        elif is_filtered(reply.finish):
            problem = f"it was filtered ({reason}); {FILTERED_HINT}"
        elif is_ended(reply.finish) is False:
            problem = f"it was stopped before its end ({reason})"
        elif reply.error:
            problem = reply.error
        elif is_ended(reply.finish):
            problem = "it has no rating"
        else:
            problem = f"it has no rating at its end ({reason})"
        subject = "reply"
        if self.scale is not None:
            subject = f"last reply ({attempts} attempts)"
        return f"the {self.model}'s {subject} cannot be used: {problem}"

    def read_stored(self, stored: Judgement) -> Judgement | None:
        """Read a stored reply; return None if the prompt must be requested again.

        - A failure counts if the current rule finds a rating in its reply.
        - What the content filter of this endpoint stopped counts as a failure.
        - Without a scale, a reply that was cut off at the same token limit counts, because it was
          paid for.
        - A reply that an earlier rule rated counts, without a rating if the current rule finds no
          clear one.
        """
        is_failure = stored.error is not None
        stored = replace(stored, cached=True)
        if is_failure and self._is_filtered_here(stored):
            return stored
        if self.scale is None:
            if is_failure and not self._is_paid(stored):
                return None
            return replace(stored, rating=None)
        rating = read_rating(self.scale, stored.reply, stored.finish)
        if rating is not None:
            return replace(stored, rating=rating, error=None)
        if is_failure or not is_unclear(self.scale, stored.reply, stored.finish):
            return None
        return replace(stored, rating=None, error=UNCLEAR)

    def _is_filtered_here(self, stored: Judgement) -> bool:
        """Return whether the content filter of this endpoint stopped the prompt or its reply."""
        return is_filtered(stored.finish) and stored.endpoint == self.settings.where

    def _is_paid(self, stored: Judgement) -> bool:
        """Return whether a stored failure is a reply that was cut off at the same token limit."""
        is_reply = stored.reply is not None and is_cut(stored.finish)
        return is_reply and stored.max_tokens == self.settings.max_tokens

    def read_from_other_process(self, stored: Judgement) -> Judgement | None:
        """Read an outcome that another process stored; return None if it does not count.

        A failure counts if it has the settings of this run and was stored during it.
        """
        if stored.error is None:
            return self.read_stored(stored)
        has_same_settings = (
            stored.endpoint == self.settings.where and stored.max_tokens == self.settings.max_tokens
        )
        is_recent = isinstance(stored.time, float) and stored.time >= self.started
        return stored if is_recent and has_same_settings else None
