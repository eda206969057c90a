"""List the model families that vLLM ranks as transformers does, or cannot rank."""

from collections.abc import Iterator
from typing import Any

from lmms_egoplan.ranking.question import RankingError

NOT_COMPARED = "vLLM not compared with transformers for this model"

# For these families, vLLM agrees with full passes of transformers in float32 to 4.1e-5 nats.
_AGREEING = {
    "idefics3",
    "internvl",
    "llava",
    "llava_next",
    "llava_onevision",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
}

# In transformers, image tokens of these models attend to each other regardless of the settings.
_BIDIRECTIONAL = {"diffusion_gemma", "gemma3", "git", "molmo2", "paligemma", "pi0", "shieldgemma2"}


def engine_note(config: Any) -> str | None:
    """Return a note about the model for the results; None if vLLM agrees with transformers.

    Args:
        config: The checkpoint's transformers configuration.

    Raises:
        RankingError: Image tokens attend to later ones, but vLLM may compute them causally.
    """
    settings = list(_configs(config.to_dict()))
    types = {values.get("model_type") for values in settings}
    attention = [values.get("use_bidirectional_attention") for values in settings]
    if types & _BIDIRECTIONAL or any(value not in (None, False) for value in attention):
        raise RankingError(
            f"{config.model_type}: image tokens attend to later image tokens, but vLLM may compute "
            "them causally, with different likelihoods. Rank this model with --model hf_vlm "
            "(lm-eval: hf-vlm-ranker)"
        )
    return None if config.model_type in _AGREEING else NOT_COMPARED


def _configs(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a configuration and its nested configurations."""
    yield settings
    for value in settings.values():
        if isinstance(value, dict):
            yield from _configs(value)
