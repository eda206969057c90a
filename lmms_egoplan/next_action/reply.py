r"""Read the one letter that a written answer claims.

    read letter = marked (``\boxed{B}``), or stated ("the answer is B"), or the first or last line itself ("B. text")

Patterns for lines expect them as `_lines` makes them: half-width signs, single blanks, no emphasis, round brackets.
"""

import re
import unicodedata
from collections.abc import Sequence

from lmms_egoplan.judging.reply import without_thinking
from lmms_egoplan.next_action.records import LETTERS

# Marks around an answer, all made into LaTeX commands; GLM's box is one of them.
_TAGS = {"<|begin_of_box|>": r"\boxed{", "<|end_of_box|>": "}", "<answer>": r"\answer{", "</answer>": "}"}
_TAG = re.compile("|".join(map(re.escape, _TAGS)), re.IGNORECASE)
_MARKED = tuple(re.compile(rf"\\{name}\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}") for name in ("boxed", "answer"))
_COMMAND = re.compile(r"\\[a-z]+\s*\{([^{}]*)\}")
_SMALL = re.compile(r"\A\W*[a-d](?=[).:]|\W*\Z)")
# Emphasis, quotation marks, tags of both and special tokens.
_NOISE = re.compile(
    r"</?[a-z_]{1,12} ?/?>|<\|\w+\|>|[*`\"“”„«»$]|\\[()\[\]]|(?<!\w)['‘’_]{1,3}|['‘’_]{1,3}(?!\w)|^[ \t]*[#>]+", re.M
)
_SIGNS = str.maketrans("[【「『〔{]】」』〕}。、", "(((((())))))..")

# A letter that is no part of a word; Chinese signs are no letters of the same word.
_ALONE = rf"(?<![^\W\u3000-\uffff])(?P<letter>[{LETTERS}])(?![^\W\u3000-\uffff])"
_STANDALONE = re.compile(_ALONE)
_LETTER = rf"(?P<open>\()?{_ALONE}(?(open)\))"
_FIT = "(?:(?:best|correct|right|final|next|single|most|appropriate|suitable|likely|logical|plausible|reasonable) )"
_NOUN = rf"(?:{_FIT}{{0,4}}(?:answer|option|choice)|{_FIT}{{1,4}}(?:action|step))"
_VERB = "(?: here| to (?:the|this) question| to take(?: next)?)? (?:is|would be|should be|must be|will be)"
_ADVERB = "(?:(?:therefore|thus|hence|then|clearly|definitely|the|option|choice|letter):? ){0,3}"
_NAMED = rf"(?i:{_NOUN}(?:{_VERB}(?: ?: ?| )| ?[:=] ?){_ADVERB}|答案(?:应该?|应当)?[是为]? ?:? ?)"
_CHOSEN = "I(?: would|'d|'ll| will)? (?:choose|select|pick|go with) (?:option )?"
_CHOSEN_IN_CHINESE = "(?:正确|最佳)?的?选[项择](?:应该?|应当)?[是为:] ?|[我故应]?选择? ?:? ?"
_CLAIM = rf"(?i:(?:(?:the |my )|(?:正确|最终|最佳)的?)?{_NAMED}|{_CHOSEN}|{_CHOSEN_IN_CHINESE})"
# Anywhere, to find claims that differ; in a line, as its clause; and as the beginning of a line.
_MENTION = re.compile(rf"{_NAMED}\(?{_ALONE}")
_LEAD = "(?i:so|thus|therefore|hence|finally|overall|in conclusion|and|but|因此|所以|综上)"
_CLAUSE = rf"(?:\A|(?<=[.,;:!?)—-])|(?<=[.,;:!?)—-] )|(?<=\bso ))(?:{_LEAD}[, ]{{0,2}})?"
_STATEMENT = re.compile(rf"{_CLAUSE}{_CLAIM}{_LETTER}")
_ANNOUNCEMENT = re.compile(rf"{_CLAUSE}{_CLAIM}\Z")
_NAME = rf"(?i:(?:the )?{_FIT}{{0,4}}(?:answer|option|choice) |(?:正确|最佳)?的?选项 ?:? ?)"
_LINE = re.compile(rf"(?:{_CLAIM}|{_NAME})?{_LETTER}")
_CONDITION = re.compile(r"\b(?:if|unless|whether|suppos\w+|assum\w+|imagine)\b[^.!?]*\Z", re.IGNORECASE)
# What may follow a letter: the mark of an option, words that confirm it, an end; and what takes the claim back.
_MARK = re.compile(r"(?:[.:)!]| ?[–—-])(?: |\Z)")
_MARK_BEHIND_BRACKET = re.compile(r"[.:,]?(?: |\Z)")
_RIGHT = rf"(?:the |clearly |therefore )*(?:{_FIT}{{0,4}}(?:answer|option|choice|action|step)|best|correct|right)"
_END = re.compile(rf"(?: is {_RIGHT})?(?:\Z|[.!](?: |\Z)|,? (?:because|since|as)\b)", re.IGNORECASE)
_END_OF_TEXT = re.compile(r" ?[,;:)(–—-](?: |\Z)")
_DENIAL = re.compile(
    rf" ?[,(–—-]? ?(?:(?:is(?! {_RIGHT}\b)|was|are|isn't|wasn't|can't|cannot|can|could|would|might|may|seems)\b"
    r"|(?:and|or|nor|not?|vs)\b|[^.;,!?]*\b(?:wrong|incorrect|impossible|not (?:correct|right|possible))\b|[^.;!]*\?)",
    re.IGNORECASE,
)
_LISTING = re.compile(r"\b(?:options|choices|candidates|following|each|consider)\b|[^.!]\Z", re.IGNORECASE)
_LOOK_BACK = 300


