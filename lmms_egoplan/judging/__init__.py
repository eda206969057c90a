"""One client of language models that owns concurrency, retries, caching and accounting; answers that a judge rates.

What needs no rating is asked by `complete_all`.
"""

from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judge import JudgeError, complete_all, judge_all, probe
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest, RatingScale
from lmms_egoplan.judging.settings import HOW_TO_SET, JudgeSettings, judge_settings

__all__ = [
    "DEMO",
    "HOW_TO_SET",
    "JudgeError",
    "JudgeRequest",
    "JudgeSettings",
    "Judgement",
    "RatingScale",
    "complete_all",
    "default_cache_path",
    "judge_all",
    "judge_settings",
    "probe",
]
