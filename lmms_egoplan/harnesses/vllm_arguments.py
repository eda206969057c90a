"""Declare the arguments that both backends on vLLM have."""

from dataclasses import dataclass
from typing import ClassVar

from lmms_egoplan.harnesses.arguments import (
    BASE_URL,
    LOADING,
    BackendArguments,
    argument,
    flag,
    one_of,
    pixels,
    seconds,
    text,
    whole_number,
)
from lmms_egoplan.harnesses.server_watch import SERVER_WAIT_S
from lmms_egoplan.ranking.methods import AUTO, IN_FLIGHT, METHODS

OF_CLIENT = LOADING | {BASE_URL, "method", "in_flight", "workers", "server_wait"}
"""Those that are possible with a server, because it does not set them."""


@dataclass(frozen=True, kw_only=True)
class VLLMArguments(BackendArguments):
    """Arguments of a backend on vLLM in addition to those of its parent class.

    Attributes:
        base_url: URL of a running ``vllm serve`` that ranks instead.
        method: ``auto``, ``forced`` or ``prompt_logprobs`` (`Schedule`).
        in_flight: Number of questions ranked concurrently.
        workers: Number of threads that decode frames in advance; by default, one per core of this
            process, at most 16.
        server_wait: Seconds to wait for a server that no longer answers, before the run ends.
        min_pixels, max_pixels: Limits on images (`set_engine_budget`).
        revision: The checkpoint's revision.
        trust_remote_code: Run code that comes with the checkpoint.
    """

    IS_OPEN: ClassVar[bool] = True
    ON_SERVER: ClassVar[frozenset[str]] = OF_CLIENT
    PASSED_ON: ClassVar[frozenset[str]] = LOADING

    base_url: str | None = argument(text)
    method: str = argument(one_of(*METHODS), AUTO)
    in_flight: int = argument(whole_number, IN_FLIGHT)
    workers: int | None = argument(whole_number)
    server_wait: float = argument(seconds, SERVER_WAIT_S)
    min_pixels: int | None = argument(pixels)
    max_pixels: int | None = argument(pixels)
    revision: str = argument(text, "main")
    trust_remote_code: bool = argument(flag, default=False)

    @property
    def pixel_limits(self) -> dict[str, int | None]:
        """The limits for `set_engine_budget`."""
        return {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
