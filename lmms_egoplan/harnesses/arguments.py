"""Declare and check the arguments of this package's backends, ``--model_args``.

A backend declares them next to its class, in a subclass of `BackendArguments`. The class checks
them before weights load. The check before a run reads the same declaration. Neither torch nor a
harness is imported.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.requirements import unknown_arguments
from lmms_egoplan.harnesses.template_files import NONE

BASE_URL = "base_url"
"""Argument with the address of a server that answers, instead of a model in this process."""


class WrongValueError(ValueError):
    """A value is not allowed. The message completes the sentence "must be ..."."""


LOADING = frozenset(("revision", "trust_remote_code", "batch_size", "max_batch_size", "device"))
"""Arguments that this package's backends share with the classes of the harnesses."""

MODEL_NAMES = frozenset(
    ("pretrained", "model", "model_id", "model_name", "model_path", "model_version", "engine")
)
"""Arguments of any backend with the name or the folder of the model."""

WITHOUT_INFLUENCE = LOADING | {
    BASE_URL,
    "api_key",
    "adaptive_concurrency",
    "adaptive_decrease_factor",
    "adaptive_failure_threshold",
    "adaptive_increase_step",
    "adaptive_max_concurrency",
    "adaptive_min_concurrency",
    "adaptive_target_latency_s",
    "attn_implementation",
    "cache_dir",
    "continual_mode",
    "cpu_offload_gb",
    "data_parallel_size",
    "device_map",
    "disable_log_stats",
    "distributed_executor_backend",
    "download_dir",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "in_flight",
    "logits_cache",
    "max_cpu_memory",
    "max_memory_per_gpu",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_retries",
    "mem_fraction_static",
    "method",
    "num_concurrent",
    "num_cpus",
    "offload_folder",
    "parallelize",
    "pipeline_parallel_size",
    "prefix_aware_queue",
    "prefix_hash_chars",
    "ranking_path",
    "retry_backoff_s",
    "server_wait",
    "swap_space",
    "tensor_parallel_size",
    "timeout",
    "token",
    "tp_plan",
    "use_cache",
    "use_flash_attention_2",
    "use_flash_attn",
    "workers",
}
"""Arguments of any backend that change speed, memory or rounding, but not what is asked."""

# Similarity of a misspelt name. vLLM's worker_cls resembles workers by 0.82.
_LIKENESS = 0.85

Reader = Callable[[Any], Any]
"""Checks a value and converts it; raises `WrongValueError`.

The value is a text from the command line, or what a harness made of it.
"""


def argument(read: Reader, default: Any = None) -> Any:
    """Declare an argument. None is never passed to `read`: it means the default."""
    return field(default=default, metadata={"read": read})


def text(value: Any) -> str:
    """Read a text. A harness may have turned it into a number."""
    return str(value)


def whole_number(value: Any) -> int:
    """Read a whole number of at least 1."""
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
        raise WrongValueError("a whole number of at least 1")
    return int(value)


def pixels(value: Any) -> int:
    """Read a number of pixels."""
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
        raise WrongValueError("a whole number of pixels above 0, such as 602112")
    return int(value)


