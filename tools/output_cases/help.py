"""The help of all commands, and commands that print what is part of the package."""

from collections.abc import Iterator
from typing import Any

from output_cases.commands import Commands


def show_help() -> None:
    """Print the help of each group and command, and the package's lists."""
    import typer

    from lmms_egoplan.cli import app

    helps = Commands("help/help")
    for path in _paths(typer.main.get_command(app), ()):
        helps.run(*path, "--help")
    lists = Commands("lists")
    lists.run("--version")
    lists.run("ledger")
    for benchmark in ("egoplan", "egoplan_bench2", "egothink"):
        lists.run("ledger", benchmark)
    for form in ("csv", "md"):
        lists.run("ledger", "--format", form)
    lists.run("tasks-path")
    lists.run("tasks-path", "--harness", "lm-eval")
    lists.run("metrics-path", "actplan")
    lists.run("data", "status")


def _paths(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if path == ("lm-eval",) or not hasattr(command, "list_commands"):
        return
    for name in command.list_commands(None):
        yield from _paths(command.get_command(None, name), (*path, name))
