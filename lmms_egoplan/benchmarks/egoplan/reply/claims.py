"""Read the letter that the lines of an answer claim, in English or Chinese.

Statements in other languages are read by `statements`. The patterns expect the lines that
`lines_of` returns: half-width characters, single spaces, round brackets, no emphasis.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.reply.statements import (
    contradicts,
    stated_letter,
)

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
LOOK_BACK = 300
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

ChoiceTexts = Mapping[str, str]
"""Texts of the choices by letter, in lower case; none is empty."""


def choice_texts(choices: Sequence[str]) -> dict[str, str]:
    """Return the texts of the choices that are not empty, as `ChoiceTexts`."""
    texts = {}
    for letter, choice in zip(LETTERS, choices, strict=False):
        text = " ".join(plain_text(choice).split()).rstrip(" .").lower()
        if text:
            texts[letter] = text
    return texts


def marked_letter(text: str, texts: ChoiceTexts) -> str | None:
    """Read the text of a mark, where a letter may be in lower case."""
    capital = _SMALL_LETTER.sub(lambda letter: letter[0].upper(), plain_text(text))
    return letter_of(capital, texts)


def letter_of(plain: str, texts: ChoiceTexts) -> str | None:
    """Return the letter that a plain text claims; None if it claims none or several."""
    lines = lines_of(plain)
    letter = _claimed(plain, texts)
    if letter:
        if _lists_all("\n".join(lines), texts) or not contradicts(lines, texts, letter):
            return letter
        return None
    letter = stated_letter(lines, texts)
    if letter and mentioned_letters(lines) <= {letter}:
        return letter
    return None


def plain_text(text: str) -> str:
    """Remove emphasis, layout and LaTeX commands, and reduce signs to one form each."""
    without_commands = _COMMAND.sub(r"\1", text)
    return _NOISE.sub("", without_commands.translate(_SIGNS))


def lines_of(plain: str) -> list[str]:
    """Return the lines that are not empty.

    A line that announces an answer is joined with the next one.
    """
    lines: list[str] = []
    for raw_line in plain.split("\n"):
        line = " ".join(raw_line.split())
        if not line:
            continue
        announcement = ""
        if lines and len(lines[-1]) < LOOK_BACK:
            announcement = f"{lines[-1].rstrip(' :')}: "
        if _ANNOUNCEMENT.search(announcement):
            lines[-1] = announcement + line
        else:
            lines.append(line)
    return lines


def _claimed(plain: str, texts: ChoiceTexts) -> str | None:
    """Return the letter that the English or Chinese claims of a reply agree on."""
    lines = lines_of(plain)
    if not lines:
        return None
    whole = "\n".join(lines)
    statements = _statements(lines, texts)
    claims = mentioned_letters(lines)
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


def _statements(lines: Sequence[str], texts: ChoiceTexts) -> list[re.Match[str]]:
    """Return the last statement of each line, if it holds."""
    statements = []
    for line in lines:
        in_line = list(_STATEMENT.finditer(line))
        if in_line and _holds(in_line[-1], texts):
            statements.append(in_line[-1])
    return statements


def _is_only_letter(letter: str, whole: str, texts: ChoiceTexts) -> bool:
    """Return True if no other letter is a separate word, except in the letter's own choice."""
    choice = re.escape(texts.get(letter, ""))
    without_choice = re.sub(rf"(?i)(?<!\w){choice}(?!\w)", "", whole)
    return {*_SINGLE_LETTER.findall(without_choice)} <= {letter}


def _last_option(lines: Sequence[str], claims: Collection[str], texts: ChoiceTexts) -> str | None:
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


def mentioned_letters(lines: Sequence[str]) -> set[str]:
    """Return the letters that are called the answer, even if the reply denies it."""
    letters = set()
    for line in lines:
        letters |= {claim["letter"] for claim in _MENTION.finditer(line)}
        letters |= {claim["letter"] for claim in _STATEMENT.finditer(line)}
    return letters


def _options(lines: Sequence[str], texts: ChoiceTexts) -> set[str]:
    """Return the letters that begin lines as options."""
    letters = set()
    for line in lines:
        claim = _LINE.match(line)
        if claim and (_is_marked(claim) or _after(claim, texts) is not None):
            letters.add(claim["letter"])
    return letters


def _lists_all(whole: str, texts: ChoiceTexts) -> bool:
    """Return True if every choice is quoted with its letter."""
    quotes = (rf"\b{letter}\W{{1,3}}(?i:{re.escape(text)})" for letter, text in texts.items())
    return len(texts) > 1 and all(re.search(quote, whole) for quote in quotes)


def _holds(statement: re.Match[str], texts: ChoiceTexts) -> bool:
    """Return True if no condition precedes a statement and no other letter follows in its line."""
    after = _after(statement, texts)
    if after is None or _SINGLE_LETTER.search(after):
        return False
    before = statement.string[max(0, statement.start() - LOOK_BACK) : statement.start()]
    return not _CONDITION.search(before)


def _is_marked(claim: re.Match[str]) -> bool:
    suffix = claim.string[claim.end() :]
    if _OPTION_MARK.match(suffix):
        return True
    return bool(claim["open"] and _OPTION_MARK_AFTER_BRACKET.match(suffix))


def _after(claim: re.Match[str], texts: ChoiceTexts) -> str | None:
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


def _leading(line: str, texts: ChoiceTexts) -> str:
    """Return the longest choice that a line begins with; empty if there is none."""
    lower = line.lower()
    starts = (text for text in texts.values() if re.match(rf"{re.escape(text)}(?!\w)", lower))
    return max(starts, key=len, default="")
