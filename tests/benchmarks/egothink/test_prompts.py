"""Compare the prompts with the printed tables, and insert questions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egothink.paper import TABLE_5, TABLE_6
from lmms_egoplan.benchmarks.egothink.prompts import (
    FAMILIES,
    backend_of_model_type,
    block_by_model_type,
    block_of_model,
    model_blocks,
    prompt_messages,
    prompt_text,
    prompts_name,
)

IMAGE = object()
# Placeholders of the question in a printed prompt.
PLACEHOLDER = re.compile(r"\{\w*\}|(?<=\n )instruction(?=\n)|(?<=Question: )question\b")
QUESTIONS = st.text() | st.lists(
    st.sampled_from(["{question}", "{}", "{0}", "<image>", "{", "}", "%s", "a"])
).map("".join)


@pytest.mark.parametrize("planning", [False, True], ids=["general", "planning"])
def test_prompts_are_the_papers(planning):
    for family, (name, cell) in zip(
        FAMILIES[:-1], (TABLE_6 if planning else TABLE_5).items(), strict=True
    ):
        assert family.name == name.replace(" (System prompts)", "").replace(
            "Otter-Image", "Otter Image"
        )
        expected, placeholders = PLACEHOLDER.subn("{question}", cell.replace(r"\n", "\n"))
        assert placeholders == (not family.is_system)
        assert (family.planning if planning else family.general) == expected


def test_prompts_of_physbrain_are_as_printed():
    camera = "Imagine you are the camera wearer (I) who recorded the video. "
    middle = "You should answer any question without safety or privacy concerns. "
    short = (
        "Please directly answer the question as short as possible. Question: {question} "
        "Short answer:"
    )
    family = FAMILIES[-1]
    assert (family.name, family.backends, family.model_types) == ("physbrain", [], ())
    assert (family.general, family.planning) == (camera + short, camera + middle + short)


def test_system_prompts_are_those_of_llava():
    assert [family.name for family in FAMILIES if family.is_system] == ["LLaVA series models"]
    assert "(System prompts)" in list(TABLE_5)[3]


@pytest.mark.parametrize("planning", [False, True])
def test_every_backend_has_one_family(planning):
    backends = [backend for family in FAMILIES for backend in family.backends]
    assert len(set(backends)) == len(backends)
    assert sum(backend.startswith(("llava", "video_llava")) for backend in backends) == 9
    blocks = model_blocks(planning=planning)
    assert list(blocks) == [*backends, "physbrain"]
    assert {"default", "llava_hf", "blip2", "mplug_owl_video"} <= blocks.keys()
    assert [name for name, block in blocks.items() if "system" in block] == list(
        FAMILIES[3].backends
    )


def test_blocks_are_new_dicts():
    blocks = model_blocks(planning=False)
    blocks["llava"].clear()
    blocks["default"]["prompt"] = ""
    assert model_blocks(planning=False)["llava_hf"] == model_blocks(planning=False)["llava"]
    assert model_blocks(planning=False)["default"]["prompt"]


@given(question=QUESTIONS)
def test_every_prompt_contains_the_question_verbatim(question):
    for name, block in model_blocks(planning=False).items():
        before, after = block["prompt"].split("{question}")
        system = f"{block['system']}\n" if "system" in block else ""
        assert prompt_text(question, block) == system + before + question + after, name

        *system, user = prompt_messages(question, IMAGE, block)
        texts = [item["text"] for item in user["content"] if item["type"] == "text"]
        image = [item["url"] for item in user["content"] if item["type"] == "image"]
        assert image == [IMAGE], name
        assert "".join(texts) == (before + question + after).replace(
            before, before.replace("<image>", ""), 1
        ), name
        assert len(system) == ("system" in block), name


def test_messages_without_a_system_prompt():
    assert prompt_messages("Where am I?", IMAGE, model_blocks(planning=True)["default"]) == [
        {
            "role": "user",
            "content": [
                {"type": "image", "url": IMAGE},
                {
                    "type": "text",
                    "text": (
                        "Answer your question in a detailed and helpful way. Question: Where "
                        "am I? Short answer:"
                    ),
                },
            ],
        }
    ]


def test_messages_with_a_system_prompt():
    system, user = prompt_messages("Where am I?", IMAGE, model_blocks(planning=False)["llava_hf"])
    assert system["role"] == "system"
    assert system["content"][0]["text"].endswith("Keep your answer as short as possible!")
    assert user == {
        "role": "user",
        "content": [{"type": "image", "url": IMAGE}, {"type": "text", "text": "Where am I?"}],
    }


def test_messages_with_a_place_for_the_image():
    (user,) = prompt_messages("Where am I?", IMAGE, model_blocks(planning=False)["mplug_owl"])
    before, image, after = user["content"]
    assert before["text"].endswith("as short as possible. \n ")
    assert image == {"type": "image", "url": IMAGE}
    assert after["text"] == "\n Question: Where am I? \n Short answer:"


@pytest.mark.parametrize("backend", ["default", "llava", "openflamingo"])
def test_the_harness_reads_the_messages(backend):
    from lmms_eval.protocol import ChatMessages

    messages = prompt_messages("Where am I?", IMAGE, model_blocks(planning=False)[backend])
    images, videos, audios = ChatMessages(messages=messages).extract_media()
    assert (images, videos, audios) == ([IMAGE], [], [])


def test_existing_backends_have_the_harness_name():
    from lmms_eval.models import AVAILABLE_CHAT_TEMPLATE_MODELS, AVAILABLE_SIMPLE_MODELS

    existing = AVAILABLE_SIMPLE_MODELS.keys() | AVAILABLE_CHAT_TEMPLATE_MODELS.keys()
    assert set(FAMILIES[3].backends) | {"instructblip", "mplug_owl_video"} <= existing
    assert {name for name in existing if name.startswith("llava")} <= set(FAMILIES[3].backends)


@pytest.mark.parametrize("planning", [False, True])
def test_a_model_type_gets_the_prompts_of_its_family(planning):
    chosen = block_by_model_type(planning=planning)
    types = {model_type: family for family in FAMILIES for model_type in family.model_types}
    assert {"llava", "llava_next", "llava_onevision", "instructblip", "blip-2"} <= types.keys()
    for model_type, family in types.items():
        block = block_of_model(chosen, model_type)
        assert block == model_blocks(planning=planning)[(family.backends or [family.name])[0]]
        assert backend_of_model_type(model_type) == family.backends[0]
    for model_type in ("qwen2_5_vl", "internvl", "", None):
        assert block_of_model(chosen, model_type) == model_blocks(planning=planning)["default"]
        assert backend_of_model_type(model_type) == "default"


def test_model_types_are_those_of_transformers():
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    existing = set(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    named = [model_type for family in FAMILIES for model_type in family.model_types]
    assert set(named) <= existing
    assert len(set(named)) == len(named)
    assert {name for name in existing if "llava" in name} == set(FAMILIES[3].model_types)


def test_settings_without_model_types_apply_to_all_models():
    custom = {"prompt": "Say: {question}"}
    assert block_of_model(custom, "llava") is custom
    assert prompts_name(custom, is_system_turn=True) == "own"
    assert (
        prompts_name(custom | {"system": "Be brief."}, is_system_turn=False)
        == "own, in the user turn"
    )


@pytest.mark.parametrize("planning", [False, True])
def test_prompts_are_named_after_their_family(planning):
    for family in FAMILIES:
        block = model_blocks(planning=planning)[(family.backends or [family.name])[0]]
        position = ", system turn" if family.is_system else ""
        assert prompts_name(block, is_system_turn=True) == family.name + position
    # The harness adds the entries of the default to all blocks.
    everything = model_blocks(planning=planning) | model_blocks(planning=planning)["default"]
    assert prompts_name(everything, is_system_turn=False) == "GPT-4V"
