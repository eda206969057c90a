"""Read literals from the sources of installed packages that take seconds to import."""

import ast
import importlib.util
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError

# In Python 3.11, calls of `ast.parse` in several threads disturb each other.
_PARSING = Lock()


@cache
def read_literal(module: str, variable: str) -> Any:
    """Return a variable of an installed module that is a literal, without importing the module.

    Raises:
        LmmsEgoplanError: The module has no such variable.
    """
    for node in parsed_source(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and target.id == variable
            and isinstance(node, ast.Assign | ast.AnnAssign)
        ):
            value = node.value
            if isinstance(value, ast.Call):  # OrderedDict([...])
                value = value.args[0]
            return ast.literal_eval(value)  # type: ignore[arg-type]
    raise LmmsEgoplanError(
        f"{module} has no {variable}; install a version of the package that this one supports"
    )


@cache
def parsed_source(module: str) -> ast.Module:
    """Return the syntax tree of an installed module.

    Raises:
        LmmsEgoplanError: The package of the module is not installed.
    """
    with _PARSING:
        return ast.parse(_source(module))


def _source(module: str) -> str:
    """Return the text of a module's source file."""
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LmmsEgoplanError(f"{package.replace('_', '-')} is not installed")
    path = Path(spec.origin).parent.joinpath(*parts)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8")
