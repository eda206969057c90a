"""Rank candidate continuations of a multimodal context by likelihood.

Works with any vision-language model of transformers.

The vision encoder and the context run once per question. The candidates' tokens follow on the
cache. The import is cheap: torch and transformers are loaded on first use.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_egoplan.ranking.question import (
        ContextTooLongError,
        EncodedQuestion,
        PathError,
        RankingError,
    )
    from lmms_egoplan.ranking.ranker import CandidateRanker
    from lmms_egoplan.ranking.scores import CandidateScore

__all__ = [
    "CandidateRanker",
    "CandidateScore",
    "ContextTooLongError",
    "EncodedQuestion",
    "PathError",
    "RankingError",
]
_MODULES = {"CandidateRanker": "ranker", "CandidateScore": "scores"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(f"{__name__}.{_MODULES.get(name, 'question')}:{name}")
