"""One plan's goal check: conditions reached, missed and not checkable; and how far such checks agree with people."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictInt

from lmms_egoplan.benchmarks.actplan.bddl import Problem, read_problem
from lmms_egoplan.benchmarks.actplan.goal_check.executor import Executor
from lmms_egoplan.benchmarks.actplan.goal_check.steps import STATES, Name, read_step
from lmms_egoplan.benchmarks.actplan.goal_check.world import SUPPORTS, grounded, holds, is_checkable
from lmms_egoplan.benchmarks.actplan.labelled_plans import LabelledInstance
from lmms_egoplan.benchmarks.actplan.records import check_folder, problem_path
from lmms_egoplan.benchmarks.actplan.reply import one_per_line, parsed_steps
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track

REACHABLE = SUPPORTS | {"under"} | {state for states in STATES.values() for state in states}
"""The predicates that understood actions decide.

``nextto`` and ``touching`` are not among them: the main actions (sec. 3.1) put things on and in others, and do not say
how near these then are. ``burnt`` is not: no action burns.
"""

_Count = Annotated[StrictInt, Field(ge=0)]


@dataclass(frozen=True)
class GoalCheck:
    """What a plan reaches.

    reached, missed: Goal conditions of objects (`grounded`) that hold at the plan's end, and that do not.
    unchecked: Conditions that cannot be checked: no action decides their predicates, or names are not declared.
    steps: Number of the plan's steps.
    understood: Number of steps whose action is known.
    names: Number of names in the understood steps that do something.
    named: Number of these names that fit an object or a room of the problem.
    """

    reached: tuple[str, ...]
    missed: tuple[str, ...]
    unchecked: tuple[str, ...]
    steps: _Count
    understood: _Count
    names: _Count
    named: _Count

    @property
    def share(self) -> float | None:
        """Share of the checkable conditions that are reached, in [0, 1].

        None without such a condition, without a step that is understood, and if no name fits the problem.
        """
        checked = len(self.reached) + len(self.missed)
        return len(self.reached) / checked if checked and self.understood and self.named else None

    @property
    def coverage(self) -> float:
        """Share of all conditions that `share` is over, in [0, 1]."""
        checked = len(self.reached) + len(self.missed)
        return 0.0 if self.share is None else checked / (checked + len(self.unchecked))


def check_goal(problem: Problem, steps: Sequence[str]) -> GoalCheck:
    """Carry out a plan from the initial facts on.

    Args:
        steps: As `reply.parsed_steps` finds them.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01 box.n.01_1 - box.n.01)"
    ...     "(:init (dusty cup.n.01_1)) (:goal (and (inside ?cup.n.01_1 ?box.n.01_1) (not (dusty ?cup.n.01_1)))))",
    ...     "problem0.bddl",
    ... )
    >>> check = check_goal(problem, ["walk_to(cup)", "grab(cup)", "walk_to(box)", "place_inside(box, cup)"])
    >>> check.share, check.missed
    (0.5, ('(not (dusty ?cup.n.01_1))',))
    """
    executor = Executor(problem)
    understood = [step for text in steps if (step := read_step(text)) is not None]
    names = [name for step in understood if step.effect != "nothing" for name in map(Name.of, step.names)]
    for step in understood:
        executor.do(step)
    conditions = grounded(problem)
    checkable = [condition for condition in conditions if is_checkable(problem, condition, REACHABLE)]
    reached = [each for each in checkable if holds(problem, each.formula, executor.world, dict(each.bound))]
    return GoalCheck(
        reached=tuple(map(str, reached)),
        missed=tuple(str(condition) for condition in checkable if condition not in reached),
        unchecked=tuple(str(condition) for condition in conditions if condition not in checkable),
        steps=len(steps),
        understood=len(understood),
        names=len(names),
        named=sum(map(executor.fits, names)),
    )


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that people have judged, with its goal check.

    setting: ``normal`` or ``counterfactual``.
    correct: What people said (sec. 4.1).
    check: None if the folder has no readable problem for the activity.
    """

    setting: str
    correct: bool
    check: GoalCheck | None


