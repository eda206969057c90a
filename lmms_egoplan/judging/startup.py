"""Telling at the start of a run whether there is a judge, and whether it answers."""

import functools

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judge import JudgeError, probe
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings, judge_settings


def announce_judge(default_model: str, otherwise: str = "") -> None:
    """Send the judge that is set one request, or say how to set one; once in a process for the same judge.

    Args:
        default_model: as for `judge_settings`.
        otherwise: what else can be done without a judge, for that case.

    Raises:
        JudgeError: the judge that is set cannot be reached, or refuses; or its cache cannot be used.
        SettingsError: as for `judge_settings`.
    """
    _announce(judge_settings(default_model), otherwise)


@functools.cache
def _announce(settings: JudgeSettings | None, otherwise: str) -> None:
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
