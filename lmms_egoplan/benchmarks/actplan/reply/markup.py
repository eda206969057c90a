"""Replace markup and JSON in a plan by lines with its steps (rules 7 and 8 of `parsed_steps`)."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from html import unescape
from typing import Any

from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text

_KEYS = module_yaml(__file__)

_PLAN_KEYS: list[str] = _KEYS["plan"]
_ACTION_KEYS: list[str] = _KEYS["action"]
_CALL_KEYS: list[str] = _KEYS["call"]
_OBJECT_KEYS: list[str] = _KEYS["object"]
_ASIDE_KEYS: list[str] = _KEYS["aside"]
_NO_OBJECTS: list[str] = _KEYS["nothing"]
_EMPHASIS_TAGS: list[str] = _KEYS["emphasis"]
# Keys that are not verbs, even as the only key of an object.
_NO_VERBS = {*_PLAN_KEYS, *_OBJECT_KEYS, *_ASIDE_KEYS}

# Lengths in words.
_LONGEST_OBJECT = 5
_LONGEST_ACTION = 3


# Tokens of chat templates.
_TOKEN = re.compile(
    r"""
    <\|[^<>|\n]{1,40}\|?>       # <|im_end|> or <|im_end>
    | <[^<>|\n]{1,40}\|>        # <im_end|>
    """,
    re.VERBOSE,
)
_CHARACTER_REFERENCE = re.compile(
    r"""
    & (?:amp;)*                 # "&" may be a reference itself
    (
        (?:
            \#\d{1,7}           # &#40;
            | \#x[0-9a-f]{1,6}  # &#x28;
            | [a-z][a-z0-9]{1,31}   # &lpar;
        )
        ;
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKDOWN_ESCAPE = re.compile(r"(?<!\\)\\+([_()\[\]*#.&<>-])")
_TAG = re.compile(
    r"""
    < (?P<end>/?)
    (?P<name>[a-z][\w:-]{0,40})
    (?P<attributes>
        (?: \s+[\w:-]+ \s*=\s* (?: "[^"<>\n]*" | '[^'<>\n]*' ) )*
    )
    \s* /? >
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Two or more elements side by side.
_FIELDS = re.compile(r"(?:<(\w+)>[^<>]*</\1>\s*){2,}")


def without_markup(text: str) -> str:
    """Resolve character references and Markdown's escapes, and remove tags.

    Tokens of chat templates become line breaks. A tag becomes a line break, and also begins a list
    item if its name means a step; emphasis becomes asterisks. A tag without attributes that is
    never closed is kept, because it may name an object.
    """
    text = _CHARACTER_REFERENCE.sub(lambda reference: unescape(f"&{reference[1]}"), text)
    text = _MARKDOWN_ESCAPE.sub(r"\1", text)
    closed = {tag["name"].casefold() for tag in _TAG.finditer(text) if tag["end"]}
    closed.add("br")
    text = _TOKEN.sub("\n", text)
    text = _FIELDS.sub(_as_item, text)
    return _TAG.sub(lambda tag: _line_break(tag, closed), text)


# JSON at the beginning of a line.
JSON_START = re.compile(
    r"""
    ^[ \t]*
    (?P<value>[\[{]) \s*
    (?: [\[{]\s* ){0,2}
    "
    """,
    re.VERBOSE | re.MULTILINE,
)
# An innermost object of broken JSON.
_INNERMOST_OBJECT = re.compile(r"\{[^{},]{1,1000},[^{}]{1,1000}\}")


def json_as_lines(text: str) -> str:
    """Replace JSON by its steps, one per line.

    If the JSON is invalid, each of its innermost objects is replaced.
    """
    parts: list[str] = []
    position = 0
    opening = JSON_START.search(text)
    while opening is not None:
        start = opening.start("value")
        try:
            # Parsing a long integer as int would take quadratic time.
            value, end = json.JSONDecoder(parse_int=float).raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        parts.append(text[position:start])
        lists = _lists_of_steps(value)
        if lists:
            steps = clean_text("\n\n".join(map("\n".join, lists)))
            parts.append(f"\n\n{steps}\n\n")
        else:
            parts.append(text[start:end])
        position = end
        opening = JSON_START.search(text, position)
    parts.append(text[position:])
    return _INNERMOST_OBJECT.sub(_as_line, "".join(parts))


def _line_break(tag: re.Match[str], closed: set[str]) -> str:
    """Return the text that takes a tag's place.

    Args:
        closed: Names of the tags that are closed anywhere.
    """
    name = tag["name"].casefold()
    if name in _EMPHASIS_TAGS:
        return "**"
    if not tag["attributes"] and name not in closed:
        return tag[0]
    if name.startswith(("step", "action", "item", "li")) and not tag["end"]:
        return "\n- "
    return "\n"


_NUMBERED_KEY = re.compile(r"(?:step|action)?[\s_-]*\d+", re.IGNORECASE)
_ACTION = re.compile(r"[^\W\d][\w-]*")


def _lists_of_steps(value: Any) -> Sequence[list[str]]:
    """Return the lists of steps in a JSON value, including those of inner objects.

    If any list has a plan's key, only such lists are returned. An object whose keys are all numbers
    is read as a list.
    """
    plans: list[list[str]] = []
    other_lists: list[list[str]] = []
    is_single_step = isinstance(value, dict) and bool(value.keys() & _CALL_KEYS)
    # Grows while it is read.
    members: list[tuple[str, Any]] = [("", [value] if is_single_step else value)]
    for key, member in members:
        is_plan = key.casefold() in _PLAN_KEYS
        if isinstance(member, dict) and not all(map(_NUMBERED_KEY.fullmatch, member)):
            members += member.items()
        elif isinstance(member, str) and is_plan:
            members.append((key, [member]))
        elif isinstance(member, dict | list):
            items = list(member.values()) if isinstance(member, dict) else member
            steps = [_step(item) for item in items]
            texts = [step for step in steps if step is not None]
            if len(texts) == len(items):
                if is_plan:
                    plans.append(texts)
                else:
                    other_lists.append(texts)
            for item, step in zip(items, steps, strict=True):
                if step is None and isinstance(item, dict | list):
                    members.append((key, item))
    return plans or other_lists


def _step(item: Any) -> str | None:
    """Return a step of JSON; None for other values.

    A step is a text, an object, or a list of an action and its objects.
    """
    if isinstance(item, str):
        return item
    if isinstance(item, list) and len(item) > 1 and isinstance(item[0], str):
        if _ACTION.fullmatch(item[0]) is None:
            return None
        return _step_of_object({"action": item[0], "objects": item[1:]})
    if isinstance(item, dict):
        return _step_of_object(item)
    return None


def _step_of_object(item: dict[str, Any]) -> str | None:
    """Return the step that an object describes; None without an action or with a plan inside."""
    members = {key.casefold(): member for key, member in item.items()}
    key = _action_key(members)
    if key is None and len(members) == 1:
        # The only key may be the action, as in {"grab": "cup"}.
        (verb,) = members
        is_number = _NUMBERED_KEY.fullmatch(verb) is not None
        if _ACTION.fullmatch(verb) and verb not in _NO_VERBS and not is_number:
            return _step([verb, *_texts(members[verb])])
    if key is None or members.keys() & _PLAN_KEYS:
        return None
    action = members.pop(key)
    if "(" in action or len(action.split()) > _LONGEST_ACTION:
        return action
    objects: list[str] = []
    for name, member in members.items():
        if name not in _ASIDE_KEYS:
            objects += [text for text in _texts(member) if _is_object(text, action)]
    return f"{action}({', '.join(objects)})" if objects else action


def _action_key(members: dict[str, Any]) -> str | None:
    """Return the key of an object's action; None without one.

    The key ``name`` may be the name of a thing. It is the action only next to a key of objects.
    """
    keys = list(_ACTION_KEYS)
    if members.keys() & _OBJECT_KEYS:
        keys.append("name")
    return next((key for key in keys if isinstance(members.get(key), str)), None)


def _is_object(text: str, action: str) -> bool:
    """Return True if a member of an object names an object that its action does not contain."""
    if text.strip().casefold() in _NO_OBJECTS:
        return False
    return len(text.split()) <= _LONGEST_OBJECT and f" {text} " not in f" {action} "


def _texts(member: Any) -> list[str]:
    """Return the texts of a JSON value: itself, or the members of a list or object."""
    if isinstance(member, dict):
        members = list(member.values())
    elif isinstance(member, list):
        members = member
    else:
        members = [member]
    return [text for text in members if isinstance(text, str)]


def _as_item(fields: re.Match[str]) -> str:
    """Convert elements such as ``<action>grab</action><object>cup</object>`` to a call.

    Elements are unchanged if two share a name.
    """
    pairs = re.findall(r"<(\w+)>([^<>]*)</", fields[0])
    members = dict(pairs)
    if len(members) < len(pairs):
        return fields[0]
    step = _step(members)
    if step is None or "(" not in step:
        return fields[0]
    return f"\n- {step}\n"


def _as_line(value: re.Match[str]) -> str:
    """Convert an object to a line with its step; an object that is not a step is unchanged."""
    for text in (value[0], value[0].replace("'", '"')):
        with suppress(ValueError, RecursionError):
            step = _step(json.loads(text, parse_int=float))
            if step is not None:
                return f"\n{step}\n"
    return value[0]


# The line that announces the plan, as a heading or with a colon.
_FINAL = re.compile(
    r"""
    ^[ \t]*
    (?:
        \#[#*_`\ \t]* final[ ](?:plan|answer) [:\uff1a*_`\ \t]*
        |
        [*_`]* final[ ](?:plan|answer) [*_`]*[:\uff1a][*_`\ ]*
    )
    $
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


def final_plan(text: str) -> str:
    """Return the text after the last line that announces the final plan, or all of it."""
    position = 0
    for title in _FINAL.finditer(text):
        position = title.end()
    return text[position:]
