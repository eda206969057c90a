"""Read statements of an answer in any word order, and in many languages.

    statement = one letter or its choice's text, words of statements.yaml, and nothing else

A sentence with any other word states nothing, whatever the word means. So a word that the list
lacks may cost a letter, but a denial in a language that it lacks is not read as an answer.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lmms_egoplan.paths import module_yaml


def _load_words() -> dict[str, set[str]]:
    """Return the words of each kind in statements.yaml, of all languages, in lower case."""
    words: dict[str, set[str]] = {}
    for kind, languages in module_yaml(__file__).items():
        words[kind] = set()
        for text in languages.values():
            normalised = unicodedata.normalize("NFKC", text)
            words[kind] |= {word.replace("_", " ").casefold() for word in normalised.split()}
    return words


_WORDS = _load_words()

# Thai, Chinese, Japanese and Korean: words are not separated by blanks, or particles join the word
# before.
_JOINED = "\u0e00-\u0eff\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff"
# Letters that cannot continue a Latin word: those of scripts without capitals.
_WITHOUT_CAPITALS = "\u0590-\u1dff\u2e80-\uffff"
# Begin and end of a word.
_BEGIN = rf"(?<![^\W{_WITHOUT_CAPITALS}])"
_END = rf"(?![^\W{_WITHOUT_CAPITALS}])"

LETTER = rf"{_BEGIN}(?P<letter>[A-D]){_END}"
"""Regular expression for a capital that is a separate word.

