"""Detect the abilities of a chat template by rendering it, for templates of many forms."""

import pytest
from jinja2 import BaseLoader, Environment

from lmms_egoplan.ranking.chat_templates import has_system_turn, has_video, keeps_order
from zoo import FAMILIES, build
from zoo.prompts import GEMMA3, MISTRAL, ONEVISION, QWEN2_VL, VICUNA

ITEMS = (
    "{% for item in message['content'] %}{% if item['type'] == 'image' %}<image>{% elif "
    "item['type'] == 'text' %}{{ item['text'] }}{% endif %}{% endfor %}"
)


def turns(user="USER: ", assistant="ASSISTANT: ", branches=""):
    role = (
        "{% if message['role'] == 'user' %}"
        + user
        + branches
        + "{% else %}"
        + assistant
        + "{% endif %}"
    )
    return "{% for message in messages %}" + role + ITEMS + "\n{% endfor %}"


def raises(message):
    raise ValueError(message)


def renderer(template):
    environment = Environment(loader=BaseLoader())
    environment.globals["raise_exception"] = raises
    compiled = environment.from_string(template)
    return lambda messages: compiled.render(messages=messages, bos_token="<s>")


HAVE = {
    "vicuna": VICUNA,
    "mistral": MISTRAL,
    "onevision": ONEVISION,
    "qwen2-vl": QWEN2_VL,
    "gemma 3, at the start of the user's turn": GEMMA3,
    "a separate role": turns(branches="{% elif message['role'] == 'system' %}SYSTEM: "),
    "before the first turn": "{% for message in messages %}{% if message['role'] != 'system' %}"
    "{{ message['role'] }}: {% endif %}" + ITEMS + "\n{% endfor %}",
}  # fmt: skip
HAVE_NOT = {
    "an assistant's turn": turns(),
    (
        "a user's turn"
    ): "{% for message in messages %}{% if message['role'] == 'assistant' %}ASSISTANT: {% else "
        "%}USER: "
    "{% endif %}" + ITEMS + "\n{% endfor %}",
    "omitted": (
        "{% for message in messages %}{% if message['role'] != 'system' %}"
    ) + ITEMS + "{% endif %}{% endfor %}",
    "no turns at all": "{% for message in messages %}" + ITEMS + "{% endfor %}",
    "refused": turns(branches=(
        "{% elif message['role'] == 'system' %}{{ raise_exception('no system messages') }}"
    )),
    (
        "rejected with images"
    ): "{% if messages[0]['role'] == 'system' and messages[-1]['content'][0]['type'] == 'image' "
    "%}{{ raise_exception('images and system messages') }}{% endif %}{% for message in messages %}"
    "{{ message['role'] }}: " + ITEMS + "{% endfor %}",
    (
        "a list that is printed"
    ): "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] "
    "}}{% else %}" + ITEMS + "{% endif %}{% endfor %}",
    "not one template": "{{ nothing.of.that }}",
}  # fmt: skip


@pytest.mark.parametrize("name", HAVE)
def test_templates_with_a_system_turn(name):
    assert has_system_turn(renderer(HAVE[name]))


@pytest.mark.parametrize("name", HAVE_NOT)
def test_templates_without_a_system_turn(name):
    assert not has_system_turn(renderer(HAVE_NOT[name]))


def test_contents_may_be_text():
    joined = (
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    )
    assert has_system_turn(renderer(joined), "<image>?")
    assert not has_system_turn(renderer(joined.replace("message['role']", "'User'")), "<image>?")


@pytest.mark.parametrize(
    "name", [name for name, family in FAMILIES.items() if family.has_chat_template]
)
def test_templates_with_videos(name):
    _, processor = build(name)
    if FAMILIES[name].takes_video:
        assert has_video(processor.apply_chat_template)


def test_templates_without_videos():
    assert not has_video(renderer(turns()))
    assert not has_video(renderer("{{ raise_exception('no') }}"))
    assert has_video(
        renderer(
            ITEMS.join(["{% for message in messages %}", "{% endfor %}"]).replace("image", "video")
        )
    )


@pytest.mark.parametrize(
    ("template", "keeps"),
    [
        (QWEN2_VL, True),
        (GEMMA3, True),
        (ONEVISION, False),
        (VICUNA, False),
        (turns(), True),
        ("{% for message in messages %}{{ message['content'][0]['text'] }}{% endfor %}", True),
        ("{{ raise_exception('no') }}", False),
        ("none", False),
    ],
)
def test_order_of_texts_and_images(template, keeps):
    assert keeps_order(renderer(template)) == keeps
