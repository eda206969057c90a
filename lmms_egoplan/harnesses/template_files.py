"""Read a checkpoint's chat template from its files, and render it.

Neither transformers nor torch is loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member, read_json, read_text

NONE = "none"
"""Value of the argument ``chat_template`` that lets a model be asked in plain text."""

IN_PLAIN_TEXT = (
    f"or add chat_template={NONE} to the model's arguments to ask in plain text, which marks "
    "the result"
)
ON_VLLM = "backends on vLLM need it"
IN_LM_EVAL = "or run lm-eval without --apply_chat_template, which marks the result"

_JINJA = "chat_template.jinja"
_TOKENIZER = "tokenizer_config.json"
# Files with a chat template, in the order in which transformers prefers them.
_FILES = ("processor_config.json", "chat_template.json", _JINJA, _TOKENIZER)
_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """A chat template.

    name: name of its file.
    text: its text.
    special_tokens: texts of the tokenizer's special tokens by name, such as ``bos_token``.
    """

    name: str
    text: str
    special_tokens: Mapping[str, str]

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Render messages.

        Raises:
            Exception: The template raises any error.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, "jinja2.ext.loopcontrols"],
        )
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: (
            datetime.now().astimezone().strftime(form)
        )
        names: dict[str, Any] = {
            "messages": messages,
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
        }
        return environment.from_string(self.text).render(names | {**self.special_tokens})


def stored_template(checkpoint: str, revision: str = "main") -> StoredTemplate | None:
    """Return a checkpoint's chat template; None if its files contain none.

    Args:
        checkpoint: Folder, or name on the hub. Files that are not in the cache are downloaded.
        revision: The checkpoint's revision on the hub.

    Raises:
        LmmsEgoplanError: A file cannot be read or downloaded.
    """
    for name in _FILES:
        path = _path(checkpoint, name, revision)
        if path is None:
            continue
        content = read_text(path) if name == _JINJA else member(read_json(path), "chat_template")
        text = _default(content)
        if isinstance(text, str):
            tokenizer = _path(checkpoint, _TOKENIZER, revision)
            settings = read_json(tokenizer) if tokenizer else {}
            tokens = dict.fromkeys(_TOKENS, "") | dict(_special_tokens(settings))
            return StoredTemplate(name, text, tokens)
    return None


def _default(content: Any) -> Any:
    """Return the template that is used if none is named.

    Files may have several templates, by name.
    """
    if isinstance(content, list):
        content = {member(entry, "name"): member(entry, "template") for entry in content}
    return content.get("default") if isinstance(content, Mapping) else content


def _special_tokens(settings: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of special tokens in a tokenizer's settings."""
    for name, value in settings.items() if isinstance(settings, Mapping) else ():
        if name.endswith("_token"):
            text = member(value, "content") if isinstance(value, Mapping) else value
            yield from [(name, text)] if isinstance(text, str) else []
        elif isinstance(value, Mapping):
            yield from _special_tokens(value)


def _path(checkpoint: str, name: str, revision: str) -> Path | None:
    """Return the path of a checkpoint's file; None if there is no such file."""
    folder = Path(checkpoint).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    cached = try_to_load_from_cache(checkpoint, name, revision=revision)
    if cached is not None or constants.HF_HUB_OFFLINE:
        # else the cache knows that there is no such file
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(hf_hub_download(checkpoint, name, revision=revision))
    except LocalEntryNotFoundError as error:
        raise LmmsEgoplanError(
            f"{checkpoint}: cannot download {name}: {' '.join(str(error).split())}"
        ) from error
    except EntryNotFoundError:
        return None


class _Generation(Extension):
    """The tag ``{% generation %}`` of transformers, which marks an answer and changes no text."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Any) -> Any:
        """Return the content of the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise TemplateError(message)
