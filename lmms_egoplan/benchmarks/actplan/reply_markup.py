"""Read a reply's markup and JSON as plain lines: tags, character references, escapes, and steps that are objects."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from html import unescape
from typing import Any

from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.text import clean_text

_KEYS: dict[str, list[str]] = yaml_beside(__file__)
_LONGEST_OBJECT, _LONGEST_ACTION = 5, 3  # words

JSON = re.compile(r'^[ \t]*(?P<value>[\[{])\s*(?:[\[{]\s*){0,2}"', re.MULTILINE)
_OBJECT = re.compile(r"\{[^{},]{1,1000},[^{}]{1,1000}\}")
_NUMBERED = re.compile(r"(?:step|action)?[\s_-]*\d+", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d][\w-]*")
# The only key of an object, if it names no part of a step.
_NO_VERB = "|".join((*_KEYS["plan"], *_KEYS["object"], *_KEYS["aside"], _NUMBERED.pattern))
_VERB = re.compile(rf"(?!(?:{_NO_VERB})\Z){_NAME.pattern}")

_TOKEN = re.compile(r"<\|[^<>|\n]{1,40}\|?>|<[^<>|\n]{1,40}\|>")
_REFERENCE = re.compile(r"&(?:amp;)*((?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});)", re.IGNORECASE)
_ESCAPED = re.compile(r"(?<!\\)\\+([_()\[\]*#.&<>-])")
_ATTRIBUTES = r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'))*"""
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>[a-z][\w:-]{{0,40}})(?P<attributes>{_ATTRIBUTES})\s*/?>", re.IGNORECASE)
_FIELDS = re.compile(r"(?:<(\w+)>[^<>]*</\1>\s*){2,}")


def without_markup(text: str) -> str:
    """Resolve character references and Markdown's escapes, and remove tags and tokens of chat templates.

    A tag becomes a line break, and begins an item if it is named after a step; emphasis becomes asterisks. A tag
    stays if it has no attributes and is never closed: it may name an object.
    """
    plain = _ESCAPED.sub(r"\1", _REFERENCE.sub(lambda reference: unescape(f"&{reference[1]}"), text))
    closed = {"br"} | {tag["name"].casefold() for tag in _TAG.finditer(plain) if tag["end"]}
    return _TAG.sub(lambda tag: _line_break(tag, closed), _FIELDS.sub(_as_item, _TOKEN.sub("\n", plain)))


def json_as_lines(text: str) -> str:
    """Replace JSON by its steps, one per line; if the JSON is broken, replace each of its innermost objects."""
    parts: list[str] = []
    position = 0
    while opening := JSON.search(text, position):
        start = opening.start("value")
        try:
            # A long integer would take quadratic time.
            value, end = json.JSONDecoder(parse_int=float).raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        lists = _lists_of_steps(value)
        strings = clean_text("\n\n".join(map("\n".join, lists)))
        parts += [text[position:start], f"\n\n{strings}\n\n" if lists else text[start:end]]
        position = end
    return _OBJECT.sub(_as_line, "".join([*parts, text[position:]]))


def _line_break(tag: re.Match[str], closed: set[str]) -> str:
    name = tag["name"].casefold()
    if name in _KEYS["emphasis"]:
        return "**"
    if not tag["attributes"] and name not in closed:
        return tag[0]
    return "\n- " if name.startswith(("step", "action", "item", "li")) and not tag["end"] else "\n"


def _lists_of_steps(value: Any) -> Sequence[list[str]]:
    """Its lists of steps, with those of the objects in it; those under a plan's key only, if there are any."""
    lists: list[tuple[bool, list[str]]] = []
    is_step = isinstance(value, dict) and value.keys() & _KEYS["call"]
    members: list[tuple[str, Any]] = [("", [value] if is_step else value)]
    for key, member in members:
        if isinstance(member, dict) and not all(map(_NUMBERED.fullmatch, member)):
            members += member.items()
        elif isinstance(member, str) and key.casefold() in _KEYS["plan"]:
            members.append((key, [member]))
        elif isinstance(member, dict | list):
            items = [*member.values()] if isinstance(member, dict) else member
            steps = [step for item in items if (step := _step(item)) is not None]
            if len(steps) == len(items):
                lists.append((key.casefold() in _KEYS["plan"], steps))
            members += [(key, item) for item in items if isinstance(item, dict | list) and _step(item) is None]
    return [steps for is_plan, steps in lists if is_plan] or [steps for _, steps in lists]


def _step(item: Any) -> str | None:
    """A step that is a text, an object, or a list of an action and its objects; None of anything else."""
    if isinstance(item, list) and len(item) > 1 and isinstance(item[0], str) and _NAME.fullmatch(item[0]):
        item = {"action": item[0], "objects": item[1:]}
    if not isinstance(item, dict):
        return item if isinstance(item, str) else None
    members = {key.casefold(): member for key, member in item.items()}
    names = [*_KEYS["action"], *(["name"] if members.keys() & _KEYS["object"] else [])]
    key = next((name for name in names if isinstance(members.get(name), str)), None)
    if key is None and len(members) == 1 and _VERB.fullmatch(verb := next(iter(members))):
        return _step([verb, *_texts(members[verb])])
    if key is None or members.keys() & _KEYS["plan"]:
        return None
    action = members.pop(key)
    texts = [text for name, member in members.items() if name not in _KEYS["aside"] for text in _texts(member)]
    texts = [text for text in texts if text.strip().casefold() not in _KEYS["nothing"]]
    objects = [text for text in texts if len(text.split()) <= _LONGEST_OBJECT and f" {text} " not in f" {action} "]
    is_call = objects and "(" not in action and len(action.split()) <= _LONGEST_ACTION
    return f"{action}({', '.join(objects)})" if is_call else action


def _texts(member: Any) -> list[str]:
    if isinstance(member, dict):
        member = [*member.values()]
    return [text for text in (member if isinstance(member, list) else [member]) if isinstance(text, str)]


def _as_item(fields: re.Match[str]) -> str:
    """Elements such as ``<action>grab</action><object>cup</object>`` as a call; those of one name stay."""
    pairs = re.findall(r"<(\w+)>([^<>]*)</", fields[0])
    step = _step(dict(pairs)) if len(dict(pairs)) == len(pairs) else None
    return f"\n- {step}\n" if step and "(" in step else fields[0]


def _as_line(value: re.Match[str]) -> str:
    for text in (value[0], value[0].replace("'", '"')):
        with suppress(ValueError, RecursionError):
            if (step := _step(json.loads(text, parse_int=float))) is not None:
                return f"\n{step}\n"
    return value[0]
