"""Errors that the user can mend, told in one place for all commands."""

from typing import Any

import typer
from typer.core import TyperGroup

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.processes import end_on_signals, exit_code

# lm-eval shows its own errors.
_ON_THEIR_OWN = ("lm-eval",)


class TellingErrors(TyperGroup):
    """Ends with a message and exit code 1 instead of a traceback where files, settings or data are wrong.

    After a signal, the exit code is 128 plus its number.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        end_on_signals()
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: typer.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(exit_code(interrupt)) from None
        except BrokenPipeError:
            raise  # Who read the output has ended: the command ends without a word.
        except (LmmsEgoplanError, OSError) as error:
            if ctx.invoked_subcommand in _ON_THEIR_OWN and not isinstance(error, LmmsEgoplanError):
                raise
            typer.echo(f"lmms-egoplan: {error}", err=True)
            raise typer.Exit(1) from None
