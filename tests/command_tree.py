"""The groups and commands of ``lmms-egoplan``, by path, as typer builds them."""

from typer.core import TyperGroup
from typer.main import get_command

from lmms_egoplan.cli import app

ROOT = get_command(app)
GROUPS = {}
COMMANDS = {}


def _add(group, path):
    for name, command in group.commands.items():
        below = f"{path} {name}".strip()
        if isinstance(command, TyperGroup):
            GROUPS[below] = command
            _add(command, below)
        else:
            COMMANDS[below] = command


_add(ROOT, "")
