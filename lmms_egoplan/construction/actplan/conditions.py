"""Ask a language model which conditions a description lacks or contradicts.

The result is advice for people. `released_check` measures a model's accuracy; none was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.construction.actplan.bddl import Formula, Problem
from lmms_egoplan.construction.actplan.prompts import SCHEMAS, conditions_prompt
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import quoted


@dataclass(frozen=True)
class Description:
    """A description, and what it must state.

    Attributes:
        problem: The activity, with the goal conditions.
        text: The description without its instruction.
        changes: Initial facts that the description must state, too.
    """

    problem: Problem
    text: str
    changes: tuple[Formula, ...] = ()

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The goal conditions, followed by the changes."""
        return (*self.problem.conditions, *self.changes)


@dataclass(frozen=True)
class Report:
    """The conditions that a language model reports about a description.

    Attributes:
        missing: Positions of conditions, from 0, that the text does not state.
        contradicted: Positions of conditions that the text excludes.
    """

    missing: frozenset[int]
    contradicted: frozenset[int]


@dataclass(frozen=True)
class Advice:
    """A language model's advice about a description.

    Attributes:
        activity: Key of the activity.
        missing: Conditions in BDDL that the text does not state.
        contradicted: Conditions in BDDL that the text excludes.
    """

    activity: str
    missing: tuple[str, ...]
    contradicted: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.contradicted)


def advise(
    descriptions: Mapping[str, Description], settings: JudgeSettings
) -> tuple[list[Advice], list[Rejection]]:
    """Ask which conditions descriptions lack or contradict, and return the advice on each.

    Args:
        descriptions: Descriptions by the activity's key.
        settings: Settings of the language model.

    Returns:
        The advice on each description, and the requests without a usable reply.

    Raises:
        JudgeError: The language model cannot be asked.
    """
    reports, rejections = check_conditions(descriptions, settings, "advice on descriptions")
    advice = []
    for key, report in reports.items():
        conditions = descriptions[key].conditions
        missing = _chosen(conditions, report.missing)
        contradicted = _chosen(conditions, report.contradicted)
        advice.append(Advice(key, missing, contradicted))
    return advice, rejections


def check_conditions(
    descriptions: Mapping[str, Description], settings: JudgeSettings, title: str
) -> tuple[dict[str, Report], list[Rejection]]:
    """Ask which conditions descriptions lack or contradict, with one request for each.

    Args:
        descriptions: Descriptions by name.
        settings: Settings of the language model.
        title: See `ask_json`.

    Raises:
        JudgeError: The language model cannot be asked.
    """
    prompts = {
        name: conditions_prompt(
            description.problem,
            description.problem.conditions,
            description.changes,
            description.text,
        )
        for name, description in descriptions.items()
    }

    def read(name: str, reply: dict[str, Any]) -> Report:
        return read_report(reply, len(descriptions[name].conditions))

    replies = ask_json(
        "conditions", prompts, settings, title, schema=SCHEMAS["conditions"], read=read
    )
    return replies.values, replies.rejections


def read_report(reply: Mapping[str, Any], count: int) -> Report:
    """Read a reply about `count` conditions, which it numbers from 1.

    Raises:
        ValueError: The reply has another form, an unknown number, or a number in both lists.
    """
    lists = []
    for name in ("missing", "contradicted"):
        numbers = reply.get(name)
        if not isinstance(numbers, list) or not all(
            type(number) is int and 1 <= number <= count for number in numbers
        ):
            raise ValueError(
                f"{name}: expected a list of numbers from 1 to {count}, found {quoted(numbers)}"
            )
        lists.append(frozenset(number - 1 for number in numbers))
    missing, contradicted = lists
    if missing & contradicted:
        raise ValueError(f"the same condition is missing and contradicted: {quoted(reply)}")
    return Report(missing, contradicted)


def _chosen(conditions: Sequence[Formula], positions: frozenset[int]) -> tuple[str, ...]:
    return tuple(str(conditions[position]) for position in sorted(positions))
