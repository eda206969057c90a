"""Candidates of a step's procedural intent and next step, and which of them are supported before the cut (sec. 3.3).

The whole event serves to propose candidates alone: what is kept must be supported by what comes before the cut.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.egointent.protocol import RELEASE_NAMES
from lmms_egoplan.construction.egointent.prompts import (
    CANDIDATES,
    ask,
    candidates_prompt,
    support_prompt,
)
from lmms_egoplan.construction.egointent.steps import Step
from lmms_egoplan.jsonl import check_record
from lmms_egoplan.judging import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import Checked, is_text, shown

# The record's names of what is proposed (release of August 2026).
PROPOSED = (RELEASE_NAMES["global_intent"], RELEASE_NAMES["next_step_plan"])
# Ours: more words are no short phrase.
_MOST_WORDS = 25

NOT_BRIEF = "candidate that is no short phrase"
ALIKE = "candidate with the words of another label"
SURPLUS = "more candidates than asked for"
UNSUPPORTED = "candidate that is not supported before the cut"
NONE_LEFT = "step without a supported candidate of each kind"

Candidates = dict[str, list[str]]
"""By the name of a field, its candidates, the best first."""


class _Proposal(Checked):
    procedural_intent: list[Any]
    next_step: list[Any]


class _Support(Checked):
    procedural_intent: list[bool]
    next_step: list[bool]


def propose(steps: Sequence[Step], settings: JudgeSettings) -> tuple[dict[str, Candidates], list[Rejection]]:
    """Ask for candidates of each step; those that are no short phrases, or repeat another label (sec. 3.2), go.

    Returns:
        By step id, at least one of each field.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    prompts = {step.step_id: candidates_prompt(step) for step in steps}
    replies, rejections = ask("candidates", prompts, read_proposal, settings, "candidates")
    if settings.asking.is_estimate:  # the next step asks about as many candidates
        return {step.step_id: dict.fromkeys(PROPOSED, [step.narration.text] * CANDIDATES) for step in steps}, []
    proposed: dict[str, Candidates] = {}
    for step in (step for step in steps if step.step_id in replies):
        reply = replies[step.step_id]
        known = {_plain(step.narration.action)}
        usable: Candidates = {name: [] for name in PROPOSED}
        for name in PROPOSED:
            for text in reply[name][:CANDIDATES]:
                if not is_text(text) or len(text.split()) > _MOST_WORDS:
                    rejections.append(Rejection(name, NOT_BRIEF, step.step_id, shown(text)))
                elif _plain(text) in known:
                    rejections.append(Rejection(name, ALIKE, step.step_id, text))
                else:
                    known.add(_plain(text))
                    usable[name].append(" ".join(text.split()))
            rejections += [Rejection(name, SURPLUS, step.step_id, shown(text)) for text in reply[name][CANDIDATES:]]
        if all(usable.values()):
            proposed[step.step_id] = usable
        else:
            rejections.append(_none_left(step.step_id, usable))
    return proposed, rejections


def supported(
    steps: Sequence[Step], proposed: Mapping[str, Candidates], settings: JudgeSettings
) -> tuple[dict[str, Candidates], list[Rejection]]:
    """Ask which candidates are supported by what comes before the cut, and leave the others out.

    Args:
        proposed: by step id; other steps are passed over.

    Returns:
        By step id, at least one of each field.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    prompts = {step.step_id: support_prompt(step, proposed[step.step_id]) for step in steps if step.step_id in proposed}

    def read(step_id: str, reply: Any) -> dict[str, list[bool]]:
        return read_support(proposed[step_id], reply)

    replies, rejections = ask("support", prompts, read, settings, "support before the cut")
    if settings.asking.is_estimate:
        return dict(proposed), []
    kept: dict[str, Candidates] = {}
    for step_id, reply in replies.items():
        usable: Candidates = {}
        for name, texts in proposed[step_id].items():
            usable[name] = [text for text, verdict in zip(texts, reply[name], strict=True) if verdict]
            rejections += [Rejection(name, UNSUPPORTED, step_id, text) for text in texts if text not in usable[name]]
        if all(usable.values()):
            kept[step_id] = usable
        else:
            rejections.append(_none_left(step_id, usable))
    return kept, rejections


def read_support(candidates: Candidates, reply: Any) -> dict[str, list[bool]]:
    """Which candidates of each field are supported.

    Raises:
        ValueError: the reply is of another form, or about more or fewer candidates.
    """
    verdicts = _fields(_Support, reply)
    for name, texts in candidates.items():
        if len(verdicts[name]) != len(texts):
            raise ValueError(f"{name}: expected {len(texts)} of true and false, found {len(verdicts[name])}")
    return verdicts


def read_proposal(_: str, reply: Any) -> dict[str, list[Any]]:
    """Candidates of each field, at least one, of whatever kind.

    Raises:
        ValueError: the reply is of another form.
    """
    proposal = _fields(_Proposal, reply)
    if empty := [name for name, texts in proposal.items() if not texts]:
        raise ValueError(f"{', '.join(empty)}: expected at least one text")
    return proposal


def _fields(kind: type[Checked], reply: Any) -> dict[str, list]:
    read, problems = check_record(kind, reply)
    if read is None:
        raise ValueError("; ".join(problems))
    return {name: getattr(read, name) for name in PROPOSED}


def _none_left(step_id: str, usable: Candidates) -> Rejection:
    absent = ", ".join(name for name, texts in usable.items() if not texts)
    return Rejection("step", NONE_LEFT, step_id, absent)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
