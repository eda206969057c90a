"""Look up the backends that a run can use: this package's, and the harnesses' own by name.

Neither a harness nor a model class is imported.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.metadata import entry_points
from itertools import chain

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.arguments import BackendArguments
from lmms_egoplan.harnesses.lm_eval.arguments import HFVLMRankerArguments, VLLMVLMRankerArguments
from lmms_egoplan.harnesses.lmms_eval.arguments import (
    HFVLMArguments,
    ScriptedArguments,
    VLLMRankerArguments,
)
from lmms_egoplan.harnesses.source_literals import read_literal

_PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Backend:
    """A harness's backend.

    Attributes:
        name: Value of ``--model``.
        arguments: Declaration of its arguments; None for a backend of another project, whose
            arguments are passed on unchecked.
        ranks: Whether it scores continuations after images; None if unknown.
        model_parameter: Argument for the checkpoint or the model's name.
        key_variable: Environment variable with the key of its API; None if it needs none.
    """

    name: str
    arguments: type[BackendArguments] | None = None
    ranks: bool | None = None
    model_parameter: str = _PRETRAINED
    key_variable: str | None = None

    @property
    def is_ours(self) -> bool:
        """True if the backend belongs to this package. Then its answers are stored one by one."""
        return self.arguments is not None

    @property
    def needs_vllm(self) -> bool:
        """True if the backend needs vLLM, unless a server answers."""
        return "vllm" in self.name

    @property
    def is_local(self) -> bool:
        """True if the backend loads a checkpoint, unless a server answers."""
        return self.needs_vllm or self.model_parameter == _PRETRAINED


_OURS = {
    "lmms-eval": (
        Backend("hf_vlm", HFVLMArguments, ranks=True),
        Backend("llava", HFVLMArguments, ranks=True),
        Backend("scripted", ScriptedArguments, ranks=True),
        Backend("vllm_ranker", VLLMRankerArguments, ranks=True, model_parameter="model"),
    ),
    "lm-eval": (
        Backend("hf-vlm-ranker", HFVLMRankerArguments, ranks=True),
        Backend("vllm-vlm-ranker", VLLMVLMRankerArguments, ranks=True),
    ),
}

# Backends of the harnesses that take the model's name in another argument than ``pretrained``,
# most of them for APIs, by harness and argument.
_MODEL_PARAMETERS = {
    "lmms-eval": {
        "model": (
            "async_openai",
            "async_openai_compatible",
            "async_openai_compatible_chat",
            "fastvideo",
            "gemini",
            "gemini_api",
            "generation_api",
            "litellm",
            "litellm_chat",
            "litellm_compatible",
            "longvila",
            "openai",
            "openai_compatible",
            "openai_compatible_chat",
            "sglang",
            "vllm",
            "vllm_generate",
        ),
        "model_name": ("from_log",),
        "model_version": (
            "batch_gpt4",
            "claude",
            "gpt4o_audio",
            "gpt4v",
            "qwen_vl_api",
            "reka",
            "srt_api",
        ),
    },
    "lm-eval": {
        "engine": ("textsynth",),
        "model": (
            "anthropic-chat",
            "anthropic-chat-completions",
            "anthropic-completions",
            "litellm",
            "litellm-chat",
            "litellm-chat-completions",
            "local-chat-completions",
            "local-completions",
            "openai-chat-completions",
            "openai-completions",
            "sglang-generate",
            "trtllm",
        ),
        "model_id": ("watsonx_llm",),
    },
}

# Environment variables with the key of an API, by harness.
_KEY_VARIABLES = {
    "lmms-eval": {
        "ANTHROPIC_API_KEY": ("claude",),
        "DASHSCOPE_API_KEY": ("qwen_vl_api",),
        "GOOGLE_API_KEY": ("gemini", "gemini_api"),
        "OPENAI_API_KEY": (
            "async_openai",
            "async_openai_compatible",
            "async_openai_compatible_chat",
            "batch_gpt4",
            "gpt4o_audio",
            "gpt4v",
            "openai",
            "openai_compatible",
            "openai_compatible_chat",
        ),
        "REKA_API_KEY": ("reka",),
    },
    "lm-eval": {
        "ANTHROPIC_API_KEY": (
            "anthropic-chat",
            "anthropic-chat-completions",
            "anthropic-completions",
        ),
        "OPENAI_API_KEY": ("openai-chat-completions", "openai-completions"),
    },
}


def find_backend(harness: str, name: str) -> Backend:
    """Return a backend of ``lmms-eval`` or ``lm-eval``.

    Raises:
        LmmsEgoplanError: There is no such backend. The message suggests similar names.
    """
    for backend in _OURS[harness]:
        if backend.name == name:
            return backend
    if harness == "lm-eval":
        names = {*read_literal("lm_eval.models", "MODEL_MAPPING")}
        chat_names: set[str] = set()
    else:
        chat_names = _with_aliases(
            read_literal("lmms_eval.models", "AVAILABLE_CHAT_TEMPLATE_MODELS")
        )
        simple_names = _with_aliases(read_literal("lmms_eval.models", "AVAILABLE_SIMPLE_MODELS"))
        names = chat_names | simple_names
    if name not in names and not _may_be_a_plugin(harness):
        known = [*names, *(backend.name for backend in _OURS[harness])]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"see the backends of {harness}"
        raise LmmsEgoplanError(f"--backend {name}: {harness} has no such backend; {hint}")
    # The harness prefers a model's class for chat messages, which only writes answers.
    ranks = False if name in chat_names else None
    return Backend(
        name,
        ranks=ranks,
        model_parameter=_model_parameter(harness, name),
        key_variable=_key_variable(harness, name),
    )


def default_arguments(name: str) -> dict[str, str]:
    """Return the default values of a backend's arguments, as texts by name.

    Empty for backends of other projects.
    """
    for backend in chain.from_iterable(_OURS.values()):
        if backend.name == name and backend.arguments is not None:
            return {declared.name: str(declared.default) for declared in fields(backend.arguments)}
    return {}


def _with_aliases(names: Iterable[str]) -> set[str]:
    """Return names of lmms-eval's models with their aliases."""
    aliases_by_name = read_literal("lmms_eval.models", "MODEL_ALIASES")
    with_aliases = {*names}
    for name in names:
        with_aliases.update(aliases_by_name.get(name, ()))
    return with_aliases


def _may_be_a_plugin(harness: str) -> bool:
    """Return whether another package may add backends to the harness."""
    plugins = {entry.name for entry in entry_points(group="lmms_eval.models")}
    return harness == "lmms-eval" and bool(plugins - {"lmms_egoplan"})


def _key_variable(harness: str, name: str) -> str | None:
    for variable, names in _KEY_VARIABLES[harness].items():
        if name in names:
            return variable
    return None


def _model_parameter(harness: str, name: str) -> str:
    for parameter, names in _MODEL_PARAMETERS[harness].items():
        if name in names:
            return parameter
    return _PRETRAINED
