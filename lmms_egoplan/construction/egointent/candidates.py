"""Propose candidates for a step's procedural intent and next step (sec. 3.3).

Check their support before the cut.

Candidates are proposed from the whole event, but kept only if the part before the cut supports
them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.egointent.prompts import RELEASE_NAMES
from lmms_egoplan.construction.egointent.narrations import Step
from lmms_egoplan.construction.egointent.prompts import PROMPTS, ask, bullets, read_fields
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.text import numbered
from lmms_egoplan.validation import Checked, is_text, quoted

# The record's names of the proposed fields (release of August 2026).
PROPOSED = (RELEASE_NAMES["global_intent"], RELEASE_NAMES["next_step_plan"])
# Maximum number of candidates per field, and of words in a short phrase. Chosen here: the paper has
# no numbers.
_CANDIDATES = 3
_MOST_WORDS = 25

NOT_BRIEF = "candidate is not a short phrase"
ALIKE = "candidate repeats another label"
SURPLUS = "more candidates than requested"
UNSUPPORTED = "candidate is not supported before the cut"
NONE_LEFT = "step lacks a supported candidate for a field"

Candidates = dict[str, list[str]]
"""Candidates by field name, best first."""


class _Proposal(Checked):
    procedural_intent: list[Any]
    next_step: list[Any]


class _Support(Checked):
    procedural_intent: list[bool]
    next_step: list[bool]


def propose(
    steps: Sequence[Step], settings: JudgeSettings
) -> tuple[dict[str, Candidates], list[Rejection]]:
    """Ask for candidates of each step (sec. 3.2).

    Reject those that are not short phrases or repeat another label.

    Returns:
        Candidates by step id, at least one for each field; and the rejections.

    Raises:
        JudgeError: The language model cannot be reached.
    """
    prompts = {step.step_id: _candidates_prompt(step) for step in steps}
    replies, rejections = ask("candidates", prompts, read_proposal, settings, "candidates")
    if settings.options.is_estimate:  # assume the maximum number of candidates
        return {
            step.step_id: dict.fromkeys(PROPOSED, [step.narration.text] * _CANDIDATES)
            for step in steps
        }, []
    proposed: dict[str, Candidates] = {}
    for step in (step for step in steps if step.step_id in replies):
        labels = {_plain(step.narration.action)}
        usable_texts: Candidates = {name: [] for name in PROPOSED}
        for name, texts in replies[step.step_id].items():
            for text in texts[:_CANDIDATES]:
                if not is_text(text) or len(text.split()) > _MOST_WORDS:
                    rejections.append(Rejection(name, NOT_BRIEF, step.step_id, quoted(text)))
                elif _plain(text) in labels:
                    rejections.append(Rejection(name, ALIKE, step.step_id, text))
                else:
                    labels.add(_plain(text))
                    usable_texts[name].append(" ".join(text.split()))
            rejections += [
                Rejection(name, SURPLUS, step.step_id, quoted(text)) for text in texts[_CANDIDATES:]
            ]
        _accept_or_reject(step.step_id, usable_texts, proposed, rejections)
    return proposed, rejections


def supported(
    steps: Sequence[Step], proposed: Mapping[str, Candidates], settings: JudgeSettings
) -> tuple[dict[str, Candidates], list[Rejection]]:
    """Ask which candidates the part before the cut supports, and reject all others.

    Args:
        steps: Steps; those without candidates are skipped.
        proposed: Candidates by step id.
        settings: The language model.

    Returns:
        Candidates by step id, at least one for each field; and the rejections.

    Raises:
        JudgeError: The language model cannot be reached.
    """
    prompts = {
        step.step_id: _support_prompt(step, proposed[step.step_id])
        for step in steps
        if step.step_id in proposed
    }

    def read(step_id: str, reply: Any) -> dict[str, list[bool]]:
        return read_support(proposed[step_id], reply)

    replies, rejections = ask("support", prompts, read, settings, "support before the cut")
    if settings.options.is_estimate:
        return dict(proposed), []
    supported_candidates: dict[str, Candidates] = {}
    for step_id, verdicts in replies.items():
        usable: Candidates = {}
        for name, texts in proposed[step_id].items():
            usable[name] = [
                text for text, verdict in zip(texts, verdicts[name], strict=True) if verdict
            ]
            rejections += [
                Rejection(name, UNSUPPORTED, step_id, text)
                for text in texts
                if text not in usable[name]
            ]
        _accept_or_reject(step_id, usable, supported_candidates, rejections)
    return supported_candidates, rejections


def read_support(candidates: Candidates, reply: Any) -> dict[str, list[bool]]:
    """Read which candidates of each field are supported.

    Raises:
        ValueError: The reply has another form, or another number of verdicts.
    """
    verdicts = dict(read_fields(_Support, reply))
    for name, texts in candidates.items():
        if len(verdicts[name]) != len(texts):
            raise ValueError(
                f"{name}: expected {len(texts)} of true and false, found {len(verdicts[name])}"
            )
    return verdicts


def read_proposal(_: str, reply: Any) -> dict[str, list[Any]]:
    """Read the candidates of each field: at least one, of any type.

    Raises:
        ValueError: The reply has another form.
    """
    proposal = dict(read_fields(_Proposal, reply))
    empty = [name for name, texts in proposal.items() if not texts]
    if empty:
        raise ValueError(f"{', '.join(empty)}: expected at least one text")
    return proposal


def _candidates_prompt(step: Step) -> str:
    """Return the prompt for candidates, with the context of the whole event (sec. 3.3)."""
    segment, purpose = step.leaf
    part = segment.step_description
    return PROMPTS["candidates"].format(
        goal=step.video.goal_description,
        part=part if purpose == step.video.goal_description else f"{purpose}: {part}",
        before=bullets([narration.text for narration in step.before]),
        narration=step.narration.text,
        after=bullets([narration.text for narration in step.after]),
        count=_CANDIDATES,
    )


def _support_prompt(step: Step, candidates: Candidates) -> str:
    """Return the prompt about support. It contains nothing that comes after the cut (sec. 3.3)."""
    lists = {name: numbered(texts) for name, texts in candidates.items()}
    before = bullets([narration.text for narration in step.before])
    return PROMPTS["support"].format(before=before, narration=step.narration.text, **lists)


def _accept_or_reject(
    step_id: str, usable: Candidates, steps: dict[str, Candidates], rejections: list[Rejection]
) -> None:
    """Add a step to `steps` if each field has candidates, otherwise to the rejections."""
    missing = [name for name, texts in usable.items() if not texts]
    if missing:
        rejections.append(Rejection("step", NONE_LEFT, step_id, ", ".join(missing)))
    else:
        steps[step_id] = usable


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
