"""What the benchmarks bring to the command: their own commands, in its groups, and texts in shared helps."""

from collections.abc import Sequence

import typer
from typer.core import TyperCommand

from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.paths import yaml_beside


def helps(key: str) -> list[str]:
    """The benchmarks' texts under a key of `Commands.HELPS`, one of each benchmark that has one."""
    texts = (benchmark.load_commands().HELPS for benchmark in BENCHMARKS)
    return [own[key] for own in texts if key in own]


def add_benchmarks(app: typer.Typer, **own: typer.Typer) -> None:
    """Add the benchmarks' commands, in their groups.

    Args:
        own: groups that have commands already, by name.
    """
    purposes: dict[str, str] = yaml_beside(__file__)
    groups = {"": app} | {group: typer.Typer(no_args_is_help=True) for group in purposes} | own
    for benchmark in BENCHMARKS:
        commands = benchmark.load_commands()
        for path, command in commands.COMMANDS.items():
            group, _, name = path.rpartition(" ")
            groups[group].command(name, cls=_accepting(*commands.FORMER_OPTIONS.get(path, ())))(command)
    judges = ", ".join(helps("judge, defaults"))
    for group, purpose in purposes.items():
        if groups[group].registered_commands:
            above, _, name = group.rpartition(" ")
            text = purpose.strip().format(judges=judges)
            examples = [f"Example: {example}" for example in helps(group)[:1]]
            groups[above].add_typer(groups[group], name=name, help="\n\n".join([text, *examples]))


def _accepting(*options: str) -> type[TyperCommand]:
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
