"""Candidate continuations of a multimodal context, ranked by likelihood with any transformers vision-language model.

The vision encoder and the context run once per question; the candidates' tokens run behind them on the cache.
Light to import: torch and transformers are loaded with the first name that is asked for.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_egoplan.ranking.question import ContextTooLongError, EncodedQuestion, PathError, RankingError
    from lmms_egoplan.ranking.ranker import CandidateRanker
    from lmms_egoplan.ranking.scores import CandidateScore

__all__ = ["CandidateRanker", "CandidateScore", "ContextTooLongError", "EncodedQuestion", "PathError", "RankingError"]
_MODULES = {"CandidateRanker": "ranker", "CandidateScore": "scores"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(f"{__name__}.{_MODULES.get(name, 'question')}:{name}")
