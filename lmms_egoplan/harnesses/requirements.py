"""Check that a harness or vLLM is installed, and that a model accepts its arguments.

The model is not loaded for this.
"""

import difflib
import importlib.util
from collections.abc import Collection, Iterable, Iterator

import typer

from lmms_egoplan.errors import LmmsEgoplanError


def require_vllm(model: str) -> None:
    """Raise `LmmsEgoplanError` if vLLM is not installed.

    Args:
        model: The harness's name for the model that needs vLLM.
    """
    if importlib.util.find_spec("vllm") is None:
        raise LmmsEgoplanError(
            f"{model}: vLLM is not installed. Install it with: pip install 'lmms-egoplan[vllm]'"
        )


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
        typer.echo(
            f"lmms-egoplan: {name} is not installed. Install it with: pip install '{requirement}'",
            err=True,
        )
        raise typer.Exit(1) from None


def unknown_arguments(
    names: Iterable[str],
    valid_names: Collection[str],
    *,
    is_open: bool = False,
    likeness: float = 0.8,
) -> Iterator[tuple[str, str]]:
    """Yield each unknown argument with a hint, in alphabetical order.

    Args:
        names: The argument names to check.
        valid_names: The known names.
        is_open: Whether further names are accepted, so that only near misses of known ones are
            unknown.
        likeness: Similarity of near misses, up to 1, if further names are accepted.
    """
    cutoff = likeness if is_open else 0.6
    for name in sorted({*names} - {*valid_names}):
        near = difflib.get_close_matches(name, valid_names, n=1, cutoff=cutoff)
        if near or not is_open:
            yield (
                name,
                f"did you mean {near[0]}?"
                if near
                else f"use one of {', '.join(sorted(valid_names))}",
            )
