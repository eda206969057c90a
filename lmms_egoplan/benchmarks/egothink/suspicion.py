"""Answers that could pass for a part of the judge's prompt, or for its verdict."""

import re
import unicodedata

# Invisible, and no format characters by Unicode's category: joiners, fillers and variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_DOUBLE_BRACKETS = r"\[\s*\[|\]\s*\]"
# Table 7's delimiters, however their apostrophe is written.
_DELIMITER = (
    r"\[\s*(?:instruction|question|the\s*(?:start|end)\s*of\s*(?:reference|assistant[^a-z\[\]]{0,3}s)\s*answer)\s*\]"
)
_SUSPECT = re.compile(f"{_DOUBLE_BRACKETS}|{_DELIMITER}", re.IGNORECASE)
_ROUND = str.maketrans("[]", "()")


def make_harmless(answer: str) -> tuple[str, bool]:
    """An answer as a judge may be shown it, and whether it is suspect.

    Suspect is an answer with double square brackets, which mark ratings, or with one of the prompt's delimiters (in
    any case, with any apostrophe or spaces); looked for in an NFKC-normalised copy without invisible characters.

    Returns:
        The answer itself and False; or, if it is suspect, that copy with all square brackets turned into round
        ones, and True.
    """
    visible = (char for char in unicodedata.normalize("NFKC", answer) if char.isspace() or not _is_invisible(char))
    copy = "".join(visible)
    if _SUSPECT.search(copy) is None:
        return answer, False
    return copy.translate(_ROUND), True


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") or _INVISIBLE.match(char) is not None