It may touch letters of scripts without capitals.
"""

# The text of a choice becomes one character for private use, so that its words are not words of the
# sentence.
_FIRST_MARK = 0xE000
_MARK = "[\ue000-\uf8ff]"
_LONGEST_STATEMENT = 300


def _pattern(*kinds: str) -> str:
    """Return a pattern for the longest of the words of these kinds."""
    words: set[str] = set()
    for kind in kinds:
        words |= _WORDS[kind]
    return _pattern_of(words)


def _pattern_of(words: Collection[str]) -> str:
    """Return a pattern for the longest of some words.

    Words of scripts without blanks may be parts of longer words. Blanks are escaped, as verbose
    patterns need.
    """
    joined = []
    separate = []
    for word in sorted(words, key=lambda word: (-len(word), word)):
        if re.match(f"[{_JOINED}]", word):
            joined.append(re.escape(word))
        else:
            separate.append(re.escape(word))
    alternatives = [f"{_BEGIN}(?:{'|'.join(separate)}){_END}", *joined]
    return f"(?i:{'|'.join(alternatives)})"


# Each of these signs is read as the one below it.
_SIGNS = str.maketrans(
    "_\u0964\u061f\u060c\u061b\u2192\u21d2\u27a1\u279c\uff5c",
    " .?,;>>>>|",
)
_SENTENCE_END = re.compile(rf"(?<=[.!?;])\s+|(?<=[.!?;])(?=[{_JOINED}])")
# A small letter is one of a choice where no article can be: in brackets, last after a colon or
# "option", or before its text.
_SMALL = re.compile(
    rf"""
    (?<=\()[a-d](?=\))
    | ^\W*[a-d](?=\)\W*$)
    | (?: (?<=[:=])\s? | (?<=option\ |Option\ |choice\ |Choice\ ) ) [a-d](?=[.)]*$)
    | (?<![\w'])[a-d](?=[.):]\s?{_MARK})
    """,
    re.VERBOSE,
)
# "A hand holds it", "A selected option": an article, unless the next word may continue a sentence
# about choice A.
_ARTICLE = re.compile(
    r"""
    ^[\s\u2022\u00b7-]*A\s
    (?!(?:
        is|isn't|was|are|and|or|nor|but|because|has|had|can|can't|cannot|could|would|might|may
        |must|should|will|do|to|as|then
        |vs|also|too|only|if|not|better|worse|in|on|at|for|with|fit|more|less|just|over|first
        |ist|lautet|est|jest|je|este|bude|er|adalah|ialah
    )\b)
    (?=
        (?:[a-z]+(?:ed|ly)\s){0,3} (?:(?!(?:the|my|our|as|is|to|by)\b)[a-z]+\s){0,3}
            (?:
                answer|option|choice|response|guess|pick|prediction|solution|result|selection
                |decision|conclusion
            )\b
        | (?![a-z]+(?:s|ed|ly)\b)[a-z]+
    )
    | \b[CD]'(?=\w)
    """,
    re.VERBOSE,
)
# A line after which a letter may be the beginning of a list.
_BEFORE_LIST = re.compile(
    r"(?i)\b(?:options|choices|candidates|following|each|consider)\b|[^.!)]\Z"
)

# Words that may be in a statement.
_KNOWN = _pattern("naming", "conclusion", "option", "list", "being", "other")
_TOKEN = re.compile(
    rf"""
    (?P<word>{_KNOWN})
    | {LETTER}(?:'d[iu\u0131\u00fc]r\b)?    # with a Turkish ending
    | (?P<mark>{_MARK})
    | (?P<article>(?<=\u00e9\s)[ao](?=\s))  # Portuguese "\u00e9 a B"
    | (?P<sign>
        (?!<>)[\s().,:;|<>="'\\`$\u2022\u00b7\ufe0f-]
        | (?<=[^\s(])!(?![\w=])             # after a word, and not as in "!B" or "!="
        | [\u2705\u2713\u2714\u2611\U0001f449]
      )
    """,
    re.VERBOSE,
)
_MENTION = re.compile(rf"{LETTER}|(?P<mark>{_MARK})")
_REASON = re.compile(rf"\W*{_pattern('reason')}")
_REASON_AFTER_COMMA = re.compile(rf"\W*{_pattern('reason_after_comma')}")
_EXPLANATION = re.compile(rf"\W*{_pattern('reason')}\W*(?::|$)")
_DENIAL = re.compile(_pattern("denial"))
# Denials that are no verdict on an answer: "The fridge is already open".
_NO_VERDICT = {"already", "out", "without", "except", "avoid", "schon", "bereits"}
_VERDICT = re.compile(_pattern_of(_WORDS["denial"] - _NO_VERDICT))
# Crosses.
_WRONG_SIGN = re.compile("[\u274c\u2717\u2718\U0001f6ab]")
_KNOWN_WORD = re.compile(rf"{_KNOWN}|\ban?\b")
_CONTRAST = re.compile(_pattern("contrast"))
_CONDITION = re.compile(_pattern("condition"))
# "not A", "A is wrong": nothing but known words and a denial is before the letter.
_REJECTION = re.compile(rf"(?:\W|{_KNOWN}|{_pattern('denial')})*?(?:{LETTER}|{_MARK})")
# A line about one choice: a letter, or a word for a choice and a letter.
_OPTION = re.compile(rf"\W*(?:{_pattern('option')}\s?)?\(?{LETTER}")
# Where a sentence is divided into parts: before a reason, and at a comma before a denial or a
# conclusion.
_PART_START = re.compile(
    rf"[\s,;:(-]?(?={_pattern('reason')})"
    rf"|[,;(-]\s?(?={_pattern('reason_after_comma', 'denial', 'conclusion')})"
)
RETRACTION = re.compile(
    rf"""
    (?: ^ | [.!?;,\n]\s* | \s-\s* )
    (?: (?:oh|but|hmm|and|well)[,.]?\s )*
    (?: {_pattern("retraction")} | {_pattern("negation")}\s*(?:[,.!;]|$) )
    | (?i:
        \b(?:that|this|it) (?:'s|\ is|\ was|\ seems|\ looks)
        (?:\ (?:clearly|also|actually|just|probably))?
        \ (?:wrong|incorrect|false|a\ mistake|not\ (?:right|correct|possible|true))
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Regular expression for words that take back what was said before."""
DENIED = re.compile(rf"{_pattern('denial')}\s+(?:{_pattern('option')}\s)?\(?\Z")
"""Regular expression for the text before a letter that is denied: "not " or "not option "."""


@dataclass(frozen=True)
class _Part:
    """A sentence, or the part of one that begins with a reason, a denial or a conclusion.

    Attributes:
        line: Number of its line.
        mentioned: The letters in it, also those whose choice's text is in it.
        stated: The letters that it may state; empty if it contradicts itself, None if it is no
            statement.
        is_named: It says that the letter is the answer, as in "the answer is B".
        is_being: It has a verb of being.
        is_empty: It has known words and no letter.
        is_reason: It begins with "because" or a similar word.
    """

    text: str
    line: int
    mentioned: frozenset[str]
    stated: frozenset[str] | None = None
    is_named: bool = False
    is_being: bool = False
    is_empty: bool = False
    is_reason: bool = False


def stated_letter(lines: Sequence[str], texts: Mapping[str, str]) -> str | None:
    """Read the letter that the first or the last sentence states.

    - A statement may be the whole text, repeated or not.
    - The last sentence counts if it names the answer, or if it is a letter on a line of its own.
    - The first sentence counts if no other letter follows, except in reasons and rejections ("B,
      because A is done").

    Args:
        lines: Lines with half-width characters, single blanks, round brackets and no emphasis.
        texts: Texts of the choices by letter, in lower case; none is empty. Two choices may have
            the same text: then it states neither.

    Returns:
        The letter; None if no sentence states one, or if statements differ.

    >>> texts = {"A": "cut it", "B": "open it"}
    >>> stated_letter(["Die Antwort ist B"], texts), stated_letter(["Open it."], texts)
    ('B', 'B')
    >>> stated_letter(["Die Antwort ist nicht B"], texts)
    >>> stated_letter(["Cut it or open it."], texts)
    """
    parts = _with_labels(_parts(lines, texts))
    statements = [part.stated for part in parts if part.stated is not None]
    letters = frozenset.intersection(*statements) if statements else frozenset()
    if len(letters) != 1:
        return None
    (letter,) = letters
    if _ends_with_statement(parts, lines) or _begins_with_statement(parts, letter):
        return letter
    return None


def contradicts(lines: Sequence[str], texts: Mapping[str, str], letter: str) -> bool:
    """Return True if a sentence names another letter as the answer, or has it on its own.

    Several different letters on their own are a list.

    Args:
        lines, texts: As for `stated_letter`.

    >>> contradicts(["La risposta è A.", "The answer is B."], {}, "B")
    True
    >>> contradicts(["Non è A.", "B"], {}, "B")
    False
    """
    claims: list[frozenset[str]] = []
    alone: set[frozenset[str]] = set()
    for part in _with_labels(_parts(lines, texts)):
        if part.stated is None:
            continue
        if part.is_named or part.is_being:
            claims.append(part.stated)
        else:
            alone.add(part.stated)
    if len(alone) == 1:
        claims += alone
    return any(letter not in claim for claim in claims)


def is_answer_name(name: str) -> bool:
    """Return True if a key or tag has the name of one answer, such as ``final_answer``.

    >>> is_answer_name("Final Answer"), is_answer_name("selectedOption")
    (True, True)
    >>> is_answer_name("wrong_answer"), is_answer_name("options")
    (False, False)
    """
    part = _read(f"{_words_of(name)}:", 0, {})
    return part.is_named and part.is_empty


def is_denying_name(name: str) -> bool:
    """Return True if a key has a word that denies.

    >>> is_denying_name("isWrong"), is_denying_name("is_right")
    (True, False)
    """
    return _DENIAL.search(_words_of(name)) is not None


def _words_of(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", name)


def is_denial(sentence: str) -> bool:
    """Return True if a sentence denies an answer and says nothing else.

    >>> is_denial("Not correct."), is_denial("This answer is wrong."), is_denial("It is not open.")
    (True, True, False)
    """
    sentence = _WRONG_SIGN.sub(" wrong ", sentence)
    rest, num_denials = _VERDICT.subn(" ", sentence)
    if num_denials == 0:
        return False
    has_unknown_word = re.search(r"\w", _KNOWN_WORD.sub(" ", rest)) is not None
    return not has_unknown_word


def _ends_with_statement(parts: Sequence[_Part], lines: Sequence[str]) -> bool:
    """Return True if the last sentence is a statement that earlier ones do not weaken."""
    last = parts[-1]
    if last.stated is None:
        return False
    if last.is_named:
        return True
    not_stating = [part for part in parts if part.stated is None]
    if last.is_being:
        return all(part.mentioned <= last.stated for part in not_stating)
    shares_its_line = any(part.line == last.line for part in not_stating)
    if shares_its_line or (not_stating and _may_begin_list(last, lines)):
        return False
    return _earlier_options(lines[: last.line]) <= last.stated


def _may_begin_list(part: _Part, lines: Sequence[str]) -> bool:
    return part.line > 0 and _BEFORE_LIST.search(lines[part.line - 1]) is not None


def _earlier_options(lines: Sequence[str]) -> set[str]:
    """Return the letters that begin lines."""
    letters = set()
    for line in lines:
        option = _OPTION.match(_ARTICLE.sub("", line))
        if option:
            letters.add(option["letter"])
    return letters


def _begins_with_statement(parts: Sequence[_Part], letter: str) -> bool:
    """Return True if the first sentence is a statement, and the others only explain it."""
    first = parts[0]
    if first.stated is None:
        return False
    is_bare = all(
        _is_letter_alone(part)
        for part in parts
        if part.line == first.line and part.stated is not None
    )
    for part in parts:
        if _EXPLANATION.match(part.text):
            return True
        # After a letter alone, a line may only continue with a reason or a rejection.
        may_continue = not (is_bare and part.line == first.line)
        if part.stated is None and not _explains(part, letter, may_continue=may_continue):
            return False
    return True


def _is_letter_alone(part: _Part) -> bool:
    """Return True if a statement is a letter, without a word or the text of a choice."""
    return not (part.is_named or part.is_being or re.search(_MARK, part.text))


def _explains(part: _Part, letter: str, *, may_continue: bool) -> bool:
    """Return True if a part that states nothing does not weaken a statement before it.

    It gives a reason, rejects another letter, or names no letter and denies nothing.
    """
    if part.is_reason and not _CONTRAST.search(part.text):
        return True
    if letter in part.mentioned:
        return False
    if part.mentioned:
        return _rejects(part)
    return may_continue and "?" not in part.text and not _DENIAL.search(part.text)


def _rejects(part: _Part) -> bool:
    """Return True if a part does nothing but deny a letter."""
    if not _REJECTION.match(part.text) or not _DENIAL.search(part.text):
        return False
    return not _CONTRAST.search(part.text) and "?" not in part.text


def _with_labels(parts: Iterable[_Part]) -> list[_Part]:
    """Drop the parts without content. A letter directly after "Answer:" is named by it."""
    remaining: list[_Part] = []
    has_label = False
    for part in parts:
        if part.is_empty:
            has_label = has_label or part.is_named
            continue
        is_labelled = has_label and part.stated is not None
        remaining.append(replace(part, is_named=part.is_named or is_labelled))
        has_label = False
    return remaining


def _parts(lines: Sequence[str], texts: Mapping[str, str]) -> Iterator[_Part]:
    """Yield the parts of all sentences."""
    marks = _choice_marks(texts)
    letters_of = {mark: frozenset(_letters_of(text, texts)) for text, mark in marks.items()}
    for number, line in enumerate(lines):
        for sentence in _SENTENCE_END.split(_with_marks(line, marks)):
            for piece, is_reason in _pieces(sentence):
                if re.search(rf"\w|{_MARK}", piece):
                    yield replace(_read(piece, number, letters_of), is_reason=is_reason)


def _choice_marks(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the mark of each choice's text, the longest first; a text of one letter has none."""
    marks = {}
    longest_first = sorted({*texts.values()}, key=len)[::-1]
    for number, text in enumerate(longest_first):
        if len(text) > 1:
            marks[text] = chr(_FIRST_MARK + number)
    return marks


def _with_marks(line: str, marks: Mapping[str, str]) -> str:
    """Replace the choices' texts in a line by their marks, and small letters of choices."""
    plain = re.sub(_MARK, " ", line).translate(_SIGNS)
    for text, mark in marks.items():
        plain = re.sub(f"{_BEGIN}{re.escape(text)}{_END}", mark, plain, flags=re.IGNORECASE)
    return _SMALL.sub(lambda letter: letter[0].upper(), plain)


def _pieces(sentence: str) -> Iterator[tuple[str, bool]]:
    """Divide a sentence into parts; for each, say whether it begins with a reason.

    A sentence with a condition is one part.
    """
    pieces = [sentence] if _CONDITION.search(sentence) else _PART_START.split(sentence)
    for index, piece in enumerate(pieces):
        is_reason = _REASON.match(piece) is not None
        if index > 0 and _REASON_AFTER_COMMA.match(piece):
            is_reason = True
        yield piece, is_reason


def _letters_of(text: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Return the letters that a text may mean: "a cup" also means A if that is the choice "cup"."""
    for letter, other in texts.items():
        if other == text or text == f"{letter.lower()} {other}":
            yield letter


def _read(text: str, line: int, letters_of: Mapping[str, frozenset[str]]) -> _Part:
    """Read one part of a sentence.

    Args:
        line: Number of the part's line.
        letters_of: The letters that each mark means.
    """
    text = _ARTICLE.sub("", text)
    mentioned: set[str] = set()
    for mention in _MENTION.finditer(text):
        mentioned |= _claim_of(mention, letters_of)
    part = _Part(text, line, frozenset(mentioned))
    if "?" in text or len(text) > _LONGEST_STATEMENT:
        return part
    tokens = _tokens(text)
    if tokens is None:
        return part
    words = {token["word"].casefold() for token in tokens if token["word"]}
    claims = [_claim_of(token, letters_of) for token in tokens if token["letter"] or token["mark"]]
    is_named = not words.isdisjoint(_WORDS["naming"] | _WORDS["conclusion"])
    is_being = not words.isdisjoint(_WORDS["being"])
    has_option = not words.isdisjoint(_WORDS["option"])
    is_list = not words.isdisjoint(_WORDS["list"])
    if not claims:
        return replace(part, is_named=is_named or has_option, is_empty=not is_list)
    if is_list:
        return part
    has_open_end = bool(words) or text.count("(") > text.count(")")
    if has_open_end and not (is_named or is_being or has_option):
        return part
    stated = frozenset.intersection(*claims)
    return replace(part, stated=stated, is_named=is_named, is_being=is_being)


def _claim_of(token: re.Match[str], letters_of: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the letters that a letter or the mark of a choice means."""
    if token["letter"]:
        return frozenset(token["letter"])
    return letters_of.get(token["mark"], frozenset())


def _tokens(text: str) -> list[re.Match[str]] | None:
    """Divide a text into known words, letters, marks and signs; None if it has anything else."""
    tokens = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        tokens.append(token)
        position = token.end()
    return tokens
