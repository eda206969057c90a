"""``--model llava`` if the LLaVA-NeXT package is not installed.

lmms-eval's own ``llava`` needs that package.
"""

from typing import Any

from loguru import logger

from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.paths import module_rows

DEFAULT_CHECKPOINT = "llava-hf/llava-1.5-7b-hf"

# Original checkpoints and their transformers ports.
PORTS = {row["original"]: row["port"] for row in module_rows(__file__)}


class Llava(HFVLM):
    """`HFVLM` with LLaVA-1.5-7B as default.

    Original checkpoint names are mapped to their transformers ports.
    """

    NAME = "llava"

    def __init__(self, pretrained: str = DEFAULT_CHECKPOINT, **kwargs: Any) -> None:
        checkpoint = PORTS.get(pretrained, pretrained)
        logger.warning(
            (
                f"llava: the LLaVA-NeXT package is not installed; running {checkpoint} with "
                "the hf_vlm backend"
            )
            + (f" (the transformers port of {pretrained})" if checkpoint != pretrained else "")
        )
        super().__init__(pretrained=checkpoint, **kwargs)