def parse_letter(reply: str, choices: Sequence[str] = ()) -> str | None:
    r"""Read the one letter that a reply claims; None if it claims none or several.

    Thoughts are no part of it; those that do not end leave nothing. Where the reply has ``\boxed{B}`` or GLM's box, or
    else ``<answer>B</answer>``, these alone are read. Several must agree, and so must what is claimed around them.

    Else a claim is one of these:

    * The last line states the answer: ``The answer is B.``, ``The best choice is therefore B. text``. Other letters may
      stand before it.
    * The first line is the letter, marked as an option or followed by its choice's text, or states the answer: ``B``,
      ``B.``, ``(B)``, ``B) text``, ``Option B``. No other letter stands alone anywhere, as ``A or B`` or ``A cat``.
    * Another line states the answer, and no other letter stands alone anywhere.
    * The last line is the letter with its choice's text, and no other line begins with a letter.

    Claims of different letters leave none, and so does a letter with another choice's text.

    Args:
        choices: texts of the choices, in the letters' order.

    >>> parse_letter("The drawer is closed.\nThe best choice is therefore **B. open it**.", ["cut it", "open it"])
    'B'
    >>> parse_letter("B open it", ["cut it", "open it"]), parse_letter("B. cut it", ["cut it", "open it"])
    ('B', None)
    """
    spoken = without_thinking(reply)
    # A thought may begin after other text, too.
    if spoken is None or any(without_thinking(part) is None for part in re.split(r"(?=[<\[◁])", spoken)):
        return None
    spoken = _TAG.sub(lambda tag: _TAGS[tag[0].lower()], unicodedata.normalize("NFKC", spoken))
    texts = [" ".join(_plain(choice).split()).rstrip(" .").lower() for choice in choices]
    return _read(spoken, texts)


def _read(spoken: str, texts: Sequence[str]) -> str | None:
    for marked in _MARKED:
        if answers := marked.findall(spoken):
            letters = {_claimed(_SMALL.sub(lambda small: small[0].upper(), _plain(text)), texts) for text in answers}
            around = marked.sub(" ", spoken)
            letters |= ({_read(around, texts)} - {None}) | _mentioned(_lines(_plain(around)))
            return letters.pop() if len(letters) == 1 else None
    return _claimed(_plain(spoken), texts)


def _plain(text: str) -> str:
    return _NOISE.sub("", _COMMAND.sub(r"\1", text)).translate(_SIGNS)


def _lines(plain: str) -> list[str]:
    """Lines that are not empty, each with the one that it announces."""
    lines: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in plain.split("\n"))):
        announcement = f"{lines[-1].rstrip(' :')}: " if lines and len(lines[-1]) < _LOOK_BACK else ""
        if _ANNOUNCEMENT.search(announcement):
            lines[-1] = f"{announcement}{line}"
        else:
            lines.append(line)
    return lines


