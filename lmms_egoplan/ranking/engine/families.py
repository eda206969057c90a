"""Model families in vLLM: which it ranks as transformers does, and which it cannot."""

from collections.abc import Iterator
from typing import Any

from lmms_egoplan.ranking.question import RankingError

NOT_COMPARED = "vLLM not compared with transformers for this model"

# Full passes of transformers in float32 agree with vLLM to 4.1e-5 nats.
_AGREEING = {"idefics3", "internvl", "llava", "llava_next", "llava_onevision", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"}

# transformers lets the image tokens of these attend to each other whatever the settings say.
_BIDIRECTIONAL = {"diffusion_gemma", "gemma3", "git", "molmo2", "paligemma", "pi0", "shieldgemma2"}


def engine_note(config: Any) -> str | None:
    """Return what the results must say about a model that vLLM ranks; None if vLLM agrees with transformers.

    Args:
        config: the checkpoint's, from transformers.

    Raises:
        RankingError: image tokens attend to later ones, which vLLM computes causally.
    """
    settings = list(_configs(config.to_dict()))
    types = {values.get("model_type") for values in settings}
    attention = [values.get("use_bidirectional_attention") for values in settings]
    if types & _BIDIRECTIONAL or any(value not in (None, False) for value in attention):
        raise RankingError(
            f"{config.model_type}: image tokens attend to later image tokens, as trained; vLLM may compute them "
            "causally, with other likelihoods. Rank this model with --model hf_vlm (lm-eval: hf-vlm-ranker)"
        )
    return None if config.model_type in _AGREEING else NOT_COMPARED


def _configs(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a configuration, and those in it."""
    yield settings
    for value in settings.values():
        if isinstance(value, dict):
            yield from _configs(value)
