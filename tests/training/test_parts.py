"""Trained parts of each model family:

LoRA in the language model only, and all of the joining modules.
"""

import copy
import re

import pytest
import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training.adapter import adapted_layers, add_adapter
from lmms_egoplan.training.parts import find_parts
from lmms_egoplan.training.settings import Lora
from zoo import FAMILIES, build

QFORMER = ("qformer", "language_projection")
JOINING = {
    "qwen2_vl": ("model.visual.merger",),
    "qwen2_5_vl": ("model.visual.merger",),
    "qwen3_vl": ("model.visual.merger", "model.visual.deepstack_merger_list.0"),
    "qwen3_5": ("model.visual.merger",),
    "idefics3": ("model.connector",),
    **dict.fromkeys(("blip2", "blip2_opt", "instructblip_vicuna", "instructblip"), QFORMER),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_parts_of_each_family(name):
    model, _ = build(name)
    parts = find_parts(model)
    assert parts.joining == JOINING.get(name, ("model.multi_modal_projector",))
    everything = (*parts.encoders, *parts.joining, *parts.language)
    single = {
        n
        for n, _ in model.named_parameters()
        if not any(n.startswith(f"{part}.") for part in everything)
    }
    assert {n.split(".")[-1] for n in single} <= {"image_newline", "query_tokens"}


@pytest.mark.parametrize(
    ("name", "lora"),
    [
        *(pytest.param(name, Lora(), id=f"{name}-lora") for name in FAMILIES),
        *(
            pytest.param(
                name,
                None,
                id=f"{name}-no lora",
                marks=()
                if name in ("llava", "qwen3_vl", "gemma3", "blip2")
                else pytest.mark.nightly,
            )
            for name in FAMILIES
        ),
    ],
)
def test_trained_parameters_of_each_family(name, lora):
    model = copy.deepcopy(build(name)[0])
    parts = find_parts(model)
    tuned = add_adapter(model, lora)
    trained = [
        n.removeprefix("base_model.model.") for n, p in tuned.named_parameters() if p.requires_grad
    ]
    whole = {n for n in trained if ".modules_to_save." in n}
    adapted = set(trained) - whole
    assert bool(adapted) == bool(lora)
    assert all(".lora_" in n and n.startswith(parts.language) for n in adapted)
    assert {n.split(".modules_to_save.")[0] for n in whole} == set(parts.joining)
    if lora:
        assert all(re.search(r"\.([qkvo]|[qkvo]_proj|out_proj)\.lora_[AB]\.", n) for n in adapted)


# Encoders and joining modules of families with further encoders.
TABLE = {
    "gemma3n": (
        ("model.vision_tower", "model.audio_tower"),
        ("model.embed_vision", "model.embed_audio"),
    ),
    "gemma4": (("model.vision_tower",), ("model.embed_vision",)),
    "instructblipvideo": (("vision_model",), ("qformer", "language_projection")),
}
# Families whose parts transformers does not separate, or whose joining modules are unknown.
REFUSED = (
    "ernie4_5_vl_moe",
    "fuyu",
    "git",
    "granite_docling",
    "idefics",
    "janus",
    "ovis2",
    "pix2struct",
    "t5gemma2",
    "vision-encoder-decoder",
)
# Families whose default configurations build no model.
NOT_BUILT = {
    *(
        "aya_vision",
        "chameleon",
        "cohere_compass",
        "deepseek_ocr2",
        "diffusion_gemma",
        "emu3",
        "evolla",
    ),
    *("granite4_vision", "hunyuan_vl", "perception_lm", "qwen4_exp"),
}
_DEPTHS = {"num_hidden_layers", "num_layers", "depth", "encoder_layers", "decoder_layers"}
_EXPERTS = {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}


def shrink(config):
    """Limit a configuration to four layers and four experts."""
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            shrink(value)
        elif name in _DEPTHS | _EXPERTS and isinstance(value, int) and value > 4:
            setattr(config, name, 4)
        elif name == "layer_types" and isinstance(value, list):
            setattr(config, name, value[:4])


def build_empty(family):
    """Build a model from the family's default configuration, without weights."""
    kind = CONFIG_MAPPING[family]
    has_vision = family.startswith("gemma4")
    configs = [
        kind(vision_config=kind.sub_configs["vision_config"]()) if has_vision else kind()
        for _ in range(2)
    ]
    error = None
    for config, make in zip(configs, (shrink, lambda _: None), strict=True):
        try:
            make(config)
            with torch.device("meta"):
                return AutoModelForImageTextToText.from_config(config)
        except Exception as problem:
            error = problem
    raise error


@pytest.mark.nightly
@pytest.mark.parametrize(
    "family", [family for family in TABLE if family in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES]
)
def test_parts_of_families_with_further_encoders(family):
    try:
        model = build_empty(family)
    except ValueError as problem:
        pytest.skip(f"{family}: this transformers has no default configuration of it: {problem}")
    parts = find_parts(model)
    assert (parts.encoders, parts.joining) == TABLE[family]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "family", [family for family in REFUSED if family in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES]
)
def test_families_with_unknown_parts_are_refused(family):
    with pytest.raises(LmmsEgoplanError, match=f"{family}.*: cannot identify its parts: "):
        find_parts(build_empty(family))


