"""Options of earlier versions for what a command now takes as an argument."""

from collections.abc import Sequence

import typer
from typer.core import TyperCommand


def accepting(option: str) -> type[TyperCommand]:
    """A command that also takes its argument behind an option, as in ``--source DIR`` or ``--source=DIR``.

    Args:
        option: with its dashes; it stands in no help.
    """

    class Accepting(TyperCommand):
        def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
            return super().parse_args(ctx, _in_front(option, args, ctx))

    return Accepting


def _in_front(option: str, args: Sequence[str], ctx: typer.Context) -> list[str]:
    """The arguments with the option's values in front, without the option."""
    values: list[str] = []
    others: list[str] = []
    waiting = iter(args)
    for arg in waiting:
        if arg == "--":
            return [*values, *others, arg, *waiting]
        name, equals, value = arg.partition("=")
        if name != option:
            others.append(arg)
        elif equals:
            values.append(value)
        else:
            value = next(waiting, None)
            if value is None:
                raise typer.BadParameter("a value is missing", ctx=ctx, param_hint=option)
            values.append(value)
    return [*values, *others]
