"""Ask EgoThink as published pipelines do. ``presets.yaml`` describes the pipelines.

``LMMS_EGOPLAN_PROTOCOL`` selects a preset for all tasks of EgoThink. It sets prompts, decoding, how
a reply is cut, and the judge's protocol. Without it, the tasks follow the paper.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, JudgeProtocol
from lmms_egoplan.judging.settings import PRESET, chosen_protocol
from lmms_egoplan.paths import module_yaml


@dataclass(frozen=True, slots=True)
class Preset:
    """How a pipeline asks and judges EgoThink.

    Attributes:
        name: Name of the pipeline, such as ``official``.
        fields: Values by field. ``source`` is a repository and commit, or a paper. ``prompt`` (text
            with ``{question}``, or ``{stripped_question}`` without surrounding white space) and
            ``decoding`` (generation arguments) are by dimension. ``parser`` is the text after which
            the answer begins, "" for none. ``judge_prompt`` is a name in `PROTOCOLS`. ``system`` is
            optional.
        unknown: Fields that the source does not state. They have the values of ``fallback``.
    """

    name: str
    fields: Mapping[str, Any]
    unknown: tuple[str, ...]

    def of_dimension(self, field: str, dimension: str) -> Any:
        """Return the prompt or the decoding of a dimension."""
        by_dimension = self.fields[field]
        return by_dimension.get(dimension, by_dimension["default"])

    def block(self, dimension: str) -> dict[str, str]:
        """Return the settings for `protocol.prompt_text` and `protocol.prompt_messages`."""
        block = {"name": f"preset {self.name}", "prompt": self.of_dimension("prompt", dimension)}
        for name in ("system", "media", "parser"):
            if self.fields.get(name):
                block[name] = self.fields[name]
        return block


def _read_presets() -> dict[str, Preset]:
    entries = module_yaml(__file__)
    fallback = entries.pop("fallback")
    presets: dict[str, Preset] = {}
    for name, entry in entries.items():
        unknown = tuple(field for field in fallback if field not in entry)
        presets[name] = Preset(name, fallback | entry, unknown)
    return presets


PRESETS = _read_presets()


def chosen_preset() -> Preset | None:
    """Return the preset that ``LMMS_EGOPLAN_PROTOCOL`` names; None without this variable.

    Raises:
        LmmsEgoplanError: There is no such preset. The message lists the names.
    """
    name = os.environ.get(PRESET, "").strip()
    if name and name not in PRESETS:
        raise LmmsEgoplanError(
            f"{PRESET}={name}: EgoThink has no such preset; use one of {', '.join(PRESETS)}"
        )
    return PRESETS.get(name)


def chosen_judge_protocol(name: str = "") -> JudgeProtocol:
    """Return the judge's protocol with a name.

    Without a name, it is that of the environment, else of the preset.

    Raises:
        LmmsEgoplanError: There is no such protocol or preset.
    """
    preset = chosen_preset()
    default = preset.fields["judge_prompt"] if preset else DEFAULT_PROTOCOL
    return chosen_protocol(PROTOCOLS, name, default)
