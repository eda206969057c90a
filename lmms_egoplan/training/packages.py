"""Check that the optional packages of a run's settings are installed, before a model is loaded."""

import importlib.util
from collections.abc import Iterator

import torch
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import adapter
from lmms_egoplan.training.settings import TuningSettings

# Modules of reporters that are not named like the reporter, and what pip installs.
_REPORTERS = {
    "azure_ml": ("azureml", "azureml-core"),
    "comet_ml": ("comet_ml", "comet-ml"),
    "flyte": ("flytekit", "flytekit"),
}
_BITSANDBYTES_OPTIMIZERS = ("8bit", "bnb", "paged")


def check_packages(settings: TuningSettings) -> None:
    """Check that all packages that the settings need are installed.

    Raises:
        LmmsEgoplanError: A package or, for ``quantize``, a GPU is missing, or a reporter is
            unknown. Names the setting and the command that installs the package.
    """
    if not _is_installed("peft"):
        raise LmmsEgoplanError(adapter.INSTALL)
    for setting, module, package in _needed(settings):
        if not _is_installed(module):
            raise LmmsEgoplanError(f"{setting}: needs {package}: pip install {package}")
    if settings.quantize and not torch.cuda.is_available():
        raise LmmsEgoplanError(
            f"quantize: {settings.quantize} needs a GPU; remove it to train on a CPU"
        )


def _needed(settings: TuningSettings) -> Iterator[tuple[str, str, str]]:
    """Yield each setting that needs a package, with the module and the package's name for pip."""
    for reporter in settings.report_to:
        if reporter in INTEGRATION_TO_CALLBACK:
            yield f"report_to: {reporter}", *_REPORTERS.get(reporter, (reporter, reporter))
        elif reporter != "none":
            raise LmmsEgoplanError(
                f"report_to: unknown reporter {reporter}; choose from "
                f"{', '.join(sorted(INTEGRATION_TO_CALLBACK))}"
            )
    if settings.quantize:
        yield f"quantize: {settings.quantize}", "bitsandbytes", "bitsandbytes"
    optimizer = str(settings.trainer.get("optim", ""))
    if any(word in optimizer for word in _BITSANDBYTES_OPTIMIZERS):
        yield f"trainer.optim: {optimizer}", "bitsandbytes", "bitsandbytes"
    if settings.trainer.get("deepspeed"):
        yield "trainer.deepspeed", "deepspeed", "deepspeed"
    if settings.attn_implementation == "flash_attention_2":
        yield "attn_implementation: flash_attention_2", "flash_attn", "flash-attn"


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
