"""Options of earlier versions for what a command now takes as arguments."""

from collections.abc import Sequence

import typer
from typer.core import TyperCommand


def accepting(*options: str) -> type[TyperCommand]:
    """A command that also takes its arguments behind options, as in ``--source DIR`` or ``--source=DIR``.

    One option may be given several times. Of several options, all or none are given.

    Args:
        options: with their dashes, in the order of the command's first arguments; they stand in no help.
    """

    class Accepting(TyperCommand):
        def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
            return super().parse_args(ctx, _in_front(options, args, ctx))

    return Accepting


def _in_front(options: Sequence[str], args: Sequence[str], ctx: typer.Context) -> list[str]:
    """The arguments with the options' values in front, without the options."""
    values: dict[str, list[str]] = {option: [] for option in options}
    others: list[str] = []
    waiting = iter(args)
    for arg in waiting:
        name, equals, value = arg.partition("=")
        if arg == "--":
            others += [arg, *waiting]
        elif name not in values:
            others.append(arg)
        elif equals:
            values[name].append(value)
        else:
            value = next(waiting, None)
            if value is None:
                raise typer.BadParameter("a value is missing", ctx=ctx, param_hint=name)
            values[name].append(value)
    given = [value for option in options for value in values[option]]
    if given and len(options) > 1 and {len(found) for found in values.values()} != {1}:
        raise typer.BadParameter(
            "give each of them once, or all inputs as arguments: "
            f"{' '.join(option.removeprefix('--').upper() for option in options)}",
            ctx=ctx,
            param_hint=", ".join(options),
        )
    return [*given, *others]
