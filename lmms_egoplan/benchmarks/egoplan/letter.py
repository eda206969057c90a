r"""Read the one letter that a written answer claims.

    read letter = marked (``\boxed{B}``, JSON), or stated ("the answer is B"), or the first or last
    line ("B. text")

The patterns for claims expect the lines that `_lines` returns: half-width characters, single
spaces, round brackets, no emphasis.
"""

import ast
import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from lmms_egoplan.benchmarks.egoplan.question import LETTERS
from lmms_egoplan.benchmarks.egoplan.statements import (
    DENIED,
    RETRACTION,
    contradicts,
    is_answer_name,
    is_denial,
    is_denying_name,
    stated_letter,
)
from lmms_egoplan.judging.text import without_reasons, without_thinking

# GLM's box, and tags. All marks around an answer are replaced by LaTeX commands.
_BOXES = {"<|begin_of_box|>": r"\boxed{", "<|end_of_box|>": "}"}
_BOX = re.compile("|".join(re.escape(mark) for mark in _BOXES), re.IGNORECASE)
_TAG = re.compile(r"<(?P<end>/)?(?P<name>[a-z][a-z _-]{2,30})>", re.IGNORECASE)
_PAIR = re.compile(r"<(?P<name>[a-zA-Z]\w{0,30})>(?P<text>[^<>]{1,200})</(?P=name)>")
# Fences of code, and invisible characters.
_UNSEEN = re.compile("^[ \\t]*```[\\w-]*[ \\t]*$|[\u200b-\u200f\u2060\ufe0f\ufeff]", re.MULTILINE)
# The beginning of any tag that may begin a thought.
_BEFORE_TAG = re.compile(r"(?=[<\[◁])")
# Reduce brackets, full stops, quotation marks and dashes to one form each before parsing.
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("[{【「『\u3014", "("),
        **dict.fromkeys("]}】」』\u3015", ")"),
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u2013\u2014", "-"),
        "、": ".",
        "。": ". ",
    }
)
_LOOK_BACK = 300
# Values of members that have nothing to say.
_NOTHING = ("no", "none")
_SENTENCE_END = re.compile(r"(?<=[.!?;)])\s+|\n")
# Objects that are nested deeper are read as text.
_MOST_DEPTH = 20

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
# LaTeX commands that may be inside a mark. Other commands may cross a letter out.
_COMMAND = re.compile(
    r"""
    \\(?:
        boxed | answer
        | text(?:bf|it|rm|sf|tt|sc|sl|up|md|normal)?
        | math(?:bf|it|rm|sf|tt|cal|bb|frak|scr|ord)?
        | bf | bm | boldsymbol | pmb | emph | underline
        | [mhf]box | framebox | operatorname
    )
    \s* \{ ([^{}]*) \}
    """,
    re.VERBOSE,
)
# In a mark, a letter may be in lower case.
_SMALL_LETTER = re.compile(r"\A\W*[a-d](?=[).:]|\W*\Z)")
# Emphasis, quotation marks, HTML tags of layout, unpaired tags of an answer, and special tokens.
# Other tags may cross a letter out.
_NOISE = re.compile(
    r"""
    </?
    (?:
        b|i|u|em|strong|p|br|hr|span|div|code|pre|kbd|tt|mark|small|big|center|font|[uo]l|li
        |table|tbody|tr|t[dh]|body|html|blockquote                              # layout
        |(?:final_)?(?:answer|choice|option)|final|response|result|output       # an answer
        |prediction|letter
        |eos|bos|pad|(?:start|end)_of_turn|assistant                            # a turn
    )
    \ ?/?>
    | <\|\w+\|>                                 # a special token
    | [*`"“”„«»$]
    | \\[()]                                    # LaTeX's brackets around a formula
    | (?<!\w)['_]{1,3} | ['_]{1,3}(?!\w)        # quotation marks and emphasis, not inside a word
    | ^[ \t]*[#>]+                              # a heading or a quotation
    """,
    re.VERBOSE | re.MULTILINE,
)