def _mentioned(lines: Sequence[str]) -> set[str]:
    """Letters that are called the answer, whatever is said of that."""
    return {claim["letter"] for line in lines for how in (_MENTION, _STATEMENT) for claim in how.finditer(line)}


def _claimed(plain: str, texts: Sequence[str]) -> str | None:
    lines = _lines(plain)
    if not lines:
        return None
    statements = (statement for line in lines for statement in list(_STATEMENT.finditer(line))[-1:])
    stated = [statement for statement in statements if _holds(statement, texts)]
    first, last = _LINE.match(lines[0]), _LINE.match(lines[-1])
    claims = _mentioned(lines)
    if first and _is_option(first, texts) and not _lists_all("\n".join(lines).lower(), texts):
        claims.add(first["letter"])
    if len(claims) > 1:
        return None
    if stated and stated[-1].string == lines[-1]:
        return stated[-1]["letter"]
    if stated or (first and claims and _after(first, texts) is not None):
        (letter,) = claims
        own = re.escape(_text_of(letter, texts))
        others = re.sub(rf"(?i)(?<!\w){own}(?!\w)", "", "\n".join(lines)) if own else "\n".join(lines)
        return letter if {*_STANDALONE.findall(others)} <= {letter} else None
    if last is None or not claims <= {last["letter"]} or _LISTING.search(lines[-2] if len(lines) > 1 else ""):
        return None
    is_whole = _after(last, texts) is not None and lines[-1].lower().rstrip(" .!").endswith(
        _text_of(last["letter"], texts) or "\n"
    )
    earlier = filter(None, map(_LINE.match, lines[:-1]))
    return last["letter"] if is_whole and not any(_is_option(line, texts) for line in earlier) else None


def _text_of(letter: str, texts: Sequence[str]) -> str:
    return dict(zip(LETTERS, texts, strict=False)).get(letter, "")


def _lists_all(lowered: str, texts: Sequence[str]) -> bool:
    """Whether every choice is quoted with its letter."""
    quotes = (rf"\b{letter.lower()}\W{{1,3}}{re.escape(text)}" for letter, text in zip(LETTERS, texts, strict=False))
    return len(texts) > 1 and all(re.search(quote, lowered) for quote in quotes)


def _holds(statement: re.Match[str], texts: Sequence[str]) -> bool:
    """Whether a statement is no condition, and no other letter follows it in its line."""
    after = _after(statement, texts)
    before = statement.string[max(0, statement.start() - _LOOK_BACK) : statement.start()]
    return after is not None and not _STANDALONE.search(after) and not _CONDITION.search(before)


def _is_option(claim: re.Match[str], texts: Sequence[str]) -> bool:
    return _is_marked(claim) or _after(claim, texts) is not None


def _is_marked(claim: re.Match[str]) -> bool:
    rest = claim.string[claim.end() :]
    return bool(_MARK.match(rest) or (claim["open"] and _MARK_BEHIND_BRACKET.match(rest)))


def _after(claim: re.Match[str], texts: Sequence[str]) -> str | None:
    """What follows a claimed letter and its choice's text; None if what follows makes the letter no claim."""
    rest, is_marked = claim.string[claim.end() :], _is_marked(claim)
    tail = rest.lstrip(" .,:;!()–—-")
    text, own = _leading(tail, texts), _text_of(claim["letter"], texts)
    if not is_marked and len(_leading(claim.string[claim.start("letter") :], texts)) > 1:
        return None
    if text:
        after = tail[len(text) :]
        if text != own or rest[:1].isalnum() or _DENIAL.match(after):
            return None
        return after if is_marked or _END.match(after) or _END_OF_TEXT.match(after) else None
    if is_marked:
        return None if _DENIAL.match(tail) else tail
    return rest if _END.match(rest) else None


def _leading(line: str, texts: Sequence[str]) -> str:
    """The longest choice with which a line begins; none is empty."""
    starts = (text for text in texts if text and re.match(rf"{re.escape(text)}(?!\w)", line.lower()))
    return max(starts, key=len, default="")
