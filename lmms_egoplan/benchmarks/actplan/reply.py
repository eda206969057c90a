"""A plan as text and as steps: the reference's split, the steps found in what a model writes, and their form."""

import re
from collections.abc import Sequence

from lmms_egoplan.benchmarks.actplan.reply_lines import ascii_form, find_calls, read_lines
from lmms_egoplan.judging.reply import without_thinking
from lmms_egoplan.text import clean_text


def plan_text(reply: str) -> str:
    """Return the plan in a model's reply, without its thinking; "" if the reply ends inside a thought.

    >>> plan_text("<think>First walk_to(bed).</think>grab(cup)"), plan_text("[THINK]walk_to(bed)")
    ('grab(cup)', '')
    """
    return without_thinking(clean_text(reply)) or ""


def official_steps(text: str) -> list[str]:
    r"""Split a plan into lines, as the reference implementation splits a plan file (sec. 4.2.1).

    ``\r\n`` and ``\r`` are line breaks too. Lines are kept as they are, blank ones among them. White space around the
    whole text is dropped, so that the last line's break gives no step; the reference counts one more, empty step there.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return text.split("\n") if text else []


def one_per_line(text: str) -> str:
    """Put each step of a plan on its own line if blanks separate them, as in ``finetuning_data.jsonl``.

    A line for each call ``name(...)`` (see `parsed_steps`; words before the name do not belong to it here, where blanks
    separate steps), and one for what stands before, between and after calls; if that is punctuation alone, it stays
    with the call before it. A text of several lines stays as it is, without the white space around it.
    """
    text = text.strip()
    if len(text.splitlines()) != 1:
        return text
    lines: list[str] = []
    position = 0
    for start, end in [*find_calls(text), (len(text), len(text))]:
        between = text[position:start].strip()
        if lines and between and not re.search(r"\w", between):
            lines[-1] += between
        elif between:
            lines.append(between)
        if end > start:
            lines.append(text[start:end])
        position = end
    return "\n".join(lines)


def parsed_steps(text: str) -> list[str]:
    r"""Find the steps of a plan as a model writes it, without what it wraps them in; their text is unchanged.

    1. A call is ``name(...)`` with no blank before the parenthesis, up to the one that closes it, calls inside it
       included. If none on its line does, it goes to the next call or to the line's end. ``cookie(s)`` is no call.
    2. One to three plain words directly before a name belong to its call, as in ``Walk to(table)``, unless one of them
       begins sentences or titles (rules 3 and 4) or is a linking word, such as ``then`` (`reply_lines.LINKS`); linking
       words before them are dropped.
    3. A line with calls gives these as steps. What stands around them is dropped, calls behind ``#`` or ``//`` too. It
       gives none if the text before its first call does not end with ``:`` and has more than 40 words, or begins with a
       word that sentences begin with, and steps do not (``I``, ``the``, ``this``, ``here`` and so on:
       `reply_lines.PROSE`), has no number or bullet, and words follow its last call. Nor does it if that text begins
       with a title's word (`reply_lines.TITLES`), unless this is a label: ``Plan:``, ``Step 1``, ``Action``.
    4. A line without is a step of words, such as ``Wait until tea is ready``. Dropped are numbers (``1.``, ``(1)``,
       ``1)``, ``1.1``, ``II.``, ``Step 1:``, a number that is one sign), bullets, boxes and LaTeX's ``\item`` before
       it, and emphasis, backticks and quotation marks around all of it. Items that are numbered one after the other on
       one line are lines of their own. Of a table's row, the longest cell is the line; its header is none. It is no
       step if it has more than 40 words, ends with ``:`` or ``?``, or begins with a title's word or with one that
       sentences begin with. Nor is it if it is a heading, in bold without number or bullet, a comment, a code fence, a
       key and its value in JSON, LaTeX's beginning or end of a list, or has no letter.
    5. Where there are calls, steps of words count between the first line with calls and the last; before and after, as
       long as no other line is between, not even a blank one. They must be indented as some line with calls is: others
       are titles of calls, or remarks on them.
    6. Where there are no calls, the list items count; where there are none of these either, numbered headings; else all
       steps of words do, if it is one line only too. A refusal or a paragraph of prose has none (rule 4).
    7. JSON that begins a line is read before all this: the members of a list, or of the lists in an object and the
       objects in it, are lines; only those of ``plan``, ``steps``, ``actions`` and ``procedure``, if there are any. An
       object such as ``{"action": "grab", "object": "cup"}`` is the line ``grab(cup)``. Nothing counts before a line
       that is ``Final plan:`` or ``Final answer:``.
    8. Before that, markup is resolved (`reply_markup.without_markup`): ``walk\_to``, ``&#40;`` and
       ``<step id="1">walk_to(x)</step>`` are read as ``walk_to``, ``(`` and ``walk_to(x)``.

    For every text without markup, the steps are pieces of it (of the strings in its JSON) and in its order; none is
    empty, has white space around it, or a line break in it; and ``"\n".join(steps)`` has the same steps again.

    Args:
        text: a model's answer without its thinking (`plan_text`), of any content; time is linear in its length.
    """
    lines = read_lines(text)
    with_calls = [index for index, line in enumerate(lines) if line.calls]
    if not with_calls:
        items = [line.words for line in lines if line.is_item]
        headings = [line.heading for line in lines if line.heading]
        return items or headings or [line.words for line in lines if line.words]
    indents = {lines[index].indent for index in with_calls}
    counts = [bool(line.words) and line.indent in indents for line in lines]
    first, last = with_calls[0], with_calls[-1]
    while first > 0 and counts[first - 1]:
        first -= 1
    while last + 1 < len(lines) and counts[last + 1]:
        last += 1
    steps: list[str] = []
    for line, words_count in zip(lines[first : last + 1], counts[first : last + 1], strict=True):
        steps += [line.words] if words_count else line.calls
    return steps


def is_well_formed(step: str) -> bool:
    """Check whether a step has the form ``action(object[, object ...])`` (secs. 3.1 and 5.6, Table 8).

    The action is one of the eight or another verb: one word of letters, digits, ``_`` and ``-``. There is at least one
    object, none is empty, and none has parentheses in it. Emphasis around the action, and full-width
    parentheses and commas, are no matter. Anything else is an "incorrect form".
    """
    form = re.fullmatch(r"(\*{1,3}|`)?[^\W\d_][\w\\-]*(?(1)\1)\(([^()\n]*)\)", ascii_form(step))
    return form is not None and all(re.search(r"[^\W_]", name) for name in form[2].split(","))


def form_validity(steps: Sequence[str]) -> float:
    """Return the share of steps that are well formed, in [0, 1]; NaN without steps.

    >>> form_validity(["walk_to(table)", "grab the cup"])
    0.5
    """
    return sum(map(is_well_formed, steps)) / len(steps) if steps else float("nan")
