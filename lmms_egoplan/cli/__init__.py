"""The ``lmms-egoplan`` command."""

from typing import Annotated

import typer

from lmms_egoplan import __version__
from lmms_egoplan.cli.commands import RootGroup

app = typer.Typer(
    name="lmms-egoplan",
    cls=RootGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"lmms-egoplan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Egocentric planning benchmarks for lmms-eval and lm-eval.

    Start runs with `lmms-eval` or `lmms-egoplan lm-eval`.

    Example: `lmms-egoplan demo` runs everything on small rendered sets; `lmms-egoplan show runs`
    prints the scores in the folder `runs`
    """
