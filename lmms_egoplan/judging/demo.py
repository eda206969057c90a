"""A judge that runs in the process and compares words, to try the suite without an endpoint."""

import re
from collections import Counter

from lmms_egoplan.judging.judgement import Judgement, JudgeRequest

DEMO = "demo"

_WORD = re.compile(r"\w+")


def judge_by_words(request: JudgeRequest, best: float) -> Judgement:
    """Compare the words of answer and reference; case and punctuation do not count.

    Returns:
        A judgement by ``"demo"``: `best` where the words are the same in the same order, half of it where some are
        in common, else 0.
    """
    answer, reference = (_WORD.findall(text.casefold()) for text in (request.answer, request.reference))
    common = (Counter(answer) & Counter(reference)).total()
    if answer == reference:
        rating, verdict = best, "the words are those of the reference"
    else:
        rating = best / 2 if common else 0.0
        verdict = f"{common} of {len(answer)} words are among the reference's {len(reference)}"
    return Judgement(rating=rating, reply=f"Word comparison: {verdict}. Rating: [[{rating:g}]]", judge=DEMO)
