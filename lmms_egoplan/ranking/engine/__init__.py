"""Rank candidates with an inference engine (vLLM), in this process or on a server.

The tokens are those of `CandidateRanker`.

The import is cheap: only `local` and `forced` load vLLM.
"""
