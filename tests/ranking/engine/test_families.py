"""Families that vLLM ranks like transformers, differently, or not at all, by transformers'
configurations.
"""

import pytest
from transformers import CONFIG_MAPPING

from lmms_egoplan.ranking import RankingError
from lmms_egoplan.ranking.engine.families import NOT_COMPARED, engine_note


@pytest.mark.parametrize(
    "name", ["gemma3", "paligemma", "shieldgemma2", "molmo2", "git", "gemma4_unified", "colpali"]
)
def test_bidirectional_images_are_rejected(name):
    if name not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {name}")
    with pytest.raises(RankingError, match=rf"{name}: .*hf_vlm"):
        engine_note(CONFIG_MAPPING[name]())


@pytest.mark.parametrize("value", ["vision", "all", True])
def test_the_setting_rejects_families_with_optional_bidirectional_attention(value):
    config = CONFIG_MAPPING["llava"]()
    config.text_config.use_bidirectional_attention = value
    with pytest.raises(RankingError):
        engine_note(config)
    config.text_config.use_bidirectional_attention = False
    assert engine_note(config) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, None)
            for name in (
                "llava",
                "llava_next",
                "llava_onevision",
                "qwen2_vl",
                "qwen2_5_vl",
                "qwen3_vl",
            )
        ),
        *((name, None) for name in ("internvl", "idefics3")),
        ("llava", "mistral"),
    ],
)
def test_families_that_agree_have_no_note(name, text):
    more = {"text_config": CONFIG_MAPPING[text](sliding_window=64)} if text else {}
    assert engine_note(CONFIG_MAPPING[name](**more)) is None


@pytest.mark.parametrize(
    "name", ["smolvlm", "gemma3n", "mllama", "aya_vision", "qwen3_vl_moe", "llava_next_video"]
)
def test_other_families_have_a_note(name):
    assert engine_note(CONFIG_MAPPING[name]()) == NOT_COMPARED
