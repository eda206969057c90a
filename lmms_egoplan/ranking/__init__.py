"""Candidate continuations of a multimodal context, ranked by likelihood with any transformers vision-language model.

The vision encoder and the context run once per question; the candidates' tokens run behind them on the cache.
"""

from lmms_egoplan.ranking.question import ContextTooLongError, EncodedQuestion, PathError, RankingError
from lmms_egoplan.ranking.ranker import CandidateRanker
from lmms_egoplan.ranking.scores import CandidateScore

__all__ = ["CandidateRanker", "CandidateScore", "ContextTooLongError", "EncodedQuestion", "PathError", "RankingError"]
