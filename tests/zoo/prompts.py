"""Chat templates in the prompt format that each family documents, with its quirks.

A message's content is a string or a list of `image`, `video` and `text` items.
"""


def _content(image: str = "", video: str = "", text: str = "{{ item['text'] }}") -> str:
    """Jinja for one message's items in their order; a string counts as one text item."""
    return (
        "{% for item in ([{'type': 'text', 'text': message['content']}] if message['content'] is "
        "string else message['content']) %}{% if item['type'] == 'image' "
        "%}" + image + "{% elif item['type'] == 'video' %}" + video +
        "{% elif item['type'] == 'text' %}" + text + "{% endif %}{% endfor %}"
    )  # fmt: skip


_TURNS = "{% for message in messages %}"
_PROMPT = "{% endfor %}{% if add_generation_prompt %}"
_TEXT = _content()
_MEDIA = _content("{{ '<image>\\n' }}", "{{ '<video>\\n' }}", text="")

# "USER: <image>\nquestion ASSISTANT: answer ": images first, no space after the generation prompt's
# colon.
VICUNA = (
    _TURNS + "{% if message['role'] != 'system' %}{{ message['role'] | upper + ': ' }}{% endif %}"
    + _MEDIA + _content(text="{{ item['text'] + ' ' }}")
    + _PROMPT + "{{ 'ASSISTANT:' }}{% endif %}"
)  # fmt: skip

# "[INST] <image>\nquestion [/INST] answer</s>": there is no generation prompt.
MISTRAL = (
    _TURNS + (
        "{% if message['role'] == 'user' %}{{ '[INST] ' }}"
    ) + _MEDIA + _TEXT + "{{ ' [/INST]' }}"
    + (
        "{% elif message['role'] == 'system' %}{{ '<<SYS>>\\n' }}"
    ) + _TEXT + "{{ '\\n<</SYS>>\\n\\n' }}"
    + "{% else %}{{ ' ' }}" + _TEXT + "{{ '</s>' }}{% endif %}{% endfor %}"
)  # fmt: skip

# "<|im_start|>user <image>\nquestion<|im_end|>", and an answer's turn opens with "assistant \n"
# where the generation prompt says "assistant\n": the prompt is no prefix of the answered
# conversation.
ONEVISION = (
    _TURNS + "{{ '<|im_start|>' + message['role'] + ' ' }}"
    + _content((
        "{{ '<image>' }}"
    ), "{{ '<video>' }}", text="") + _content(text="{{ '\\n' + item['text'] }}")
    + "{{ '<|im_end|>' }}" + _PROMPT + "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)  # fmt: skip

_VISION = "<|vision_start|><|{}_pad|><|vision_end|>"
_DEFAULT_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful "
    "assistant.<|im_end|>\\n' }}{% endif %}"
)
_NO_THOUGHT = "{{ '<think>\\n\\n</think>\\n\\n' }}"


def _chatml(image: str, video: str, answer: str = "") -> str:
    """ChatML; `answer` is the text before every answer, given or to be generated."""
    return (
        _TURNS + "{{ '<|im_start|>' + message['role'] + '\\n' }}"
        + "{% if message['role'] == 'assistant' %}" + answer + "{% endif %}"
        + _content(image, video) + "{{ '<|im_end|>\\n' }}"
        + _PROMPT + "{{ '<|im_start|>assistant\\n' }}" + answer + "{% endif %}"
    )  # fmt: skip


QWEN3_VL = _chatml(_VISION.format("image"), _VISION.format("video"))
QWEN2_VL = _DEFAULT_SYSTEM + QWEN3_VL
QWEN3_5 = _chatml(_VISION.format("image"), _VISION.format("video"), answer=_NO_THOUGHT)
INTERNVL = _chatml("{{ '<IMG_CONTEXT>\\n' }}", "{{ '<video>\\n' }}")

# "User:<image>question<end_of_utterance>\nAssistant: answer": no space after "User:" if an image
# comes first, and none after the generation prompt's colon.
IDEFICS3 = (
    "{{ '<|begin_of_text|>' }}" + _TURNS + "{{ message['role'] | capitalize }}"
    + (
        "{{ ':' if message['content'] is not string and message['content'][0]['type'] == "
        "'image' else ': ' }}"
    )
    + _content("{{ '<image>' }}") + "{{ '<end_of_utterance>\\n' }}"
    + _PROMPT + "{{ 'Assistant:' }}{% endif %}"
)  # fmt: skip

# "<start_of_turn>model\nanswer<end_of_turn>\n": texts are stripped, the assistant is "model", and a
# system message comes at the start of the first user turn.
GEMMA3 = (
    "{% set ns = namespace(system='') %}{{ bos_token }}" + _TURNS
    + "{% if message['role'] == 'system' %}{% set ns.system ="
    + (
        " message['content'] if message['content'] is string else "
        "message['content'][0]['text'] %}{% else %}"
    )
    + "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\\n' }}"
    + "{% if ns.system %}{{ ns.system + '\\n\\n' }}{% set ns.system = '' %}{% endif %}"
    + _content("{{ '<start_of_image>' }}", text="{{ item['text'] | trim }}")
    + "{{ '<end_of_turn>\\n' }}{% endif %}" + _PROMPT + "{{ '<start_of_turn>model\\n' }}{% endif %}"
)  # fmt: skip

# Llama 3.2: "<|start_header_id|>user<|end_header_id|>\n\n<|image|>question<|eot_id|>".
MLLAMA = (
    "{{ bos_token }}" + _TURNS
    + "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    + _content("{{ '<|image|>' }}") + "{{ '<|eot_id|>' }}"
    + _PROMPT + "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)  # fmt: skip
