"""Telling what is not installed before a command needs it."""

import importlib

import typer


def require(module: str, name: str, requirement: str) -> None:
    """End the command with one line where a harness is not installed.

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
