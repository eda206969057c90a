"""Errors and signals of the ``lmms-egoplan`` command."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.processes import end_on_signals, exit_code

# This command prints its harness's errors.
_LM_EVAL = "lm-eval"


class RootGroup(TyperGroup):
    """The root group.

    If files, settings or data are wrong, it prints a message and exits with 1, without a traceback.

    After a signal, the exit code is 128 plus its number.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command; signals end it and its children."""
        end_on_signals()
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; print errors that the user can correct."""
        try:
            from lmms_egoplan.benchmarks.presets import reject_former_variable

            reject_former_variable()
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(exit_code(interrupt)) from None
        except BrokenPipeError:
            raise  # Broken pipe: exit silently.
        except LmmsEgoplanError as error:
            _end(str(error))
        except Exception as error:
            from lmms_egoplan.volumes import explain, is_full

            if not isinstance(error, OSError) and not is_full(error):
                raise
            if ctx.invoked_subcommand == _LM_EVAL:
                raise
            _end(explain(error, _prepared()))


def _prepared() -> Path | None:
    """Return the root of the prepared data; None if it is not set and there is no home folder."""
    from lmms_egoplan.paths import data_root

    try:
        return data_root()
    except LmmsEgoplanError:
        return None


def _end(message: str) -> NoReturn:
    """Print an error below the progress bars, which end, and exit.

    Under torchrun, processes with the same error print it once.
    """
    if "tqdm" in sys.modules:
        from lmms_egoplan.progress import close_bars

        close_bars()
    text = f"lmms-egoplan: {message}"
    if "TORCHELASTIC_RUN_ID" in os.environ:
        from lmms_egoplan.process_group import print_error

        print_error(text)
    else:
        typer.echo(text, err=True)
    raise typer.Exit(1) from None


class EvaluateGroup(TyperGroup):
    """The group ``evaluate``, which is about models of metrics; other models have ``run``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a name.

        Raises:
            LmmsEgoplanError: There is no such command; the argument may be a model.
        """
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            from lmms_egoplan.text import join_list

            raise LmmsEgoplanError(
                f"evaluate {args[0]}: no such command; use {join_list([*self.commands])}. To "
                f"evaluate a model: lmms-egoplan run {args[0]}"
            )
        return super().resolve_command(ctx, args)
