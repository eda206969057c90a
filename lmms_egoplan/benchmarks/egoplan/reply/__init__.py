r"""Read the one letter that a written answer claims.

    read letter = marked (``\boxed{B}``, JSON), or stated ("the answer is B"), or the first or last
    line ("B. text")

EgoPlan-Bench ranks choices instead (sec. 3.5), and EgoPlan-Bench2's eval.py reads `first_letter`.
`parse_letter` is this project's: it reads no letter that the answer does not clearly claim.
"""

import re
import unicodedata
from collections.abc import Sequence

from lmms_egoplan.benchmarks.egoplan.reply.claims import (
    LOOK_BACK,
    ChoiceTexts,
    choice_texts,
    letter_of,
    lines_of,
    marked_letter,
    mentioned_letters,
    plain_text,
)
from lmms_egoplan.benchmarks.egoplan.reply.marks import mark_answers, objects_as_lines
from lmms_egoplan.benchmarks.egoplan.reply.statements import (
    DENIED,
    RETRACTION,
    is_denial,
)
from lmms_egoplan.judging.text import without_reasons, without_thinking

_PAIR = re.compile(r"<(?P<name>[a-zA-Z]\w{0,30})>(?P<text>[^<>]{1,200})</(?P=name)>")
# Fences of code, and invisible characters.
_UNSEEN = re.compile("^[ \\t]*```[\\w-]*[ \\t]*$|[\u200b-\u200f\u2060\ufe0f\ufeff]", re.MULTILINE)
# The beginning of any tag that may begin a thought.
_BEFORE_TAG = re.compile(r"(?=[<\[◁])")
_SENTENCE_END = re.compile(r"(?<=[.!?;)])\s+|\n")

# Texts that EgoPlan-Bench2's eval.py (commit 2523b38) removes, in its order. Two of them are pairs
# that its source joins by a missing comma, so "Best answer: C" is read as B.
OPENINGS = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option isThe correct option is",
    "Best answer:Best option:",
    "Answer:",
    "Option:",
    "The correct answer",
    "The correct option",
)

# Marks around an answer. They may contain one level of braces.
_BRACED = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_BOXED = re.compile(rf"\\boxed\s*{_BRACED}")
_MARKED_ANSWER = re.compile(rf"\\answer\s*{_BRACED}")