# A letter that is a separate word. Chinese characters do not count as letters of the same word.
_LETTER = r"(?<![^\W\u3000-\uffff])(?P<letter>[A-D])(?![^\W\u3000-\uffff])"
# The same, with or without brackets.
_CLAIMED = rf"(?P<open>\()? {_LETTER} (?(open)\))"

# The parts below are for patterns with `re.VERBOSE`.
# "best answer", "most likely next action"
_FIT = r"""
    (?:
        best|correct|right|final|next|single|most|appropriate|suitable|likely|logical
        |plausible|reasonable
    )\ """
_NOUN = rf"""
    (?:
        (?:{_FIT}){{0,4}} (?:answer|option|choice)
        | (?:{_FIT}){{1,4}} (?:action|step)
    )
    """
# "is", "here should be", "to take next is"
_VERB = r"""
    (?: \ here | \ to\ (?:the|this)\ question | \ to\ take(?:\ next)? )?
    \ (?:is|would\ be|should\ be|must\ be|will\ be)
    """
_ADVERB = r"(?:therefore|thus|hence|then|clearly|definitely|the|option|choice|letter):?\ "
# "answer here is therefore ", "answer: "
_NAMED = rf"""
    (?i:
        {_NOUN}
        (?: {_VERB} (?:\ ?:\ ?|\ ) | \ ?[:=]\ ? )
        (?:{_ADVERB}){{0,3}}
        | 答案(?:应该?|应当)?[是为]?\ ?:?\ ?
    )
    """
# "I would choose option "
_CHOSEN = r"""
    I(?:\ would|'d|'ll|\ will)?\ (?:choose|select|pick|go\ with)\ (?:option\ )?
    """
_CHOSEN_IN_CHINESE = r"""
    (?:正确|最佳)?的?选[项择](?:应该?|应当)?[是为:]\ ?
    | [我故应]?选择?\ ?:?\ ?
    """
_CLAIM = rf"""
    (?i:
        (?: the\  | my\  | (?:正确|最终|最佳)的? )? {_NAMED}
        | {_CHOSEN}
        | {_CHOSEN_IN_CHINESE}
    )
    """
# An introductory word: "So the answer is".
_LEAD = r"""
    (?i:so|thus|therefore|hence|finally|overall|in\ conclusion|and|but|因此|所以|综上)[,\ ]{0,2}
    """
# A claim as a clause of its own.
_CLAUSE = rf"""
    (?: \A | (?<=[.,;:!?)-]) | (?<=[.,;:!?)-]\ ) | (?<=\bso\ ) )
    (?:{_LEAD})?
    {_CLAIM}
    """

# A claim anywhere in a line, to detect conflicting claims.
_MENTION = re.compile(rf"{_NAMED} \(? {_LETTER}", re.VERBOSE)
# A claim that is a clause of its own.
_STATEMENT = re.compile(rf"{_CLAUSE} {_CLAIMED}", re.VERBOSE)
# A line that ends where the letter of its claim should be.
_ANNOUNCEMENT = re.compile(rf"{_CLAUSE} \Z", re.VERBOSE)
# A claim at the start of a line, where a shorter text is enough.
_LINE = re.compile(
    rf"""
    (?:
        {_CLAIM}
        | (?i: (?:the\ )? {_NOUN}\  | (?:正确|最佳)?的?选项\ ?:?\ ? )
    )?
    {_CLAIMED}
    """,
    re.VERBOSE,
)
_SINGLE_LETTER = re.compile(_LETTER)

