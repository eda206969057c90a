"""Check that a harness or vLLM is installed before a command needs it."""

import importlib.util

import typer

from lmms_egoplan.errors import LmmsEgoplanError


def require_vllm(model: str) -> None:
    """Raise `LmmsEgoplanError` if vLLM is not installed.

    Args:
        model: The harness's name for the model that needs vLLM.
    """
    if importlib.util.find_spec("vllm") is None:
        raise LmmsEgoplanError(f"{model}: vLLM is not installed. Install it with: pip install 'lmms-egoplan[vllm]'")


def require(module: str, name: str, requirement: str) -> None:
    """Exit with a one-line message if a harness is not installed.

    Args:
        module: Module name of the harness.
        name: Name of the harness.
        requirement: Requirement that installs it with pip.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        typer.echo(f"lmms-egoplan: {name} is not installed. Install it with: pip install '{requirement}'", err=True)
        raise typer.Exit(1) from None
