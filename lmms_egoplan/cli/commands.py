"""The command tree.

Each subpackage lists its commands in ``command_list.py``; a command's module loads when it runs.

In that module, ``GROUPS`` maps the path of each group, such as ``data prepare``, to its help.
``COMMANDS`` maps the path of each command to its function, as ``module:function`` inside the
subpackage.
"""

import ast
import inspect
import re
from difflib import SequenceMatcher
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

import lmms_egoplan
from lmms_egoplan.benchmarks.presets import reject_former_variable
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.processes import end_on_signals, exit_code

_PACKAGE = Path(lmms_egoplan.__file__).parent
# These commands have their own help and print their own errors.
_PASSED_THROUGH = ("lm-eval",)
# Words after ``--`` are options of a harness.
_WITH_OPTIONS = ("run",)
_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
# Commands that help lists first.
_FIRST = (
    "demo",
    "data",
    "run",
    "show",
    "report",
    "compare",
    "lm-eval",
    "tasks-path",
    "status",
    "prepare",
)
_MOST_SUGGESTIONS = 3
_LEAST_LIKENESS = 0.65


@cache
def command_tree() -> tuple[dict[str, str], dict[str, str]]:
    """Return the help of every group and the function of every command, by path.

    Subpackages are in alphabetical order. Functions have the form ``subpackage.module:function``.
    """
    groups: dict[str, str] = {}
    commands: dict[str, str] = {}
    for file in sorted(_PACKAGE.glob("*/command_list.py")):
        room = file.parent.name
        command_list = import_module(f"lmms_egoplan.{room}.command_list")
        for path, help_text in command_list.GROUPS.items():
            groups[path] = inspect.cleandoc(help_text)
        for path, function in command_list.COMMANDS.items():
            commands[path] = f"{room}.{function}"
    return groups, commands


def load_command(path: str) -> "Command":
    """Import a command's module and build the command."""
    module, _, name = command_tree()[1][path].partition(":")
    function = getattr(import_module(f"lmms_egoplan.{module}"), name)
    if path in _PASSED_THROUGH:
        settings = _PASS_THROUGH
    else:
        settings = {"allow_extra_args": path in _WITH_OPTIONS}
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
    )
    register = app.command(
        path.split()[-1],
        cls=Command,
        help=inspect.getdoc(function),
        context_settings=settings,
    )
    register(function)
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    return command


class Command(TyperCommand):
    """A complete command, or a placeholder with only its name and short help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters for help."""
        return _without_flag_types(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A group that reads its commands from `command_tree` and imports a command when it runs."""

    path = ""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters for help."""
        return _without_flag_types(super().get_params(ctx))

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names one level below this group.

        The names in `_FIRST` come first, then all others in the order of the subpackages.
        """
        groups, commands = command_tree()
        prefix = self.path.split()
        depth = len(prefix)
        names: dict[str, None] = {}  # a set that keeps the order
        for path in (*groups, *commands):
            words = path.split()
            if words[:depth] == prefix and len(words) > depth:
                names[words[depth]] = None
        return sorted(names, key=_help_position)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Return a group, or a command with only its name and short help.

        If there is no such command, return None.
        """
        groups, commands = command_tree()
        path = f"{self.path} {cmd_name}".strip()
        if path in groups:
            group = CommandGroup(
                name=cmd_name,
                help=groups[path],
                no_args_is_help=True,
                rich_markup_mode=self.rich_markup_mode,
            )
            group.path = path
            return group
        if path in commands:
            return Command(cmd_name, help=_first_paragraph(commands[path]))
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command to run.

        Raises:
            UsageError: the command does not exist. The message suggests similar ones.
        """
        command = self.get_command(ctx, args[0])
        if command is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(_no_such_command(self.path, args))
        name, command, arguments = super().resolve_command(ctx, args)
        if isinstance(command, Command):
            command = load_command(f"{self.path} {name}".strip())
        return name, command, arguments


class RootGroup(CommandGroup):
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
            reject_former_variable()
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(exit_code(interrupt)) from None
        except BrokenPipeError:
            raise  # Broken pipe: exit silently.
        except (LmmsEgoplanError, OSError) as error:
            if ctx.invoked_subcommand in _PASSED_THROUGH and not isinstance(
                error, LmmsEgoplanError
            ):
                raise
            typer.echo(f"lmms-egoplan: {error}", err=True)
            raise typer.Exit(1) from None


def _help_position(name: str) -> int:
    """Return the position of a command's name in help; names not in `_FIRST` share the last one."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Set the metavar of flags to "", since help would print ``<bool>`` after them."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _first_paragraph(function: str) -> str:
    """Read the first paragraph of a command's docstring without importing its module."""
    module, _, name = function.partition(":")
    path = _PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            docstring = ast.get_docstring(node) or ""
            return docstring.partition("\n\n")[0]
    raise LookupError(f"{path} has no function {name}")


def _no_such_command(group: str, args: list[str]) -> str:
    """Return the error for an unknown command, with up to three suggestions."""
    message = f"No such command '{args[0]}'."
    paths = _similar_commands(group, args)[:_MOST_SUGGESTIONS]
    if not paths:
        return message
    suggestions = " or ".join(f"`lmms-egoplan {path}`" for path in paths)
    return f"{message} Did you mean {suggestions}?"


def _similar_commands(group: str, args: list[str]) -> list[str]:
    """Return the paths of groups and commands that share the most words with the typed ones.

    If no path is similar, return the commands of the group.
    """
    groups, commands = command_tree()
    paths = [*groups, *commands]
    words = [word for word in args if not word.startswith("-") and word != "lmms-egoplan"]
    if not words:
        words = args[:1]
    if not any(_likeness(words[0], path) for path in paths):
        words = [*re.split("[-_]", words[0]), *words[1:]]
    typed = [*group.split(), *words]
    scores: dict[str, float] = {}
    for path in paths:
        if _likeness(words[0], path):
            scores[path] = sum(_likeness(word, path) for word in typed)
    best: list[str] = []
    if scores:
        highest = max(scores.values())
        best = [path for path, score in scores.items() if score == highest]
    elif group:
        best = [path for path in paths if path.startswith(f"{group} ")]
    return [path for path in best if not _is_below_any(path, best)]


def _is_below_any(path: str, groups: list[str]) -> bool:
    """Return whether a path is inside one of the groups."""
    return any(path.startswith(f"{group} ") for group in groups)


def _likeness(typed: str, path: str) -> float:
    """Return the similarity of a typed word to the most similar word of a path.

    It is 1 for an equal word, 0.9 for a part or a prefix of a word, and 0 if it is low.
    """
    typed = typed.replace("_", "-")
    words = path.replace("_", "-").split()
    if typed in words:
        return 1
    for word in words:
        if f"-{typed}-" in f"-{word}-":
            return 0.9
        if len(typed) > 3 and word.startswith(typed):
            return 0.9
    likeness = max(SequenceMatcher(None, typed, word).ratio() for word in words)
    return likeness if likeness >= _LEAST_LIKENESS else 0
