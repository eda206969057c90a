"""Create counterfactual activities (sec. 3.3).

A language model proposes circumstances and changes the problems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen

from lmms_egoplan.annotation.actplan_circumstances import CIRCUMSTANCES, Circumstance
from lmms_egoplan.construction.actplan.activities import Activity
from lmms_egoplan.construction.actplan.bddl import PREDICATES, Problem, literals_of, parse_problem
from lmms_egoplan.construction.actplan.prompts import SCHEMAS, change_prompt, circumstances_prompt
from lmms_egoplan.construction.actplan.soundness import flaws_in
from lmms_egoplan.construction.folders import read_export
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import Checked, Text, is_text, quoted, read_as

# Sec. 3.3.
CATEGORIES = ("object property", "object function", "event causality")

REPEATED = "duplicate circumstance of an activity"
NOT_ACCEPTED = "circumstance that people did not accept"
UNKNOWN_ACTIVITY = "accepted circumstance of an activity without a normal problem"
NO_PROBLEM = "reply without a changed problem and its category"
BAD_BDDL = "changed problem is not valid BDDL, or contradicts itself"
UNKNOWN_PREDICATE = "changed problem with a predicate that does not exist"
UNCHANGED = "changed problem equals the normal one"
NOT_NEEDED = "accepted circumstance of an activity that already has a counterfactual problem"


class _Circumstance(Checked):
    circumstance: Text
    step: Any = None


class _Proposal(Checked):
    procedure: Annotated[list[Text], MinLen(1)]
    circumstances: Annotated[list[_Circumstance], MinLen(1)]


class _Verdict(Checked):
    id: Text
    activity: Text
    circumstance: Text
    accepted: bool


def propose(
    activities: Sequence[Activity], texts: Mapping[str, str], settings: JudgeSettings
) -> tuple[list[Circumstance], list[Rejection]]:
    """Ask what might happen during normal activities (step 1).

    These have a text and no counterfactual problem.

    Returns:
        The proposed circumstances, and the rejections.

    Raises:
        JudgeError: The language model cannot be asked.
    """
    counterfactual = {activity.name for activity in activities if activity.description}
    normal = [
        a
        for a in activities
        if not a.description and a.name not in counterfactual and a.key in texts
    ]
    prompts = {
        activity.name: circumstances_prompt(activity.name, texts[activity.key])
        for activity in normal
    }
    circumstances: list[Circumstance] = []
    schema = SCHEMAS["circumstances"]
    read = partial(read_as, _Proposal)
    replies = ask_json("circumstance", prompts, settings, "circumstances", schema=schema, read=read)
    rejections = [*replies.rejections]
    for name, proposal in replies.values.items():
        procedure = [" ".join(step.split()) for step in proposal.procedure]
        seen: set[str] = set()
        for number, proposed in enumerate(proposal.circumstances, 1):
            text = " ".join(proposed.circumstance.split())
            if text.casefold() in seen:
                rejections.append(
                    Rejection("circumstance", REPEATED, f"{name}, {number}", quoted(text))
                )
                continue
            seen.add(text.casefold())
            id_ = f"{name}/{number}"
            task = texts[f"{name}/0"]
            circumstance = Circumstance(
                id=id_, activity=name, task=task, procedure=procedure, circumstance=text
            )
            circumstances.append(circumstance)
    return circumstances, rejections


def read_verdicts(folder: Path) -> tuple[list[tuple[str, str]], list[Rejection]]:
    """Read the human verdicts from ``annotate export``, in the order of the proposals (step 2).

    Returns:
        The accepted circumstances as pairs of activity and text, and the rejections.

    Raises:
        LmmsEgoplanError: The folder does not contain the file, or the file has another format.
    """
    export = read_export(
        "--circumstances", folder, CIRCUMSTANCES, "labelled circumstances", _Verdict
    )
    accepted: list[tuple[str, str]] = []
    refused: list[Rejection] = []
    # Restore the order of the proposals, because the page shuffles them.
    for _, verdict in sorted(
        export, key=lambda entry: (entry[1].activity, len(entry[1].id), entry[1].id)
    ):
        if verdict.accepted:
            accepted.append((verdict.activity, verdict.circumstance))
        else:
            refused.append(
                Rejection(
                    "circumstance", NOT_ACCEPTED, verdict.activity, quoted(verdict.circumstance)
                )
            )
    return accepted, refused


def change(
    activities: Sequence[Activity], accepted: Sequence[tuple[str, str]], settings: JudgeSettings
) -> tuple[list[Activity], list[Rejection]]:
    """Ask for the problems of accepted circumstances (step 3).

    The first valid problem of each activity is used.

    Returns:
        The counterfactual activities, and the rejections.

    Raises:
        JudgeError: The language model cannot be asked.
    """
    normal = {
        activity.name: activity.problem for activity in activities if not activity.description
    }
    changed = {activity.name: activity for activity in activities if activity.description}
    num_existing = len(changed)
    requests: dict[str, tuple[str, str]] = {}
    rejections: list[Rejection] = []
    for number, (name, circumstance) in enumerate(accepted, 1):
        if name in normal:
            requests[f"{name}, circumstance {number}"] = (name, circumstance)
        else:
            rejections.append(Rejection("change", UNKNOWN_ACTIVITY, name, quoted(circumstance)))
    prompts = {
        key: change_prompt(normal[name], circumstance)
        for key, (name, circumstance) in requests.items()
    }
    replies = ask_json("change", prompts, settings, "changed problems", schema=SCHEMAS["change"])
    rejections += replies.rejections
    for key in prompts if settings.options.is_estimate else replies.values:
        name, circumstance = requests[key]
        result: Rejection | tuple[Problem, str] = (
            replace(normal[name], name=f"{name}_1"),
            CATEGORIES[0],
        )
        # an estimate assumes a changed problem of similar length
        if not settings.options.is_estimate:
            result = _read(replies.values[key], key, name, normal[name])
        if isinstance(result, Rejection):
            rejections.append(result)
        elif name in changed:
            rejections.append(Rejection("change", NOT_NEEDED, key, quoted(circumstance)))
        else:
            problem, category = result
            changes = tuple(fact for fact in problem.init if fact not in normal[name].init)
            changed[name] = Activity(name, 1, problem, circumstance, category, changes)
    return list(changed.values())[num_existing:], rejections


def _read(
    reply: dict[str, Any], where: str, name: str, normal: Problem
) -> tuple[Problem, str] | Rejection:
    """Read a reply's problem and category, or return why it cannot be used."""
    bddl = reply.get("problem")
    category = reply.get("category")
    if not is_text(bddl) or category not in CATEGORIES:
        return Rejection("change", NO_PROBLEM, where, quoted(reply))
    try:
        problem = parse_problem(bddl, where)
    except LmmsEgoplanError as error:
        return Rejection("change", BAD_BDDL, where, str(error))
    atoms = (atom for part in (*problem.init, *problem.goal) for atom, _, _ in literals_of(part))
    is_known = all(atom.op in PREDICATES for atom in atoms)
    flaws = flaws_in(problem)
    if flaws:
        return Rejection(
            "change", BAD_BDDL if is_known else UNKNOWN_PREDICATE, where, "; ".join(flaws)
        )
    if _content(problem) == _content(normal):
        return Rejection("change", UNCHANGED, where)
    return replace(problem, name=f"{name}_1", domain=normal.domain), category


def _content(problem: Problem) -> tuple[frozenset, ...]:
    return frozenset(problem.objects), frozenset(problem.init), frozenset(problem.conditions)
