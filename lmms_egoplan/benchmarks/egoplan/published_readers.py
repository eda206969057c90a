r"""Read a written answer as each published pipeline does, wrong behaviour included.

`presets.yaml` names the pipelines and their commits. A reader gets a reply as generated, with its
thoughts.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.reply import OPENINGS, first_letter, parse_letter

# extract_characters_regex in lmms-eval's tasks/egoplan/utils.py removes only the first six of
# eval.py's openings.
_LMMS_EVAL_OPENINGS = OPENINGS[:6]
# strip_answer and process_multiple_choice in flagevalmm/evaluator/pre_process.py. Its patterns
# "[INST]" and "[/INST]" are sets of characters, and each of them is removed.
_REMOVED = ("The", "If", *"INST/")
_KEY_WORDS = (
    "boxed",
    "Answer:",
    "Answer is",
    "answer is",
    "option is",
    "Correct option",
    "correct option",
    "Answer",
    "answer",
    "故选",
    "选择",
    "正确选项为",
    "答案选",
    "答案为",
    "答案是",
    "因此",
    "答案",
)
_THOUGHT_END = "</think>"
# A box may contain one level of brackets.
_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
# extract_answer_from_text and process_raw_output in benchmark/egoplan2.py.
_THOUGHT = re.compile(r"\A.*?</think>", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_BRACKETED = re.compile(r"\(([A-D])\)", re.IGNORECASE)
_ANSWER_BRACKETED = re.compile(rf"Answer[:\s]*{_BRACKETED.pattern}", re.IGNORECASE)
_WORD = re.compile(r"\b([A-D])\b", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<answer>\s*([A-Z]?).*?</answer>", re.DOTALL)


def first_capital(reply: str) -> str | None:
    """Read a reply as FlagEvalMM does: the first capital after the last key word.

    Any capital counts. The first ``</think>`` ends the thought. "The", "If" and each of the letters
    I, N, S and T are removed first. If the rest starts with ``X.``, the letter is X. A reply of one
    character is that character in upper case.

    >>> first_capital("Answer: B. Because"), first_capital("Based on the video, A")
    ('B', 'B')
    >>> first_capital("Let me see. B")
    'L'
    >>> first_capital("b"), first_capital("I would pick B"), first_capital("The tap")
    ('B', 'B', None)
    """
    reply = reply.split(_THOUGHT_END, 1)[-1]
    if len(reply) == 1:
        reply = reply.upper()
    else:
        for text in _REMOVED:
            reply = reply.replace(text, "")
        reply = reply.strip()
        if not re.match(r"[A-Z]\.", reply):
            reply = _after_key_word(reply)
    letter = re.search("[A-Z]", reply)
    return letter and letter[0]


def _after_key_word(reply: str) -> str:
    """Return the text after the first of the key words that a reply contains, in their order.

    If the word occurs several times, it is the text after the last one. Without any, it is the
    whole reply.
    """
    for word in _KEY_WORDS:
        if word in reply:
            return reply.split(word)[-1]
    return reply


def boxed(reply: str) -> str | None:
    r"""Read a reply as MiMo-Embodied does: the last box must contain only the letter.

    The letter may be in lower case. Without a box, the text after the first ``</think>`` must be
    the letter; without that tag, the whole reply.

    >>> boxed(r"A? No. \boxed{b}"), boxed("<think>A</think> C")
    ('B', 'C')
    >>> boxed("B."), boxed(r"\boxed{B. open}")
    (None, None)
    """
    boxes = _BOX.findall(reply)
    text = boxes[-1] if boxes else reply
    text = text.split(_THOUGHT_END, 1)[-1].strip().upper()
    return text if text in tuple(LETTERS) else None


def last_bracketed(reply: str) -> str | None:
    """Read a reply as PhysBrainEvalKit does.

    It reads the last ``Answer: (X)``, else the last ``(X)``, else the first word A to D. Case does
    not matter, so the article "a" is an A. A thought is read like any other text.

    >>> last_bracketed("Answer: (B), not (C)"), last_bracketed("(B) or (C)")
    ('B', 'C')
    >>> last_bracketed("Take a cup. B")
    'A'
    """
    for pattern in (_ANSWER_BRACKETED, _BRACKETED):
        letters = pattern.findall(reply)
        if letters:
            return letters[-1].upper()
    word = _WORD.search(reply)
    return word[0].upper() if word else None


def last_bracketed_in_answer(reply: str) -> str | None:
    """Read a reply as PhysBrainEvalKit does with ``--thinking_model``.

    It reads the `last_bracketed` of the first answer tag. The first ``</think>`` ends the thought,
    which is removed first. Without an answer tag, the rest is read.

    >>> last_bracketed_in_answer("<think>A</think>C <answer>(B)</answer>")
    'B'
    """
    rest = _THOUGHT.sub("", reply)
    answer = _ANSWER.search(rest)
    return last_bracketed(answer[1] if answer else rest)


def answer_tag(reply: str) -> str | None:
    """Read a reply as SEED-Bench-R1 does: the capital that begins the first answer tag.

    infer.py also compares the reply and the right letter with math-verify. This is omitted: its
    parser reads nothing from a bare letter, so that they never agree (math-verify 0.5.2).

    >>> answer_tag("<answer> B. open</answer>"), answer_tag("<answer>(B)</answer>"), answer_tag("B")
    ('B', None, None)
    """
    answer = _ANSWER_TAG.search(reply)
    if answer is None or not answer[1]:
        return None
    return answer[1]


READERS: Mapping[str, Callable[[str], str | None]] = {
    "clear": parse_letter,
    "first_letter": first_letter,
    "first_letter_lmms_eval": partial(first_letter, openings=_LMMS_EVAL_OPENINGS),
    "first_capital": first_capital,
    "boxed": boxed,
    "last_bracketed": last_bracketed,
    "last_bracketed_in_answer": last_bracketed_in_answer,
    "answer_tag": answer_tag,
}
"""Readers by name. Each takes a reply as generated, with its thoughts.

It returns the capital that it reads, or None. A capital after D is a wrong answer.
"""
