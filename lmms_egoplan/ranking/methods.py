"""Name the ways to rank that a user can choose. Neither torch nor an engine is loaded."""

AUTO = "auto"
"""The fastest way that is exact for the model."""

PACKED = "packed"
CACHED = "cached"
SHARED = "shared"
FULL = "full"
PATHS = (AUTO, PACKED, CACHED, SHARED, FULL)
"""Values of ``ranking_path``, for models of transformers. A model has some of them; see
`ranker.CandidateRanker`.
"""

FORCED = "forced"
PROMPT_LOGPROBS = "prompt_logprobs"
METHODS = (AUTO, FORCED, PROMPT_LOGPROBS)
"""Values of ``method``, for engines; see `engine.schedule.Schedule`."""

IN_FLIGHT = 8
"""Number of questions that an engine ranks concurrently by default.

Prefilled contexts must still be cached when their candidates are requested.
"""
