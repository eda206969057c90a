"""A command's input files: arguments now, options before, which still work."""

from pathlib import Path

import typer


def given_inputs(*inputs: tuple[str, Path | None, Path | None]) -> list[Path]:
    """The paths of a command's inputs, in their order.

    Args:
        inputs: for each its name (``PLANS``), its argument, and its option (``--plans``).

    Raises:
        typer.BadParameter: an input is given twice, or some are missing.
    """
    for name, argument, option in inputs:
        if argument is not None and option is not None:
            raise typer.BadParameter(
                f"given twice: {argument} and --{name.lower()} {option}. Give each input once: "
                f"{' '.join(name for name, _, _ in inputs)}",
                param_hint=name,
            )
    missing = [name for name, argument, option in inputs if argument is None and option is None]
    if missing:
        raise typer.BadParameter("not given", param_hint=", ".join(missing))
    return [path for _, *paths in inputs for path in paths if path is not None]
