"""The command tree.

Each subpackage lists its commands in ``commands.yaml``; a command's module loads when it runs.

In that file, ``groups`` maps the path of each group, such as ``data prepare``, to its help.
``commands`` maps the path of each command to its function, as ``module:function`` inside the
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
import yaml
from typer.core import TyperCommand, TyperGroup

import lmms_egoplan
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import claiming
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
    for file in sorted(_PACKAGE.glob("*/commands.yaml")):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        groups |= content.get("groups", {})
        commands |= {
            path: f"{file.parent.name}.{function}" for path, function in content["commands"].items()
        }
    return groups, commands


def load_command(path: str) -> "Command":
    """Import a command's module and build the command, with the rule for ``--out``."""
    module, _, name = command_tree()[1][path].partition(":")
    function = getattr(import_module(f"lmms_egoplan.{module}"), name)
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
    )
    settings = (
        _PASS_THROUGH if path in _PASSED_THROUGH else {"allow_extra_args": path in _WITH_OPTIONS}
    )
    word = path.rpartition(" ")[2]
    app.command(word, cls=Command, help=inspect.getdoc(function), context_settings=settings)(
        claiming(path, function)
    )
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
        """Return the names one level below this group:
        `_FIRST`, then all others in the order of the subpackages.
        """
        paths = [path.split() for tree in command_tree() for path in tree]
        prefix = self.path.split()
        depth = len(prefix)
        names = dict.fromkeys(
            path[depth] for path in paths if path[:depth] == prefix and len(path) > depth
        )
        return sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Return a group, or a command with only its name and short help; None if there is no such
        command.
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
        return (
            Command(cmd_name, help=_first_paragraph(commands[path])) if path in commands else None
        )

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


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Set the metavar of flags to "", since help would print ``<bool>`` after them."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _first_paragraph(function: str) -> str:
    """Read the first paragraph of a command's docstring without importing its module."""
    module, _, name = function.partition(":")
    source = _PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    docstring = next(ast.get_docstring(node) for node in functions if node.name == name)
    return (docstring or "").partition("\n\n")[0]


def _no_such_command(group: str, args: list[str]) -> str:
    """Return the error for an unknown command, with up to three suggestions that share the most
    words with it.
    """
    paths = [path for tree in command_tree() for path in tree]
    words = [word for word in args if not word.startswith("-") and word != "lmms-egoplan"] or args[
        :1
    ]
    if not any(_likeness(words[0], path) for path in paths):
        words = [*re.split("[-_]", words[0]), *words[1:]]
    typed = [*group.split(), *words]
    scores = {
        path: sum(_likeness(word, path) for word in typed)
        for path in paths
        if _likeness(words[0], path)
    }
    best = [path for path, score in scores.items() if score == max(scores.values())]
    if not best and group:
        best = [path for path in paths if path.startswith(f"{group} ")]
    best = [path for path in best if not any(path.startswith(f"{parent} ") for parent in best)]
    suggestions = " or ".join(f"`lmms-egoplan {path}`" for path in best[:_MOST_SUGGESTIONS])
    return f"No such command '{args[0]}'." + (
        f" Did you mean {suggestions}?" if suggestions else ""
    )


def _likeness(typed: str, path: str) -> float:
    """Return the similarity of a typed word to a path's words:
    1 if equal, 0.9 for a part or prefix, 0 if low.
    """
    typed = typed.replace("_", "-")
    words = path.replace("_", "-").split()
    if typed in words:
        return 1
    if any(
        f"-{typed}-" in f"-{word}-" or (len(typed) > 3 and word.startswith(typed)) for word in words
    ):
        return 0.9
    likeness = max(SequenceMatcher(None, typed, word).ratio() for word in words)
    return likeness if likeness >= _LEAST_LIKENESS else 0
