"""A logits processor for vLLM that lets one token through at a time, so that a given text is generated.

vLLM returns log-probabilities as they were before it. A server takes it by name:
``--logits-processors lmms_egoplan.ranking.engine.forced:ForcedTokens``.
"""

from typing import Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from lmms_egoplan.ranking.engine.requests import ARGUMENT


class ForcedTokens(AdapterLogitsProcessor):
    """Forces the tokens that a request's ``extra_args`` name as `ARGUMENT`, in order."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose argument is no list of token ids.

        Raises:
            ValueError: it is none.
        """
        tokens = (sampling_params.extra_args or {}).get(ARGUMENT)
        if tokens is not None and not (isinstance(tokens, list) and all(type(token) is int for token in tokens)):
            raise ValueError(f"{ARGUMENT} must be a list of token ids, got {tokens!r:.100}")

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        tokens = (params.extra_args or {}).get(ARGUMENT)
        if not tokens:
            return None

        def force(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
            if len(output_ids) < len(tokens):
                logits.fill_(-torch.inf)
                logits[tokens[len(output_ids)]] = 0.0
            return logits

        return force
