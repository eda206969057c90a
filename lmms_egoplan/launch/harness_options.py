"""Check the options for the harness, which follow ``--``, without importing it."""

import argparse
import ast
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, NoReturn

from lmms_egoplan.harnesses.source_literals import parsed_source

# Modules with the options of each harness.
_MODULES = {"lmms-eval": "lmms_eval.__main__", "lm-eval": "lm_eval._cli.run"}
# Types that are checked. Those that a harness defines itself are not.
_TYPES = {"int": int, "float": float}
_FLAGS = ("store_true", "store_false")
# What to use instead of an option that the run sets itself.
_SET_BY_RUN = {
    "--model": "use MODEL and --backend",
    "--model_args": "use --model-args",
    "--tasks": "use --benchmarks",
    "--limit": "use --limit, before --",
    "--output_path": "use --out",
    "--use_cache": "use --out",
    "--log_samples": "remove it",
}


class _UnreadableError(Exception):
    """The parser cannot read the options. The message is argparse's."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise _UnreadableError(message)


class _Note(argparse.Action):
    """Note each option that is given, under its first name."""

    def __call__(self, _: Any, namespace: argparse.Namespace, *_values: Any) -> None:
        """Add the option to ``namespace.given_names``."""
        namespace.given_names.append(self.option_strings[0])


def option_names(harness: str) -> list[str]:
    """Return the names of a harness's options, also the short ones."""
    names = []
    for call in _declarations(harness):
        names += _names(call)
    return names


def option_problems(harness: str, words: Sequence[str], *, has_limit: bool) -> Iterator[str]:
    """Yield a line for each option that the harness does not have, or not with this value.

    Args:
        harness: ``lmms-eval`` or ``lm-eval``.
        words: The options with their values.
        has_limit: Whether the run's own ``--limit`` is given.
    """
    parser, repeatable = _parser(harness)
    namespace = argparse.Namespace(given_names=[])
    try:
        _, unknown = parser.parse_known_args(words, namespace)
    except _UnreadableError as error:
        yield f"{harness}: {error}"
        return
    yield from _unknown(harness, unknown)
    given_names: list[str] = namespace.given_names
    for name in dict.fromkeys(given_names):
        if name == "--limit" and has_limit:
            yield "--limit: given before and after --; remove the second one"
        elif name in _SET_BY_RUN:
            yield f"{harness} {name}: the run sets this; {_SET_BY_RUN[name]}"
        elif given_names.count(name) > 1 and name not in repeatable:
            yield f"{harness} {name}: given twice; keep one"


def _unknown(harness: str, words: Iterable[str]) -> Iterator[str]:
    """Yield a line for each unknown option, and for each word that belongs to none."""
    known = option_names(harness)
    in_option = False
    for word in words:
        if word.startswith("-"):
            in_option = True
            name = word.partition("=")[0]
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"{harness} --help lists them"
            yield f"{name}: {harness} has no such option; {hint}"
        elif not in_option:  # the words after an unknown option are its values
            yield f"{word}: belongs to no option of {harness}; remove it"


@cache
def _parser(harness: str) -> tuple[_Parser, frozenset[str]]:
    """Return a parser with the names, types and choices of a harness's options.

    Also return the first names of those whose values add up.
    """
    parser = _Parser(prog=harness, add_help=False, conflict_handler="resolve")
    repeatable = set()
    for call in _declarations(harness):
        names = _names(call)
        literals = _literals(call)
        settings: dict[str, Any] = {}
        for name in ("nargs", "choices", "const"):
            if name in literals:
                settings[name] = literals[name]
        declared_type = _keyword(call, "type")
        if isinstance(declared_type, ast.Name) and declared_type.id in _TYPES:
            settings["type"] = _TYPES[declared_type.id]
        if literals.get("action") in _FLAGS:
            settings["nargs"] = 0
        elif _keyword(call, "action") is not None:
            repeatable.add(names[0])
        parser.add_argument(*names, action=_Note, **settings)
    return parser, frozenset(repeatable)


def _declarations(harness: str) -> list[ast.Call]:
    """Return the calls that declare the options of a harness."""
    calls = []
    for node in ast.walk(parsed_source(_MODULES[harness])):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "add_argument" and _names(node):
            calls.append(node)
    return calls


def _names(call: ast.Call) -> list[str]:
    """Return the names of a declared option; [] for a positional argument."""
    names = []
    for argument in call.args:
        value = argument.value if isinstance(argument, ast.Constant) else None
        if isinstance(value, str) and value.startswith("-"):
            names.append(value)
    return names


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return None


def _literals(call: ast.Call) -> dict[str, Any]:
    """Return the arguments of a call that are literals."""
    literals = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        try:
            literals[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            continue
    return literals
