"""Read a plan from a model's reply.

There are two readings: the reference's split into lines (`official_steps`, sec. 4.2.1), and the
steps without the text around them (`parsed_steps`, App. F). The rules of `parsed_steps` are this
project's. Each of these modules implements some of them: `markup` 7 and 8, `calls` 1, `lines` 2
to 6.
"""

import re

from lmms_egoplan.benchmarks.actplan.reply.calls import find_calls
from lmms_egoplan.benchmarks.actplan.reply.lines import (
    read_lines,
    steps_with_calls,
    steps_without_calls,
)
from lmms_egoplan.benchmarks.actplan.reply.markup import final_plan, json_as_lines, without_markup
from lmms_egoplan.judging.text import without_thinking
from lmms_egoplan.text import clean_text

_WORD = re.compile(r"\w+")


def plan_text(reply: str) -> str:
    """Return the plan in a model's reply, without its thinking.

    The plan is "" if the reply ends inside a thought.

    >>> plan_text("<think>First walk_to(bed).</think>grab(cup)"), plan_text("[THINK]walk_to(bed)")
    ('grab(cup)', '')
    """
    return without_thinking(clean_text(reply)) or ""


def official_steps(text: str) -> list[str]:
    r"""Split a plan into lines, as the reference implementation splits a plan file (sec. 4.2.1).

    ``\r\n`` and ``\r`` are line breaks too. Lines are unchanged, and blank lines count. White space
    around the whole text is dropped, so the break after the last line adds no step. The reference
    counts an additional empty step there.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return text.split("\n") if text else []


def one_per_line(text: str) -> str:
    """Put each step of a plan on a separate line if blanks separate the steps.

    Plans in ``finetuning_data.jsonl`` are of this form. Each call ``name(...)`` becomes a line (see
    `parsed_steps`). Words before the name do not belong to the call here, because blanks separate
    steps. Text before, between and after calls becomes a line too; punctuation alone stays with the
    preceding call. A text of several lines is only stripped.
    """
    text = text.strip()
    if len(text.splitlines()) != 1:
        return text
    lines: list[str] = []
    position = 0
    for start, end in [*find_calls(text), (len(text), len(text))]:
        between = text[position:start].strip()
        if lines and between and not _WORD.search(between):
            lines[-1] += between
        elif between:
            lines.append(between)
        if end > start:
            lines.append(text[start:end])
        position = end
    return "\n".join(lines)


def parsed_steps(text: str) -> list[str]:
    r"""Find the steps in a model's answer, without surrounding text.

    The text of a step is unchanged.

    1. **Calls.** A call is ``name(...)`` with no blank before the parenthesis. It ends at the
       matching parenthesis and includes nested calls. If no parenthesis on the line matches, it
       ends at the next call or at the end of the line. ``cookie(s)`` is not a call.
    2. **Words of a call.** One to three plain words directly before a name belong to the call, as
       in ``Walk to(table)``. This does not apply if one of them is a word that begins sentences or
       titles (rules 3 and 4), or a linking word such as ``then`` (lines.yaml). Linking words before
       them are dropped.
    3. **Lines with calls.** The calls are the steps. The text around them is dropped, and so are
       calls after ``#`` or ``//``. The line has no steps in these cases, which concern the text
       before its first call:

       - It does not end with ``:`` and has more than 40 words.
       - It does not end with ``:``, has no number or bullet, begins with a word that begins
         sentences but not steps (``I``, ``the``, ``this`` and so on: lines.yaml), and words follow
         the last call.
       - It begins with a title's word (lines.yaml), unless it is a label: ``Plan:``, ``Step 1``,
         ``Action``.
    4. **Lines without calls.** The line is a step of words, such as ``Wait until tea is ready``.
       These are dropped: leading numbers (``1.``, ``(1)``, ``1)``, ``1.1``, ``II.``, ``Step 1:``, a
       number that is one character), bullets, boxes and LaTeX's ``\item``; and emphasis, backticks
       and quotation marks around the whole line. Items with consecutive numbers on one line are
       separate lines. In a table row, the longest cell is the line; the header is not a line. The
       line is not a step in these cases:

       - It has more than 40 words, or ends with ``:`` or ``?``.
       - It begins with a title's word, or with a word that begins sentences.
       - It is a heading, or bold without number or bullet.
       - It closes the plan and names no action: ``Done.``, ``Task completed.``, ``Enjoy your
         meal!``
       - It is a comment, a code fence, a JSON key with its value, or the beginning or end of a
         LaTeX list.
       - It has no letter.
    5. **Calls and words together.** Between the first and the last line with calls, steps of words
       count too. Directly before and after these lines, they count up to the first line that is no
       such step, for example a blank line. A step of words must have the same indent as some line
       with calls; otherwise, it is a title or a remark.
    6. **No calls at all.** The list items count; without list items, the numbered headings;
       otherwise all steps of words, even a single line. A refusal or a paragraph of prose has no
       steps (rule 4). If this is one step, or if the text is a single line with more than 40 words
       or with a label such as ``Plan:``, its sentences are the steps, and arrows and semicolons
       separate steps too. The first sentence must be a step by rule 4, and the others are dropped
       if they are not.
    7. **JSON.** JSON that begins a line is read before rules 1 to 6. The members of a list are
       lines, and so are the members of lists in an object and its nested objects. If any of these
       lists has the key ``plan``, ``steps``, ``actions`` or ``procedure``, only such lists count.
       An object such as ``{"action": "grab", "object": "cup"}`` is the line ``grab(cup)``.
    8. **Markup and final plans.** Before rule 7, markup is resolved (`without_markup`):
       ``walk\_to``, ``&#40;`` and ``<step id="1">walk_to(x)</step>`` are read as ``walk_to``, ``(``
       and ``walk_to(x)``. Then everything before a line ``Final plan:`` or ``Final answer:`` is
       dropped.

    For every text without markup, the steps are substrings of the text (or of the strings in its
    JSON), in order. No step is empty, has surrounding white space, or contains a line break.
    Parsing ``"\n".join(steps)`` returns the same steps.

    Args:
        text: A model's answer without its thinking (`plan_text`), of any content; time is linear in
            its length.
    """
    text = json_as_lines(final_plan("\n".join(without_markup(text).splitlines())))
    lines = read_lines(text)
    if any(line.calls for line in lines):
        return steps_with_calls(lines)
    return steps_without_calls(lines, text)