def seconds(value: Any) -> float:
    """Read a number of seconds."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < float("inf"):
        raise WrongValueError("a number of seconds from 0")
    return number


def flag(value: Any) -> bool:
    """Read ``True`` or ``False``, in any spelling; 1 and 0 are allowed, too."""
    name = str(value).lower()
    if name in ("true", "1"):
        return True
    if name in ("false", "0"):
        return False
    raise WrongValueError("True or False")


def one_of(*names: str) -> Reader:
    """Return a function that reads one of some names."""

    def read(value: Any) -> str:
        if value not in names:
            raise WrongValueError(f"one of {', '.join(names)}")
        return str(value)

    return read


def no_template(value: Any) -> str:
    """Read the value of ``chat_template`` that asks in plain text."""
    if value != NONE:
        raise WrongValueError(f"{NONE}; or omit it to use the checkpoint's chat template")
    return NONE


def adapter(value: Any) -> str:
    """Read the folder of an adapter."""
    folder = Path(str(value)).expanduser()
    if not (folder / "adapter_config.json").is_file():
        raise WrongValueError("the folder of an adapter, with adapter_config.json")
    return str(value)


def adapter_or_name(value: Any) -> str:
    """Read the folder of an adapter, or its name on the hub."""
    name = str(value)
    is_name = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    return name if is_name and not Path(name).exists() else adapter(name)


def anything(value: Any) -> Any:
    """Return a value that is ignored, or that the parent class checks."""
    return value


@dataclass(frozen=True, kw_only=True)
class BackendArguments:
    """The arguments of a backend, except the model.

    A subclass has a field for each argument. None means the default.

    Attributes:
        IS_OPEN: Whether the backend passes further arguments on to another project's class. These
            are not checked, unless their name resembles that of an argument of the backend.
        WITHOUT_EFFECT: Arguments that would have no effect, and what to do instead.
        ON_SERVER: Arguments that are possible with ``base_url``; empty without a server.
        PASSED_ON: Arguments that the parent class takes as well.
    """

    IS_OPEN: ClassVar[bool] = False
    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {}
    ON_SERVER: ClassVar[frozenset[str]] = frozenset()
    PASSED_ON: ClassVar[frozenset[str]] = frozenset()

    batch_size: int | str | None = argument(anything)
    max_batch_size: int | None = argument(anything)
    device: str | None = argument(anything)


Arguments = TypeVar("Arguments", bound=BackendArguments)


def argument_problems(
    declaration: type[BackendArguments], values: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a line for each argument that a backend does not take, or not with this value.

    Args:
        declaration: The backend's declaration.
        values: The arguments by name, as texts or as a harness read them.
    """
    names = [name for name in values if name not in declaration.WITHOUT_EFFECT]
    known = argument_names(declaration)
    for name, hint in unknown_arguments(
        names, known, is_open=declaration.IS_OPEN, likeness=_LIKENESS
    ):
        yield f"has no argument {name}; {hint}"
    yield from _without_effect(declaration, values)
    for declared in fields(declaration):
        value = values.get(declared.name)
        if value is None:
            continue
        try:
            declared.metadata["read"](value)
        except WrongValueError as error:
            yield f"{declared.name}={value}: must be {error}"


def _without_effect(
    declaration: type[BackendArguments], values: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a line for each argument that the class of another project would use."""
    for name, remedy in declaration.WITHOUT_EFFECT.items():
        if name in values:
            yield f"{name} has no effect here: {remedy}"
    if values.get(BASE_URL) is None:
        return
    unsupported = [
        name for name in values if values[name] is not None and name not in declaration.ON_SERVER
    ]
    if unsupported:
        names = ", ".join(sorted(unsupported))
        yield f"{names}: remove; with {BASE_URL}, the server sets this"


def argument_names(declaration: type[BackendArguments]) -> list[str]:
    """Return the names of a backend's own arguments."""
    return [declared.name for declared in fields(declaration)]


def read_arguments(
    declaration: type[Arguments], backend: str, values: Mapping[str, Any]
) -> Arguments:
    """Check and convert the arguments of a backend; arguments of other classes are not included.

    Args:
        declaration: The backend's declaration.
        backend: The harness's name of the backend.
        values: The arguments by name.

    Raises:
        LmmsEgoplanError: An argument is unknown, or has a wrong value. The message has all of them.
    """
    problems = [*argument_problems(declaration, values)]
    if problems:
        raise LmmsEgoplanError("; ".join(f"{backend}: --model_args {line}" for line in problems))
    chosen = {}
    for declared in fields(declaration):
        value = values.get(declared.name)
        if value is not None:
            chosen[declared.name] = declared.metadata["read"](value)
    return declaration(**chosen)


def passed_on(declaration: type[BackendArguments], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the parent class of a backend, unchanged."""
    not_passed = {*argument_names(declaration)} - declaration.PASSED_ON
    return {name: value for name, value in values.items() if name not in not_passed}