@pytest.mark.nightly
@pytest.mark.parametrize("family", MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
def test_decoder_layers_are_never_trained_whole(family):
    try:
        model = build_empty(family)
    except Exception as problem:
        if family in NOT_BUILT:
            pytest.skip(f"{family}: its default configuration builds no model: {problem}")
        raise
    try:
        parts = find_parts(model)
    except LmmsEgoplanError as problem:
        pytest.skip(str(problem))
    assert parts.language
    modules = dict(model.named_modules())
    decoder = next(name for name, module in modules.items() if module is model.get_decoder())
    outside = {*parts.encoders, *parts.joining}
    for name, module in modules.items():
        if isinstance(module, nn.ModuleList) and name.startswith(f"{decoder}."):
            owner = {part for part in outside if name == part or name.startswith(f"{part}.")}
            assert not owner, (name, owner)


def test_a_module_that_is_not_known_to_join_is_refused():
    model = copy.deepcopy(build("llava")[0])
    model.model.head = nn.Linear(2, 2)
    with pytest.raises(LmmsEgoplanError, match=r"llava: .*model\.head"):
        find_parts(model)


def test_an_encoder_inside_the_decoder_is_refused():
    model = copy.deepcopy(build("llava")[0])
    model.get_decoder = lambda: model.model
    with pytest.raises(LmmsEgoplanError, match=r"llava: .*no encoder that is separate"):
        find_parts(model)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("blip2", "k, o, q, v"),
        ("blip2_opt", "k_proj, out_proj, q_proj, v_proj"),
        ("phi", "o_proj, qkv_proj"),
    ],
)
def test_default_targets_use_the_models_names(name, names, capsys):
    tuned = add_adapter(fused() if name == "phi" else copy.deepcopy(build(name)[0]), Lora(r=8))
    assert ", ".join(adapted_layers(tuned)) == names
    assert all(count % 2 == 0 for count in adapted_layers(tuned).values())
    (remark,) = (line for line in capsys.readouterr().err.splitlines() if "LoRA" in line)
    assert {*names.split(", ")} <= {*remark.replace(",", "").split()}


def fused():
    """Build a LLaVA on Phi-3, which has one layer for queries, keys and values."""
    text = {
        "model_type": "phi3",
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "vocab_size": 64,
    }
    text |= {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0}
    vision = {
        "model_type": "clip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
    }
    vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    kind = CONFIG_MAPPING["llava"]
    return AutoModelForImageTextToText.from_config(
        kind(text_config=text, vision_config=vision, image_token_index=1)
    )


@pytest.mark.parametrize("targets", [["q_proj", "wrong"], ["wrong"]])
def test_unknown_targets_are_refused(targets):
    model = copy.deepcopy(build("llava")[0])
    with pytest.raises(LmmsEgoplanError, match=r"lora\.targets: .*wrong.*q_proj"):
        add_adapter(model, Lora(targets=targets))