# Text that may follow a letter: the mark of an option, words that confirm it, an end, or words that
# deny it.
_OPTION_MARK = re.compile(r"(?: [.:)!] | \ ?- ) (?: \  | \Z )", re.VERBOSE)
_OPTION_MARK_AFTER_BRACKET = re.compile(r"[.:,]? (?: \  | \Z )", re.VERBOSE)
_RIGHT = rf"is\ (?:the\ |clearly\ |therefore\ )* (?:{_NOUN}|best|correct|right)\b"
_END = re.compile(
    rf"""
    (?: \ {_RIGHT} )?
    (?: \Z | [.!](?:\ |\Z) | ,?\ (?:because|since|as)\b )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_END_OF_TEXT = re.compile(r"\ ? [,;:)(-] (?: \  | \Z )", re.VERBOSE)
_DENIAL = re.compile(
    rf"""
    \ ? [,(-]? \ ?
    (?! {_RIGHT} )
    (?:
        (?:is|was|are|isn't|wasn't|can't|cannot|can|could|would|might|may|seems
            |and|or|nor|not?|vs)\b
        | (?:(?:this|it|that|which)\ )? (?:(?:was|is|has\ been|has)\ )? already\b
        | [✗✘❌🚫]
        | [^.;,!?]* \b
            (?:
                wrong|incorrect|false|impossible|unlikely|implausible
                |not\ (?:correct|right|possible)
            )\b
        | [^.;!]*\?
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)

# Text before a letter that cancels the claim: a condition in the same sentence, or a line that
# announces a list.
_CONDITION = re.compile(
    r"""
    (?: \b(?:if|unless|whether|suppos\w+|assum\w+|imagine)\b | 如果|假如|要是|若 )
    [^.!?]*\Z
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LISTING = re.compile(
    r"\b(?:options|choices|candidates|following|each|consider)\b|[^.!]\Z", re.IGNORECASE
)

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

_Texts = Mapping[str, str]
"""Texts of the choices by letter, in lower case; none is empty."""


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
    texts = _choice_texts(choices)
    spoken = _without_token_marks(spoken)
    spoken = _UNSEEN.sub("", unicodedata.normalize("NFKC", spoken))
    spoken = _mark_answers(spoken, texts)
    letter = _read(spoken, texts)
    if letter is None or _is_retracted(spoken, letter):
        return None
    return letter


def _has_unfinished_thought(spoken: str) -> bool:
    """Return True if a thought begins after other text and does not end."""
    return any(without_thinking(part) is None for part in _BEFORE_TAG.split(spoken))


def _choice_texts(choices: Sequence[str]) -> dict[str, str]:
    """Return the texts of the choices that are not empty, as `_Texts`."""
    texts = {}
    for letter, choice in zip(LETTERS, choices, strict=False):
        text = " ".join(_plain(choice).split()).rstrip(" .").lower()
        if text:
            texts[letter] = text
    return texts


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
    spoken = _objects_as_lines(without_thinking(reply) or "")
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


def _read(spoken: str, texts: _Texts) -> str | None:
    for mark in (_BOXED, _MARKED_ANSWER):
        answers = mark.findall(spoken)
        if answers:
            return _agreed_letter(answers, mark.sub(" ", spoken), texts)
    return _letter_of(_plain(spoken), texts)


def _agreed_letter(answers: Sequence[str], around: str, texts: _Texts) -> str | None:
    """Return the letter of the marks if they agree, with each other and with the text around them.

    Args:
        answers: The texts of the marks, at least one.
        around: The reply without the marks.
    """
    letters = {_marked_letter(answer, texts) for answer in answers}
    claims = {_marked_letter(pair["text"], texts) for pair in _PAIR.finditer(around)}
    claims.add(_read(around, texts))
    claims.discard(None)
    letters |= claims
    letters |= _mentioned(_lines(_plain(around)))
    return letters.pop() if len(letters) == 1 else None


def _marked_letter(text: str, texts: _Texts) -> str | None:
    """Read the text of a mark, where a letter may be in lower case."""
    capital = _SMALL_LETTER.sub(lambda letter: letter[0].upper(), _plain(text))
    return _letter_of(capital, texts)


def _letter_of(plain: str, texts: _Texts) -> str | None:
    lines = _lines(plain)
    letter = _claimed(plain, texts)
    if letter:
        if _lists_all("\n".join(lines), texts) or not contradicts(lines, texts, letter):
            return letter
        return None
    letter = stated_letter(lines, texts)
    if letter and _mentioned(lines) <= {letter}:
        return letter
    return None


def _is_retracted(spoken: str, letter: str) -> bool:
    """Return True if the reply takes the letter back.

    Its last mention is denied, or "wait, no" or a sentence such as "Incorrect." follows.
    """
    *before, after = re.split(rf"(?<!\w){letter}(?!\w)", spoken)
    if before and DENIED.search(_plain(before[-1])[-_LOOK_BACK:]):
        return True
    after = _plain(after)
    if RETRACTION.search(after):
        return True
    _, *sentences = _SENTENCE_END.split(after)
    return any(is_denial(sentence) for sentence in sentences)


def _mark_answers(text: str, texts: _Texts) -> str:
    r"""Turn each mark around an answer into a LaTeX command.

    Marks are GLM's box, tags, and the answers in JSON objects. If another member of an object may
    take the answers back, the command is empty.

    >>> _mark_answers("I say <final_answer>B</final_answer>", {})
    'I say \\answer{B}'
    >>> _mark_answers('{"reason": "A is done", "answer": "B"}', {})
    '\\answer{B}'
    >>> _mark_answers('{"answer": "A", "revised": "B"}', {})
    '\\answer{}'
    >>> _mark_answers('{"answer": "A", "fits": false}', {})
    '\\answer{}'
    """
    text = _BOX.sub(lambda mark: _BOXES[mark[0].lower()], text)
    closed = {tag["name"].lower() for tag in _TAG.finditer(text) if tag["end"]}
    text = _TAG.sub(lambda tag: _tag_as_mark(tag, closed), text)
    objects = [(start, end, _members(text[start:end])) for start, end in _braces(text)]
    is_doubtful = _are_taken_back([members for _, _, members in objects], texts)
    parts: list[str] = []
    position = 0
    for start, end, members in objects:
        answers = list(_answers(members))
        if not answers and not _has_answer(members):
            continue
        parts.append(text[position:start])
        if is_doubtful:
            parts.append(r"\answer{}")
        else:
            parts += [f"\\answer{{{answer}}}" for answer in answers]
        position = end
    parts.append(text[position:])
    return "".join(parts)


def _tag_as_mark(tag: re.Match[str], closed: Collection[str]) -> str:
    if tag["name"].lower() not in closed or not is_answer_name(tag["name"]):
        return tag[0]
    return "}" if tag["end"] else r"\answer{"


def _braces(text: str) -> list[tuple[int, int]]:
    """Return start and end of the outermost pairs of braces."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            start = opened.pop()
            if not opened:
                pairs.append((start, brace.end()))
    return pairs


class _Members(list[tuple[Any, Any]]):
    """Names and values of an object. A name may occur twice."""


def _members(text: str) -> _Members:
    """Return the members of a JSON object or a Python dictionary; none if the text is neither."""
    brackets = re.findall(r"[{}\[\]]", text)
    depths = accumulate(1 if bracket in "{[" else -1 for bracket in brackets)
    if max(depths, default=0) > _MOST_DEPTH:
        return _Members()
    with suppress(ValueError, RecursionError):
        return _Members(json.loads(text, object_pairs_hook=_Members))
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        members = ast.literal_eval(text)
        return _Members(members.items() if isinstance(members, dict) else ())
    return _Members()


def _objects_as_lines(text: str) -> str:
    """Write each JSON object as lines of a name and a text, without the members that are not texts.

    An object with a false member stays as it is, since it may take an answer back.
    """
    parts: list[str] = []
    position = 0
    for start, end in _braces(text):
        members = _members(text[start:end])
        lines = []
        for name, value in members:
            if isinstance(name, str) and isinstance(value, str):
                lines.append(f"{name.replace('_', ' ')}: {value}")
        has_false = any(value is False for _, value in members)
        if lines and not has_false:
            parts.append(text[position:start])
            parts.append("\n".join(["", *lines, ""]))
            position = end
    parts.append(text[position:])
    return "".join(parts)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict | _Members)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and not isinstance(value, _Members)


def _named(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return names and values of an object; none for another value."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, _Members):
        yield from value


def _is_answer(name: Any) -> bool:
    return isinstance(name, str) and is_answer_name(name)


def _answers(value: Any, *, is_answer: bool = False) -> Iterator[str]:
    """Return the texts with the name of an answer.

    All objects and lists around them must have such a name, too.
    """
    if isinstance(value, str):
        if is_answer:
            yield re.sub(r"[{}\\]", " ", value)
    elif _is_object(value):
        for name, member in _named(value):
            if _is_answer(name):
                yield from _answers(member, is_answer=True)
    elif _is_list(value) and is_answer:
        for member in value:
            yield from _answers(member, is_answer=True)


def _has_answer(value: Any) -> bool:
    """Return True if an object at any depth has a member with the name of an answer and a text."""
    if _is_object(value):
        return any(_is_or_has_answer(name, member) for name, member in _named(value))
    return _is_list(value) and any(_has_answer(member) for member in value)


def _is_or_has_answer(name: Any, member: Any) -> bool:
    if _is_answer(name) and any(_answers(member, is_answer=True)):
        return True
    return _has_answer(member)


def _are_taken_back(objects: Sequence[_Members], texts: _Texts) -> bool:
    """Return True if one of the objects takes the answers of all of them back."""
    letters: set[str | None] = set()
    for members in objects:
        letters |= {_marked_letter(answer, texts) for answer in _answers(members)}
    return any(_takes_back(members, letters, texts) for members in objects)


def _takes_back(value: Any, letters: Collection[str | None], texts: _Texts) -> bool:
    """Return True if a member of an object takes the answer back.

    Only members of objects that may have answers are read: the outermost one, and those with the
    name of an answer.
    """
    for name, member in _named(value):
        if isinstance(member, bool) and (not member or is_denying_name(str(name))):
            return True
        if _is_answer(name):
            inner = member if _is_list(member) else [member]
            if any(_takes_back(part, letters, texts) for part in inner):
                return True
        elif _speaks_against(name, member, letters, texts):
            return True
    return False


def _speaks_against(name: Any, member: Any, letters: Collection[str | None], texts: _Texts) -> bool:
    """Return True if a member that is no answer denies, has an answer inside, or means one letter.

    The letter must not be one of the answers.
    """
    if _has_answer(member):
        return True
    if isinstance(member, str) and member.strip(" .").lower() not in _NOTHING and is_denial(member):
        return True
    if isinstance(name, str) and name.endswith("s"):  # a list, such as "alternatives"
        return False
    member_letters = {_marked_letter(text, texts) for text in _strings(member)}
    member_letters.discard(None)
    return len(member_letters) == 1 and member_letters.isdisjoint(letters)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif _is_object(value):
        for _, member in _named(value):
            yield from _strings(member)
    elif _is_list(value):
        for member in value:
            yield from _strings(member)


def _plain(text: str) -> str:
    without_commands = _COMMAND.sub(r"\1", text)
    return _NOISE.sub("", without_commands.translate(_SIGNS))


def _lines(plain: str) -> list[str]:
    """Return the lines that are not empty.

    A line that announces an answer is joined with the next one.
    """
    lines: list[str] = []
    for raw_line in plain.split("\n"):
        line = " ".join(raw_line.split())
        if not line:
            continue
        announcement = ""
        if lines and len(lines[-1]) < _LOOK_BACK:
            announcement = f"{lines[-1].rstrip(' :')}: "
        if _ANNOUNCEMENT.search(announcement):
            lines[-1] = announcement + line
        else:
            lines.append(line)
    return lines


def _claimed(plain: str, texts: _Texts) -> str | None:
    """Return the letter that the English or Chinese claims of a reply agree on."""
    lines = _lines(plain)
    if not lines:
        return None
    whole = "\n".join(lines)
    statements = _statements(lines, texts)
    claims = _mentioned(lines)
    if not _lists_all(whole, texts):
        claims |= _options(lines[:1], texts)
    if len(claims) > 1:
        return None
    if statements and statements[-1].string == lines[-1]:
        return statements[-1]["letter"]
    first = _LINE.match(lines[0])
    begins_with_claim = bool(claims and first and _after(first, texts) is not None)
    if statements or begins_with_claim:
        (letter,) = claims
        return letter if _is_only_letter(letter, whole, texts) else None
    return _last_option(lines, claims, texts)


def _statements(lines: Sequence[str], texts: _Texts) -> list[re.Match[str]]:
    """Return the last statement of each line, if it holds."""
    statements = []
    for line in lines:
        in_line = list(_STATEMENT.finditer(line))
        if in_line and _holds(in_line[-1], texts):
            statements.append(in_line[-1])
    return statements


def _is_only_letter(letter: str, whole: str, texts: _Texts) -> bool:
    """Return True if no other letter is a separate word, except in the letter's own choice."""
    choice = re.escape(texts.get(letter, ""))
    without_choice = re.sub(rf"(?i)(?<!\w){choice}(?!\w)", "", whole)
    return {*_SINGLE_LETTER.findall(without_choice)} <= {letter}


def _last_option(lines: Sequence[str], claims: Collection[str], texts: _Texts) -> str | None:
    """Read a last line that is a letter with its choice's text, if no other line has a letter."""
    last = _LINE.match(lines[-1])
    if last is None or len(lines) == 1:
        return None
    letter = last["letter"]
    if not {*claims, *_options(lines[:-1], texts)} <= {letter}:
        return None
    after = _after(last, texts)
    if after is None or after.strip(" .!"):
        return None
    choice = texts.get(letter, "\n")
    is_whole = lines[-1].lower().rstrip(" .!").endswith(choice)
    if not is_whole or _LISTING.search(lines[-2]):
        return None
    return letter


def _mentioned(lines: Sequence[str]) -> set[str]:
    """Return the letters that are called the answer, even if the reply denies it."""
    letters = set()
    for line in lines:
        letters |= {claim["letter"] for claim in _MENTION.finditer(line)}
        letters |= {claim["letter"] for claim in _STATEMENT.finditer(line)}
    return letters


def _options(lines: Sequence[str], texts: _Texts) -> set[str]:
    """Return the letters that begin lines as options."""
    letters = set()
    for line in lines:
        claim = _LINE.match(line)
        if claim and (_is_marked(claim) or _after(claim, texts) is not None):
            letters.add(claim["letter"])
    return letters


def _lists_all(whole: str, texts: _Texts) -> bool:
    """Return True if every choice is quoted with its letter."""
    quotes = (rf"\b{letter}\W{{1,3}}(?i:{re.escape(text)})" for letter, text in texts.items())
    return len(texts) > 1 and all(re.search(quote, whole) for quote in quotes)


def _holds(statement: re.Match[str], texts: _Texts) -> bool:
    """Return True if no condition precedes a statement and no other letter follows in its line."""
    after = _after(statement, texts)
    if after is None or _SINGLE_LETTER.search(after):
        return False
    before = statement.string[max(0, statement.start() - _LOOK_BACK) : statement.start()]
    return not _CONDITION.search(before)


def _is_marked(claim: re.Match[str]) -> bool:
    suffix = claim.string[claim.end() :]
    if _OPTION_MARK.match(suffix):
        return True
    return bool(claim["open"] and _OPTION_MARK_AFTER_BRACKET.match(suffix))


def _after(claim: re.Match[str], texts: _Texts) -> str | None:
    """Return the text after a claimed letter and its choice; None if it cancels the claim."""
    suffix = claim.string[claim.end() :]
    is_marked = _is_marked(claim)
    tail = suffix.lstrip(" .,:;!()-")
    choice = _leading(tail, texts)
    after = tail[len(choice) :]
    # The letter is the first word of a choice, such as "a cup".
    if not is_marked and len(_leading(claim.string[claim.start("letter") :], texts)) > 1:
        return None
    if choice and (choice != texts.get(claim["letter"]) or suffix[:1].isalnum()):
        return None
    if is_marked or (choice and (_END.match(after) or _END_OF_TEXT.match(after))):
        return None if _DENIAL.match(after) else after
    return suffix if _END.match(suffix) else None


def _leading(line: str, texts: _Texts) -> str:
    """Return the longest choice that a line begins with; empty if there is none."""
    lower = line.lower()
    starts = (text for text in texts.values() if re.match(rf"{re.escape(text)}(?!\w)", lower))
    return max(starts, key=len, default="")
