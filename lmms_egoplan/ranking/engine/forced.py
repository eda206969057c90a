"""A logits processor for vLLM that lets one token through at a time, so that a given text is generated.

vLLM returns log-probabilities as they were before it. A server takes it by name:
``--logits-processors lmms_egoplan.ranking.engine.forced:ForcedTokens``.
"""

from typing import Any, ClassVar

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from lmms_egoplan.ranking.engine.requests import ARGUMENT

# Tokens of a request; candidates have far fewer.
_MOST = 4096


class ForcedTokens(AdapterLogitsProcessor):
    """Forces the tokens that a request's ``extra_args`` name as `ARGUMENT`, in order.

    An exception in a step would end the engine for all of its users, so nothing here raises but `validate_params`.
    """

    # Size of the vocabulary where it is known: a server checks requests in a process without the engine.
    _vocabulary: ClassVar[int] = 2**31

    def __init__(self, vllm_config: Any, *others: Any) -> None:
        super().__init__(vllm_config, *others)
        type(self)._vocabulary = vllm_config.model_config.get_vocab_size()

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose argument is no list of token ids.

        Raises:
            ValueError: it is none.
        """
        tokens = (sampling_params.extra_args or {}).get(ARGUMENT)
        if tokens is not None and not cls._has_tokens(tokens):
            raise ValueError(
                f"{ARGUMENT} must be at most {_MOST} token ids of the model's vocabulary, got {tokens!r:.100}"
            )

    def is_argmax_invariant(self) -> bool:
        """Return that the most probable token changes."""
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        """Return what forces a request's tokens; None if it names none."""
        tokens = (params.extra_args or {}).get(ARGUMENT)
        if not tokens or not self._has_tokens(tokens):
            return None  # The client sees that other tokens come.

        def force(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
            token = tokens[len(output_ids)] if len(output_ids) < len(tokens) else len(logits)
            if token < len(logits):
                logits.fill_(-torch.inf)
                logits[token] = 0.0
            return logits

        return force

    @classmethod
    def _has_tokens(cls, tokens: Any) -> bool:
        is_short = isinstance(tokens, list) and len(tokens) <= _MOST
        return is_short and all(type(token) is int and 0 <= token < cls._vocabulary for token in tokens)
