"""Answers of a task rated so that none is lost: where the judge fails, this is told, and what there is is kept."""

from collections.abc import Sequence

from loguru import logger

from lmms_egoplan.judging.judge import JudgeError, judge_all
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest, RatingScale
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.text import join_list


class Rater:
    """A judge that is asked in one batch or several; after one that fails, the others are not asked.

    failure: why it failed; None as long as it did not.
    """

    def __init__(self, title: str, settings: JudgeSettings, kept: str) -> None:
        """Ask nothing yet.

        Args:
            title: of what is judged.
            kept: says what becomes of the answers if the judge fails.
        """
        self.failure: str | None = None
        self._title, self._settings, self._kept = title, settings, kept

    def rate(self, requests: Sequence[JudgeRequest], scale: RatingScale, part: str = "") -> list[Judgement]:
        """Judge as `judge_all`, but log an error, which every judgement without a rating then has.

        Args:
            part: of what is judged, short, for the progress bar.
        """
        if self.failure is not None or not requests:
            unasked = Judgement(None, None, self._settings.model, error=f"not judged: {self.failure}")
            return [unasked] * len(requests)
        title = f"{self._title} {part}".rstrip()
        try:
            return judge_all(requests, scale, self._settings, title=title)
        except JudgeError as error:
            self.failure = str(error)
            logger.error(f"{self._title}: {error}\n{self._kept}")
            return error.judgements


def warn_of_missing_ratings(title: str, names: Sequence[str], asked: int, what: str) -> None:
    """Warn once of what is not judged, of `asked` in all, naming at most 20; do nothing if all is.

    Args:
        title: of what was judged.
        what: they are, in the plural.
    """
    if names:
        logger.warning(
            f"{title}: {len(names)} of {asked} {what} are not judged and left out of the scores: {join_list(names, 20)}"
        )
