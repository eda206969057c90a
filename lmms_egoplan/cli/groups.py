"""What the benchmarks bring to the command: their own commands, in its groups, and texts in shared helps."""

import typer

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
            groups[group].command(name)(command)
    judges = ", ".join(helps("judge, defaults"))
    for group, purpose in purposes.items():
        if groups[group].registered_commands:
            above, _, name = group.rpartition(" ")
            text = purpose.strip().format(judges=judges)
            examples = [f"Example: {example}" for example in helps(group)[:1]]
            groups[above].add_typer(groups[group], name=name, help="\n\n".join([text, *examples]))
