"""Load the model that is tuned."""

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedModel

from lmms_egoplan.training.parts import find_parts
from lmms_egoplan.training.settings import TuningSettings


def load_base(
    name: str, settings: TuningSettings, precision: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """Load a vision-language model on a device, quantised if the settings say so.

    Args:
        name: Name or folder of a checkpoint that ``AutoModelForImageTextToText`` loads.
        settings: ``quantize`` and ``attn_implementation`` are used.
        precision: Precision of weights that are not quantised.
        device: The device.

    Raises:
        LmmsEgoplanError: The model is to be quantised, and its parts are unknown.
    """
    attention = settings.attn_implementation
    if settings.quantize is None:
        model = AutoModelForImageTextToText.from_pretrained(
            name, dtype=precision, attn_implementation=attention
        )
        return model.to(device)
    return _quantized(name, precision, device, attention)


def _quantized(
    name: str, precision: torch.dtype, device: torch.device, attention: str | None
) -> PreTrainedModel:
    """Load a model whose language model is in 4-bit NormalFloat, as in QLoRA.

    The encoders, the joining modules, which are trained whole, and the output layer are not
    quantised.
    """
    from peft import prepare_model_for_kbit_training
    from transformers import BitsAndBytesConfig

    with torch.device("meta"):
        empty = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(name))
    parts = find_parts(empty)
    output_layer = empty.get_output_embeddings()
    outputs = [path for path, module in empty.named_modules() if module is output_layer]
    quantization = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=precision,
        llm_int8_skip_modules=[*parts.encoders, *parts.joining, *outputs],
    )
    model = AutoModelForImageTextToText.from_pretrained(
        name,
        dtype=precision,
        attn_implementation=attention,
        quantization_config=quantization,
        device_map={"": device},
    )
    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
