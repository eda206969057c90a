"""Errors that the user can mend, told in one place for all commands."""

from typing import Any

import typer
from typer.core import TyperGroup

from lmms_egoplan.errors import LmmsEgoplanError

# lm-eval tells its errors in its own way.
_ON_THEIR_OWN = ("lm-eval",)


class TellingErrors(TyperGroup):
    """Ends with a message and exit code 1 instead of a traceback where files, settings or data are wrong."""

    def invoke(self, ctx: typer.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # Who read the output has ended: the command ends without a word.
        except (LmmsEgoplanError, OSError) as error:
            if ctx.invoked_subcommand in _ON_THEIR_OWN:
                raise
            typer.echo(f"lmms-egoplan: {error}", err=True)
            raise typer.Exit(1) from None
