"""Log at the start of a run whether there is a judge, and whether it answers."""

import functools

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.judging.judge import JudgeError, probe
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings, judge_settings, set_model


def announce_judge(default_model: str, otherwise: str = "") -> None:
    """Send the judge that is set one request, or say how to set one; each once in a process.

    Args:
        default_model: as for `judge_settings`.
        otherwise: what else can be done without a judge, for that case; a line.

    Raises:
        JudgeError: the judge that is set cannot be reached, or refuses; or its cache cannot be used.
        LmmsEgoplanError: a setting of the judge is wrong, see `judge_settings`.
    """
    settings = judge_settings(default_model)
    if settings is not None:
        _try(settings)
        variable, _ = set_model()
        if not variable:
            _tell("Each benchmark asks its own default judge. LMMS_EGOPLAN_JUDGE_MODEL sets one judge for all of them.")
        elif settings.model != DEMO:
            _tell(f"{variable} sets the judge of all benchmarks, in place of their defaults.")
        return
    _warn(f"No judge is set: answers are saved without ratings, and `score` is NaN. Set a judge with\n{HOW_TO_SET}")
    if otherwise:
        _warn(otherwise)


@functools.cache
def _try(settings: JudgeSettings) -> None:
    if settings.model != DEMO:
        try:
            with JudgementCache(default_cache_path()):
                pass
        except CacheError as error:
            raise JudgeError(str(error)) from None
    logger.info(f"Judge: {probe(settings)}")


@functools.cache
def _tell(message: str) -> None:
    logger.info(message)


@functools.cache
def _warn(message: str) -> None:
    logger.warning(message)