def check_labelled(instances: Sequence[LabelledInstance], folder: Path) -> tuple[list[CheckedPlan], list[str]]:
    """Check labelled plans on their activities' problems.

    Args:
        folder: Has problems in one of `records.LAYOUTS`.

    Returns:
        The plans in their order, and what is wrong with missing or damaged problems, each once.

    Raises:
        LmmsEgoplanError: The folder has no problem at all, or none of these activities'.
    """
    check_folder(folder)
    problems: dict[Path, Problem | None] = {}
    wrong: list[str] = []
    checked: list[CheckedPlan] = []
    for instance in track(instances, "Checking plans"):
        path = problem_path(folder, instance.id)
        if path is None:
            wrong.append(f"{instance.id.activity}: no problem{instance.id.description}.bddl in {folder}")
        elif path not in problems:
            try:
                problems[path] = read_problem(path)
            except LmmsEgoplanError as error:
                problems[path] = None
                wrong.append(str(error))
        problem = problems[path] if path else None
        for plan in instance.plans:
            check = check_goal(problem, parsed_steps(one_per_line(plan.text))) if problem else None
            checked.append(CheckedPlan(instance.id.setting, plan.correct, check))
    if all(plan.check is None for plan in checked):
        raise LmmsEgoplanError(f"{folder}: no problem in it for any of the plans; the first: {wrong[0]}")
    return checked, list(dict.fromkeys(wrong))


def agreement(plans: Sequence[CheckedPlan]) -> dict[str, float | None]:
    """Compare checks with people; "correct by the check" are plans that reach all checkable conditions.

    Returns:
        ``plans``: all; ``checked``: those with a value (`GoalCheck.share`), which the following are over. ``correct``:
        share that people call correct; ``reached``: share that the check does. ``accuracy`` of the check's verdict.
        ``mcc``: Matthews' correlation of the two; None if people say the same of all plans. ``auc`` of the share of
        conditions reached, as a score; None as ``mcc``. ``always_wrong``: the accuracy of calling every plan wrong; of
        calling it right, ``correct``. ``condition_coverage``: checkable conditions, of all conditions of all plans with
        a problem. ``step_coverage``: understood steps, of all steps of these plans. ``name_coverage``: names that fit
        the problem, of all names in the understood steps of these plans. Figures over nothing are None.

    >>> right = GoalCheck(("(open ?box.n.01_1)",), (), (), 1, 1, 1, 1)
    >>> wrong = GoalCheck((), ("(open ?box.n.01_1)",), (), 1, 1, 1, 1)
    >>> figures = agreement([CheckedPlan("normal", True, right), CheckedPlan("normal", False, wrong)])
    >>> figures["accuracy"], figures["auc"], figures["always_wrong"]
    (1.0, 1.0, 0.5)
    """
    from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

    checks = [plan.check for plan in plans if plan.check is not None]
    checkable = sum(len(check.reached + check.missed) for check in checks)
    scored = [(plan.correct, check.share) for plan in plans if (check := plan.check) and check.share is not None]
    labels, shares = [label for label, _ in scored], [share for _, share in scored]
    verdicts = [share == 1 for share in shares]
    correct = _share(sum(labels), len(labels))
    has_both = len(set(labels)) > 1
    return {
        "plans": len(plans),
        "checked": len(scored),
        "correct": correct,
        "reached": _share(sum(verdicts), len(verdicts)),
        "accuracy": float(accuracy_score(labels, verdicts)) if scored else None,
        "mcc": float(matthews_corrcoef(labels, verdicts)) if has_both else None,
        "auc": float(roc_auc_score(labels, shares)) if has_both else None,
        "always_wrong": None if correct is None else 1 - correct,
        "condition_coverage": _share(checkable, checkable + sum(len(check.unchecked) for check in checks)),
        "step_coverage": _share(sum(check.understood for check in checks), sum(check.steps for check in checks)),
        "name_coverage": _share(sum(check.named for check in checks), sum(check.names for check in checks)),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
