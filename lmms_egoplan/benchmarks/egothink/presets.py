"""Ask EgoThink as published pipelines do. ``presets.yaml`` describes the pipelines.

The groups ``egothink__PRESET`` follow a preset: prompts, decoding, how a reply is cut, and the
judge's protocol. The other tasks follow the paper.
"""

from functools import cache

from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.benchmarks.presets import Preset, read_preset
from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, JudgeProtocol
from lmms_egoplan.judging.settings import chosen_protocol
from lmms_egoplan.paths import module_yaml

LM_EVAL_NAMES = {"max_new_tokens": "max_gen_toks"}
"""lm-eval's names of generation arguments that presets name as transformers does."""

_PROMPTS = "preset "


@cache
def load_presets() -> dict[str, Preset]:
    """Return the presets by name.

    `Preset.prompt` contains ``{question}``, or ``{stripped_question}`` without surrounding white
    space. `Preset.parser` is the text after which the answer begins, "" for none.
    """
    entries = module_yaml(__file__)
    fallback = entries.pop("fallback")
    return {name: read_preset("egothink", name, entry, fallback) for name, entry in entries.items()}


def prompts_of(preset: str) -> str:
    """Return the name of a preset's prompts in results, such as ``preset official``."""
    return f"{_PROMPTS}{preset}"


def preset_of_prompts(prompts: str) -> str:
    """Return the preset of prompts by their name in results; "" for the prompts of a family.

    >>> preset_of_prompts("preset official, in the user turn"), preset_of_prompts("llava")
    ('official', '')
    """
    if not prompts.startswith(_PROMPTS):
        return ""
    return prompts.removeprefix(_PROMPTS).partition(",")[0]


def preset_block(preset: str, dimension: str) -> dict[str, str]:
    """Return the prompt of a dimension.

    It has the form for `protocol.prompt_text`, `protocol.prompt_messages` and
    `protocol.read_reply`.
    """
    asked = load_presets()[preset].of_dimension(dimension)
    block = {"name": prompts_of(preset), "prompt": asked.prompt, "media": asked.media["media"]}
    if asked.system:
        block["system"] = asked.system
    if asked.parser:
        block["parser"] = asked.parser
    return block


def chosen_judge_protocol(name: str = "", preset: str = "") -> JudgeProtocol:
    """Return the judge's protocol with a name.

    Without a name, it is that of the environment, else of the preset, else of the paper.

    Raises:
        LmmsEgoplanError: There is no such protocol.
    """
    default = load_presets()[preset].judge_prompt if preset else DEFAULT_PROTOCOL
    return chosen_protocol(PROTOCOLS, name, default)
