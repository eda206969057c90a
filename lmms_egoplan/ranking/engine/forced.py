"""A logits processor for vLLM that allows one token at a time, to generate a given text.

vLLM returns the log-probabilities from before this processor. Load it into a server by name:
``--logits-processors lmms_egoplan.ranking.engine.forced:ForcedTokens``.
"""

from typing import Any, ClassVar

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from lmms_egoplan.ranking.engine.requests import ARGUMENT

# Maximum number of forced tokens in a request; candidates have far fewer.
_MOST = 4096


class ForcedTokens(AdapterLogitsProcessor):
    """Force the tokens that a request's ``extra_args`` list under `ARGUMENT`, in order.

    An exception in a step would stop the engine for all of its users, so only `validate_params`
    raises.
    """

    # Size of the vocabulary. Unknown without an engine, as in the process of a server that checks
    # requests.
    _vocabulary: ClassVar[int] = 2**31

    def __init__(self, vllm_config: Any, *args: Any) -> None:
        super().__init__(vllm_config, *args)
        type(self)._vocabulary = vllm_config.model_config.get_vocab_size()

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Reject a request whose argument is not a list of token IDs.

        Raises:
            ValueError: The argument is not a list of token IDs.
        """
        tokens = (sampling_params.extra_args or {}).get(ARGUMENT)
        if tokens is not None and not cls._has_tokens(tokens):
            raise ValueError(
                f"{ARGUMENT} must be at most {_MOST} token IDs of the model's "
                f"vocabulary, got {tokens!r:.100}"
            )

    def is_argmax_invariant(self) -> bool:
        """Return False: the most probable token changes."""
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        """Return a function that forces the request's tokens; None if it lists none."""
        tokens = (params.extra_args or {}).get(ARGUMENT)
        if not tokens or not self._has_tokens(tokens):
            return None  # The client detects the different tokens.

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
        return is_short and all(
            type(token) is int and 0 <= token < cls._vocabulary for token in tokens
        )
