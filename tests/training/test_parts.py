"""What is trained of each family: LoRA in the language model alone, what joins it with the encoder whole."""

import copy
import re

import pytest

from lmms_egoplan.training.adapter import add_adapter
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
def test_the_parts_of_each_family(name):
    model, _ = build(name)
    parts = find_parts(model)
    assert parts.joining == JOINING.get(name, ("model.multi_modal_projector",))
    everything = (*parts.encoders, *parts.joining, *parts.language)
    single = {n for n, _ in model.named_parameters() if not any(n.startswith(f"{part}.") for part in everything)}
    assert {n.split(".")[-1] for n in single} <= {"image_newline", "query_tokens"}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("lora", [Lora(), None], ids=["lora", "no lora"])
def test_what_is_trained_of_each_family(name, lora):
    model = copy.deepcopy(build(name)[0])
    parts = find_parts(model)
    tuned = add_adapter(model, lora)
    trained = [n.removeprefix("base_model.model.") for n, p in tuned.named_parameters() if p.requires_grad]
    whole = {n for n in trained if ".modules_to_save." in n}
    adapted = set(trained) - whole
    assert bool(adapted) == bool(lora)
    assert all(".lora_" in n and n.startswith(parts.language) for n in adapted)
    assert {n.split(".modules_to_save.")[0] for n in whole} == set(parts.joining)
    if lora and name not in ("blip2", "instructblip"):  # T5's layers have other names
        assert all(re.search(r"\.(q|k|v|o)_proj\.lora_[AB]\.", n) for n in adapted)
