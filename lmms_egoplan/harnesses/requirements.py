"""Check that a harness or vLLM is installed before a command needs it."""

import importlib.util

import typer

from lmms_egoplan.errors import LmmsEgoplanError


def require_vllm(model: str) -> None:
    """Raise `LmmsEgoplanError` if vLLM is not installed.

    Args:
        model: the harness's name of the model that needs it.
    """
    if importlib.util.find_spec("vllm") is None:
        raise LmmsEgoplanError(f"{model}: vLLM is not installed. Install it with: pip install 'lmms-egoplan[vllm]'")


def require(module: str, name: str, requirement: str) -> None:
    """End the command with one line if a harness is not installed.

    Args:
        module: that the harness is imported as.
        name: of the harness.
        requirement: what brings it, for pip.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        typer.echo(f"lmms-egoplan: {name} is not installed. Install it with: pip install '{requirement}'", err=True)
        raise typer.Exit(1) from None
