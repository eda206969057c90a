"""Candidates ranked by an inference engine (vLLM), here or on a server, with the tokens of `CandidateRanker`.

Light to import: vLLM is loaded by `local` and `forced` alone.
"""
