"""Rank candidate continuations of a multimodal context by likelihood.

Works with any vision-language model of transformers.

The vision encoder and the context run once per question. The candidates' tokens follow on the
cache. The import is cheap: torch and transformers are loaded on first use.
"""

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "CandidateRanker":
        from lmms_egoplan.ranking.ranker import CandidateRanker

        return CandidateRanker
    if name == "CandidateScore":
        from lmms_egoplan.ranking.scores import CandidateScore

        return CandidateScore
    from lmms_egoplan.ranking import question

    records_and_errors = {
        "ContextTooLongError": question.ContextTooLongError,
        "EncodedQuestion": question.EncodedQuestion,
        "PathError": question.PathError,
        "RankingError": question.RankingError,
    }
    return records_and_errors[name]
