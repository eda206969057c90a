"""A model that is a table: its log-probabilities depend on all earlier tokens, and all differ."""

import hashlib


def logprob(context, token):
    """Return a log-probability, nats, and a rank."""
    digest = hashlib.sha256(str((list(context), token)).encode()).digest()
    return -1 - digest[0] / 100, 1 + digest[1] % 2


def expected(question):
    """Return the log-probabilities of each candidate's scored tokens."""
    return [
        tuple(
            logprob(question.prefix + tokens[:k], tokens[k])[0] for k in range(first, len(tokens))
        )
        for tokens, first in (
            (candidate.tokens, candidate.first) for candidate in question.candidates
        )
    ]
