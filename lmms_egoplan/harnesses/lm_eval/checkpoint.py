"""Read the type of the checkpoint in a task's metadata, and count a candidate's tokens.

lm-eval names the checkpoint there.

Token counts are needed because lm-eval's model classes return only the sum of a candidate's
log-probabilities.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from loguru import logger
from transformers import AutoConfig, AutoTokenizer


class TokenCounter:
    """Count a candidate's tokens in lm-eval's encoding of context and candidate.

    A token counts if it has at least one of the candidate's characters, as in `CandidateRanker`.
    lm-eval also scores white space at the end of a context, such as the final line break of many
    chat prompts. Its sums include this log-probability, which is near 0 and equal for all
    candidates.

    Args:
        tokenizer: The evaluated model's tokenizer.
        is_encoder_decoder: Whether to encode the candidate separately, as for encoder-decoder
            models.
    """

    def __init__(self, tokenizer: Any, *, is_encoder_decoder: bool = False) -> None:
        self._tokenizer = tokenizer
        self._is_encoder_decoder = is_encoder_decoder

    def count(self, context: str, continuation: str) -> int | None:
        """Count the tokens of the continuation; None if no token belongs to it."""
        if self._is_encoder_decoder:
            return self._length(continuation) or None
        if not self._tokenizer.is_fast:
            return max(0, self._length(context + continuation) - self._length(context)) or None
        encoded = self._tokenizer(
            context + continuation, add_special_tokens=False, return_offsets_mapping=True
        )
        return (
            sum(end > max(begin, len(context)) for begin, end in encoded["offset_mapping"]) or None
        )

    def _length(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def token_counter(metadata: Mapping[str, Any]) -> TokenCounter | None:
    """Return the counter for the evaluated model; None without a tokenizer.

    Args:
        metadata: A task's metadata, with the command line's ``--model_args`` and ``--metadata``:
            ``tokenizer``, ``pretrained`` or ``model``, and ``revision``, ``subfolder`` and
            ``trust_remote_code``.
    """
    name = metadata.get("tokenizer") or metadata.get("pretrained") or metadata.get("model")
    if not isinstance(name, str):
        return None
    loading = _loading(metadata)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **loading)
    except Exception as error:
        # the name may not be a model's, and libraries raise many types of errors
        logger.warning(f"No tokenizer for {name}: {error}")
        return None
    try:
        is_encoder_decoder = bool(AutoConfig.from_pretrained(name, **loading).is_encoder_decoder)
    except Exception:  # a folder with only a tokenizer
        is_encoder_decoder = False
    return TokenCounter(tokenizer, is_encoder_decoder=is_encoder_decoder)


def model_type(metadata: Mapping[str, Any]) -> str | None:
    """Return the checkpoint's type from its transformers configuration.

    None if that cannot be read.

    Args:
        metadata: As for `token_counter`; the model is ``pretrained``.
    """
    name = metadata.get("pretrained")
    return _read_model_type(name, **_loading(metadata)) if isinstance(name, str) else None


@cache
def _read_model_type(name: str, **loading: Any) -> str | None:
    try:
        return AutoConfig.from_pretrained(name, **loading).model_type
    except Exception as error:
        # the name may not be a checkpoint's, and libraries raise many types of errors
        logger.warning(f"No model type for {name}: {error}")
        return None


def _loading(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "revision": str(metadata.get("revision", "main")),
        "trust_remote_code": bool(metadata.get("trust_remote_code", False)),
        "subfolder": str(metadata.get("subfolder") or ""),
    }
