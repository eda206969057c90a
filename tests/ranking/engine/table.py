"""A model that is a table: its log-probabilities depend on all earlier tokens, and all differ."""

import hashlib


def logprob(context, token):
    """The log-probability, nats, and a rank."""
    digest = hashlib.sha256(str((list(context), token)).encode()).digest()
    return -1 - digest[0] / 100, 1 + digest[1] % 2


def expected(asked):
    """Those of each candidate's scored tokens."""
    return [
        tuple(logprob(asked.prefix + each.tokens[:k], each.tokens[k])[0] for k in range(each.first, len(each.tokens)))
        for each in asked.candidates
    ]
