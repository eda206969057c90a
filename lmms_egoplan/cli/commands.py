"""The tree of commands. Each room of the package lists its own in ``commands.yaml``; their modules load when they run.

``groups`` has the help of each group by its path, such as ``data prepare``; ``commands`` has the function of each
command by its path, as ``module:function`` below the room.
"""

import ast
import inspect
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer
import yaml
from typer.core import TyperCommand, TyperGroup

import lmms_egoplan
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import claiming
from lmms_egoplan.processes import end_on_signals, exit_code

_PACKAGE = Path(lmms_egoplan.__file__).parent
# lm-eval has its own help and shows its own errors.
_PASSED_THROUGH = ("lm-eval",)
_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
_MAX_SUGGESTIONS = 3
# What help lists first.
_FIRST = ("demo", "data", "show", "report", "lm-eval", "tasks-path", "status", "prepare")


class _Target(NamedTuple):
    """Where a command's function is: below `lmms_egoplan`, as ``room.module`` and a name."""

    module: str
    function: str


@cache
def command_tree() -> tuple[dict[str, str], dict[str, _Target]]:
    """Return the help of every group and the function of every command, by path, rooms in alphabetical order."""
    groups: dict[str, str] = {}
    commands: dict[str, _Target] = {}
    for file in sorted(_PACKAGE.glob("*/commands.yaml")):
        room = yaml.safe_load(file.read_text(encoding="utf-8"))
        groups |= room.get("groups", {})
        for path, function in room["commands"].items():
            module, _, name = function.partition(":")
            commands[path] = _Target(f"{file.parent.name}.{module}", name)
    return groups, commands


def load_command(path: str) -> "Command":
    """Import a command's module and build the command, with the rule for ``--out``."""
    target = command_tree()[1][path]
    function = getattr(import_module(f"lmms_egoplan.{target.module}"), target.function)
    name = path.rpartition(" ")[2]
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    settings = _PASS_THROUGH if path in _PASSED_THROUGH else None
    app.command(name, cls=Command, help=inspect.getdoc(function), context_settings=settings)(claiming(path, function))
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    return command


class _NoTypeOfFlags:
    """Help that prints no type after a flag."""

    def get_params(self, ctx: typer.Context) -> list[Any]:
        """Return the parameters; those that are flags have an empty metavar."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_NoTypeOfFlags, TyperCommand):
    """A command that runs, or only its name and short help."""


class CommandGroup(_NoTypeOfFlags, TyperGroup):
    """A group whose commands are read from `command_tree`, and imported when one of them runs."""

    path = ""

    def list_commands(self, ctx: typer.Context) -> list[str]:
        """Return the names one level below: those of `_FIRST` first, the others as the rooms list them."""
        groups, commands = command_tree()
        depth = len(self.path.split())
        below = (path.split() for path in (*groups, *commands) if f"{path} ".startswith(f"{self.path} ".lstrip()))
        names = dict.fromkeys(words[depth] for words in below if len(words) > depth)
        return sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:
        """Return a group, or a command that has only a name and a short help; None if there is no such command."""
        groups, commands = command_tree()
        path = f"{self.path} {cmd_name}".strip()
        if path in groups:
            group = CommandGroup(
                name=cmd_name, help=groups[path], no_args_is_help=True, rich_markup_mode=self.rich_markup_mode
            )
            group.path = path
            return group
        return Command(cmd_name, help=_first_paragraph(commands[path])) if path in commands else None

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:
        """Import the command that is about to run.

        Raises:
            UsageError: there is no such command; suggests those that are meant.
        """
        command = self.get_command(ctx, args[0])
        if command is None and not args[0].startswith("-"):
            ctx.fail(_no_such_command(self.path, args))
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, Command):
            command = load_command(f"{self.path} {name}".strip())
        return name, command, rest


class RootGroup(CommandGroup):
    """Ends with a message and exit code 1 instead of a traceback if files, settings or data are wrong.

    After a signal, the exit code is 128 plus its number.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command; signals end it and its children."""
        end_on_signals()
        return super().__call__(*args, **kwargs)

    def invoke(self, ctx: typer.Context) -> Any:
        """Run the command; print errors that the user can correct."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(exit_code(interrupt)) from None
        except BrokenPipeError:
            raise  # The reader of the output has ended: end silently.
        except (LmmsEgoplanError, OSError) as error:
            if ctx.invoked_subcommand in _PASSED_THROUGH and not isinstance(error, LmmsEgoplanError):
                raise
            typer.echo(f"lmms-egoplan: {error}", err=True)
            raise typer.Exit(1) from None


def _first_paragraph(target: _Target) -> str:
    """Read the first paragraph of a command's docstring without importing its module."""
    source = _PACKAGE.joinpath(*target.module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    docstring = next(ast.get_docstring(node) for node in functions if node.name == target.function)
    return (docstring or "").partition("\n\n")[0]


def _no_such_command(group: str, args: list[str]) -> str:
    """Name the command that was not found, and up to three with the same or similar words."""
    paths = [path for tree in command_tree() for path in tree]
    typed = {*group.split(), *(word for word in args if not word.startswith("-"))}
    same = [path for path in paths if args[0] in path.replace("-", " ").split()]
    if not same:
        words = {word: path for path in paths for word in (path, *path.split()) if f"{path} ".startswith(group)}
        same = [words[match] for match in get_close_matches(args[0], words, _MAX_SUGGESTIONS)]
    overlaps = {path: len(typed.intersection(path.split())) for path in same}
    meant = [path for path, overlap in overlaps.items() if overlap == max(overlaps.values())]
    if not meant and group:
        meant = [path for path in paths if path.startswith(f"{group} ")]
    meant = [path for path in meant if not any(path.startswith(f"{other} ") for other in meant)]
    suggestions = " or ".join(f"`lmms-egoplan {path}`" for path in dict.fromkeys(meant[:_MAX_SUGGESTIONS]))
    return f"No such command '{args[0]}'." + (f" Did you mean {suggestions}?" if suggestions else "")
