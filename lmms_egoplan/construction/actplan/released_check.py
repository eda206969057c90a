"""Measure how well a language model finds missing and contradicted conditions.

Nobody labelled the released descriptions, so errors are planted in their problems:

- missing: a condition is added that the description does not state. It gives an object of the goal
  a state that neither the problem nor the description mentions, such as ``(frozen ?cup.n.01_1)``.
- contradicted: a condition is replaced by its negation.

Each description is checked once with each error. All other conditions count as stated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmms_egoplan.construction.actplan.activities import Example
from lmms_egoplan.construction.actplan.bddl import Formula, Problem, literals_of, parse_problem
from lmms_egoplan.construction.actplan.conditions import Description, Report, check_conditions
from lmms_egoplan.construction.actplan.type_names import lemma_of
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.printing import finish_estimate
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.text import clean_text

CHECKED = "released_check.jsonl"
"""A line for each check: the planted condition, what the model reports, and an error."""

KINDS = ("missing", "contradicted")
# States of objects that can be added. Those of cleaning and of doors are often implied by a text.
_STATES = ("burnt", "cooked", "frozen", "sliced")
_AGENT = "agent"


@dataclass(frozen=True)
class Planted:
    """A description with a planted error.

    Attributes:
        id: ``<activity>/<n>, <kind>``.
        kind: One of `KINDS`.
        position: Position of the planted condition, from 0.
        description: The description, with a problem that has the planted condition.
    """

    id: str
    kind: str
    position: int
    description: Description


@dataclass(frozen=True)
class Accuracy:
    """How well a model finds planted errors of one kind.

    Attributes:
        kind: One of `KINDS`.
        planted: Number of planted conditions.
        reported: Number of conditions that the model reports as this kind.
        right: Number of planted conditions among them.
    """

    kind: str
    planted: int
    reported: int
    right: int

    @property
    def precision(self) -> float | None:
        """Fraction of the reported conditions that are planted; None if none is reported."""
        return self.right / self.reported if self.reported else None

    @property
    def recall(self) -> float | None:
        """Fraction of the planted conditions that are reported; None if none is planted."""
        return self.right / self.planted if self.planted else None


def check_released(
    examples: Sequence[Example], out: Path, settings: JudgeSettings
) -> tuple[list[Accuracy], list[Rejection]]:
    """Measure a language model on descriptions with planted errors, and write its replies.

    With the option ``--estimate``, print the estimate and exit.

    Args:
        examples: The descriptions.
        out: Output folder for `CHECKED`.
        settings: Settings of the language model.

    Returns:
        The accuracy for each of `KINDS` over the usable replies, and the unusable ones.

    Raises:
        JudgeError: The language model cannot be asked.
        LmmsEgoplanError: A problem is not valid BDDL.
        OSError: The folder cannot be written.
    """
    checks = [check for example in examples for check in plant(example)]
    descriptions = {check.id: check.description for check in checks}
    reports, rejections = check_conditions(descriptions, settings, "planted errors")
    finish_estimate(settings.usage)
    lines = _lines(checks, reports, rejections)
    write_whole(out / CHECKED, clean_text(json_lines(lines)))
    return [accuracy(kind, checks, reports) for kind in KINDS], rejections


def plant(example: Example) -> Iterator[Planted]:
    """Yield a description with an error of each kind, chosen by its key.

    A description that mentions all the states gets no missing condition.

    Raises:
        LmmsEgoplanError: The problem is not valid BDDL.
    """
    key = f"{example.activity}/{example.description}"
    problem = parse_problem(example.bddl, key)
    conditions = list(problem.conditions)
    added = _added_condition(problem, example.text, key)
    if added is not None:
        position = _choose(f"{key} position", len(conditions) + 1)
        longer = [*conditions[:position], added, *conditions[position:]]
        changed = Description(_with_conditions(problem, longer), example.text)
        yield Planted(f"{key}, missing", "missing", position, changed)
    position = _choose(f"{key} negated", len(conditions))
    conditions[position] = _negation(conditions[position])
    changed = Description(_with_conditions(problem, conditions), example.text)
    yield Planted(f"{key}, contradicted", "contradicted", position, changed)


def accuracy(kind: str, checks: Sequence[Planted], reports: Mapping[str, Report]) -> Accuracy:
    """Count planted, reported and rightly reported conditions, over the checks with a report."""
    planted = 0
    reported = 0
    right = 0
    for check in checks:
        if check.kind == kind and check.id in reports:
            positions = _positions(reports[check.id], kind)
            planted += 1
            reported += len(positions)
            right += check.position in positions
    return Accuracy(kind, planted, reported, right)


def summary_lines(
    accuracies: Sequence[Accuracy], rejections: Sequence[Rejection], out: Path
) -> Iterator[str]:
    """Yield the lines that the command prints after `check_released`."""
    for result in accuracies:
        yield (
            f"{result.kind}: precision {_percent(result.precision)} ({result.right} of "
            f"{result.reported} reported conditions are planted), recall "
            f"{_percent(result.recall)} ({result.right} of {result.planted} planted conditions "
            "are reported)"
        )
    yield (
        "All other conditions count as stated. Some released descriptions do lack conditions, so "
        "precision is a lower bound."
    )
    if rejections:
        yield f"Without a usable reply, not counted: {len(rejections)}"
    yield f"Details: {out / CHECKED}"


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"


def _lines(
    checks: Sequence[Planted], reports: Mapping[str, Report], rejections: Sequence[Rejection]
) -> Iterator[dict[str, Any]]:
    unusable = {rejection.where: asdict(rejection) for rejection in rejections}
    for check in checks:
        conditions = check.description.conditions
        line: dict[str, Any] = {"id": check.id, "planted": str(conditions[check.position])}
        if check.id in reports:
            for kind in KINDS:
                positions = sorted(_positions(reports[check.id], kind))
                line[kind] = [str(conditions[position]) for position in positions]
        else:
            line["error"] = unusable.get(check.id)
        yield line


def _positions(report: Report, kind: str) -> frozenset[int]:
    return report.missing if kind == "missing" else report.contradicted


def _added_condition(problem: Problem, text: str, key: str) -> Formula | None:
    """Return a condition that neither a problem nor its description mentions."""
    goal_types: set[str] = set()
    for condition in problem.conditions:
        for atom, _, bound in literals_of(condition):
            types = {**problem.types, **bound}
            goal_types.update(types[name] for name in atom.arguments if name in types)
    objects = [
        obj.name
        for obj in problem.objects
        if obj.type in goal_types and lemma_of(obj.type) != _AGENT
    ]
    mentioned = f"{problem} {text}".lower()
    # "burn" and "burnt", "froz" and "frozen": the first four letters.
    states = [state for state in _STATES if state[:4] not in mentioned]
    if not objects or not states:
        return None
    state = states[_choose(f"{key} state", len(states))]
    name = objects[_choose(f"{key} object", len(objects))]
    return Formula(state, arguments=(name,))


def _negation(condition: Formula) -> Formula:
    """Negate a condition, without a double negation."""
    if condition.op == "not":
        return condition.parts[0]
    return Formula("not", (condition,))


def _with_conditions(problem: Problem, conditions: Sequence[Formula]) -> Problem:
    return replace(problem, goal=(Formula("and", tuple(conditions)),))


def _choose(seed: str, count: int) -> int:
    """Return a number from 0 to `count` - 1 that depends only on a text."""
    return int(sha256(seed.encode()).hexdigest(), 16) % count
