"""Rank candidates with an inference engine (vLLM), in this process or on a server, with
`CandidateRanker`'s tokens.

The import is cheap: only `local` and `forced` load vLLM.
"""
