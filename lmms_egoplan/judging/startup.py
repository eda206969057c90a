"""Telling at the start of a run whether there is a judge, and whether it answers."""

import functools

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judge import JudgeError, probe
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings


@functools.cache
def announce_judge(settings: JudgeSettings | None, otherwise: str = "") -> None:
    """Send the judge one request, or say how to set one; once in a process for the same settings.

    Args:
        settings: of the judge; None where none is set.
        otherwise: what else can be done without one, for that case.

    Raises:
        JudgeError: the judge that is set cannot be reached, or refuses; or its cache cannot be used.
    """
    if settings is None:
        logger.warning(
            "No judge is set: answers are kept and stay unjudged, their score is not a number. Set one with\n"
            f"{HOW_TO_SET}{otherwise}"
        )
        return
    if settings.model != DEMO:
        try:
            with JudgementCache(default_cache_path()):
                pass
        except CacheError as error:
            raise JudgeError(str(error)) from None
    logger.info(f"Judge: {probe(settings)}")