# The name of a part at the start of a line, in replies to `REASONED`: numbered, emphasised or with
# a few words around it.
_PART = re.compile(
    r"""
    ^[^\w\n]*
    (?: (?:part\ |step\ )? \d{1,2} [^\w\n]{1,4} )?      # "Part 1: "
    (?:the\ )?
    (?:
        (?P<progress>(?:summary\ of\ (?:the\ )?)?task\ progress(?:\ summary)?)
        | (?P<observation>
            (?:description\ of\ (?:the\ )?)?current\ observation(?:\ description)?
          )
        | (?P<plan>next\ action(?:\ plan)?(?:\ to\ take)?)
    )
    (?:[ \t]*\([^)\n]*\))?                              # "(what has been done)"
    [ \t*_`]*
    (?: [:\uff1a] [ \t*_`]* | \n | \Z )
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)


def parse_letter(reply: str, choices: Sequence[str] = ()) -> str | None:
    r"""Read the one letter that a reply claims; None if it claims none or several.

    Thoughts are removed first; an unfinished thought makes the reply unreadable. If the reply has
    ``\boxed{B}`` or GLM's box, or otherwise a tag or a member of a JSON object that is named after
    an answer, only these marks are read. They must agree with each other, and with any claim in the
    text around them. An object must not take its answer back by a false member, another letter or
    choice, or an answer in an inner object.

    Otherwise, a claim is one of these:

    * The last line states the answer: ``The answer is B.``, ``The best choice is therefore B.
      text``. Earlier lines may contain other letters.
    * The first line states the answer, or it is the letter, marked as an option or followed by its
      choice's text: ``B``, ``B.``, ``(B)``, ``B) text``, ``Option B``. No other letter is a
      separate word anywhere, as in ``A or B`` or ``A cat``.
    * A line in between states the answer, and no other letter is a separate word anywhere.
    * The last line is the letter with its choice's text, and no other line begins with a letter.
    * The first or the last sentence is a statement in any language that `stated_letter` knows, such
      as the text of a choice alone.

    If claims differ, a letter is followed by another choice's text, or words such as "wait, no" or
    a sentence such as "Incorrect." follow, no letter is read. Nor is one in a tag or command that
    may cross it out.

    Args:
        choices: Texts of the choices, in the letters' order.

    >>> choices = ["cut it", "open it"]
    >>> parse_letter("The drawer is closed.\nThe best choice is therefore **B. open it**.", choices)
    'B'
    >>> parse_letter("B open it", choices), parse_letter("B. cut it", choices)
    ('B', None)
    >>> parse_letter('{"answer": "B"}'), parse_letter("Open it.", choices)
    ('B', 'B')
    >>> parse_letter("정답은 B입니다")
    'B'
    """
    spoken = without_reasons(without_thinking(reply) or "")
    if spoken is None or _has_unfinished_thought(spoken):
        return None
    texts = choice_texts(choices)
    spoken = _without_token_marks(spoken)
    spoken = _UNSEEN.sub("", unicodedata.normalize("NFKC", spoken))
    spoken = mark_answers(spoken, texts)
    letter = _read(spoken, texts)
    if letter is None or _is_retracted(spoken, letter):
        return None
    return letter


def _has_unfinished_thought(spoken: str) -> bool:
    """Return True if a thought begins after other text and does not end."""
    return any(without_thinking(part) is None for part in _BEFORE_TAG.split(spoken))


def _without_token_marks(spoken: str) -> str:
    """Remove unpaired tokens for begin and end. A pair is kept: it crosses the text out."""
    if "<s>" in spoken and "</s>" in spoken:
        return spoken
    return spoken.replace("<s>", " ").replace("</s>", " ")


def parse_reasoned(reply: str, choices: Sequence[str] = ()) -> tuple[str | None, dict[str, str]]:
    r"""Read a reply to `REASONED`: the letter of its last part, and its parts as they are named.

    The letter is read by `parse_letter` from the plan. Without a plan, it is read from the last
    line, so that a reply that ends in the summary or the description claims nothing; without any
    named part, from the whole reply. If a name occurs several times, its last text counts.

    Returns:
        The letter or None, and the texts of ``progress``, ``observation`` and ``plan``, in the
        order of the reply. A part without a name is missing.

    >>> parse_reasoned("**Task progress:** lid off\nCurrent observation: A spoon.\nNext action: B")
    ('B', {'progress': 'lid off', 'observation': 'A spoon.', 'plan': 'B'})
    >>> parse_reasoned("Task progress: lid off\nCurrent observation: A")
    (None, {'progress': 'lid off', 'observation': 'A'})
    """
    spoken = objects_as_lines(without_thinking(reply) or "")
    parts = _named_parts(spoken)
    if not parts:
        return parse_letter(reply, choices), parts
    last_line = spoken.strip().rpartition("\n")[2]
    return parse_letter(parts.get("plan") or last_line, choices), parts


def _named_parts(spoken: str) -> dict[str, str]:
    """Return the text after each part's name, up to the next name."""
    names = list(_PART.finditer(spoken))
    ends = [name.start() for name in names[1:]]
    ends.append(len(spoken))
    parts = {}
    for name, end in zip(names, ends, strict=False):
        parts[str(name.lastgroup)] = spoken[name.end() : end].strip(" \t\n*_`")
    return parts


def first_letter(reply: str, openings: Sequence[str] = OPENINGS) -> str | None:
    """Read the first capital A to D anywhere, as EgoPlan-Bench2's eval.py does.

    The function there is extract_characters_regex.

    Args:
        openings: Texts that are removed first, in this order.

    >>> first_letter("The answer is B."), first_letter("Answer: B")
    ('B', 'B')
    >>> first_letter("Add it, so B"), first_letter("none")
    ('A', None)
    """
    for opening in openings:
        reply = reply.replace(opening, "")
    letter = re.search("[ABCD]", reply)
    return letter and letter[0]


def _read(spoken: str, texts: ChoiceTexts) -> str | None:
    for mark in (_BOXED, _MARKED_ANSWER):
        answers = mark.findall(spoken)
        if answers:
            return _agreed_letter(answers, mark.sub(" ", spoken), texts)
    return letter_of(plain_text(spoken), texts)


def _agreed_letter(answers: Sequence[str], around: str, texts: ChoiceTexts) -> str | None:
    """Return the letter of the marks if they agree, with each other and with the text around them.

    Args:
        answers: The texts of the marks, at least one.
        around: The reply without the marks.
    """
    letters = {marked_letter(answer, texts) for answer in answers}
    claims = {marked_letter(pair["text"], texts) for pair in _PAIR.finditer(around)}
    claims.add(_read(around, texts))
    claims.discard(None)
    letters |= claims
    letters |= mentioned_letters(lines_of(plain_text(around)))
    return letters.pop() if len(letters) == 1 else None


def _is_retracted(spoken: str, letter: str) -> bool:
    """Return True if the reply takes the letter back.

    Its last mention is denied, or "wait, no" or a sentence such as "Incorrect." follows.
    """
    *before, after = re.split(rf"(?<!\w){letter}(?!\w)", spoken)
    if before and DENIED.search(plain_text(before[-1])[-LOOK_BACK:]):
        return True
    after = plain_text(after)
    if RETRACTION.search(after):
        return True
    _, *sentences = _SENTENCE_END.split(after)
    return any(is_denial(sentence) for sentence in sentences)
