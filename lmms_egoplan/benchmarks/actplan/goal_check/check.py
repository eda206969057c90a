"""One plan's goal check: conditions reached, missed and not checkable; and how far such checks agree with people."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictInt

from lmms_egoplan.benchmarks.actplan.activities import parse_id
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

``nextto`` and ``touching`` are not among them: the main actions (sec. 3.1) put things on and in others, and do not tell
how near these then are. ``burnt`` is not: no action burns.
"""

_Count = Annotated[StrictInt, Field(ge=0)]


@dataclass(frozen=True)
class GoalCheck:
    """What a plan reaches.

    reached, missed: goal conditions of objects (`goals.grounded`) that hold at the plan's end, and that do not.
    unchecked: those that cannot be told, since actions do not decide their predicates, or names are not declared.
    steps: of the plan.
    understood: of these, steps whose action is known.
    names: in the understood steps that do something. named: of these, names that fit an object or a room of the
        problem. None in records of task versions before 1.3.
    """

    reached: tuple[str, ...]
    missed: tuple[str, ...]
    unchecked: tuple[str, ...]
    steps: _Count
    understood: _Count
    names: _Count | None = None
    named: _Count | None = None

    @property
    def share(self) -> float | None:
        """Share of the checkable conditions that are reached, in [0, 1].

        None without such a condition, without a step that is understood, and if no name fits the problem.
        """
        checked = len(self.reached) + len(self.missed)
        return len(self.reached) / checked if checked and self.understood and self.named != 0 else None

    @property
    def coverage(self) -> float:
        """Share of all conditions that `share` is over, in [0, 1]."""
        checked = len(self.reached) + len(self.missed)
        return 0.0 if self.share is None else checked / (checked + len(self.unchecked))


def check_goal(problem: Problem, steps: Sequence[str]) -> GoalCheck:
    """Carry out a plan from the initial facts on.

    Args:
        steps: as `reply.parsed_steps` finds them.

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
    reached, missed, unchecked = [], [], []
    for condition in grounded(problem):
        if not is_checkable(problem, condition, REACHABLE):
            unchecked.append(str(condition))
        elif holds(problem, condition.formula, executor.world, dict(condition.bound)):
            reached.append(str(condition))
        else:
            missed.append(str(condition))
    counts = (len(steps), len(understood), len(names), sum(map(executor.fits, names)))
    return GoalCheck(tuple(reached), tuple(missed), tuple(unchecked), *counts)


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that people have judged, with its goal check.

    id: of its instance.
    setting: ``normal`` or ``counterfactual``.
    correct: what people said (sec. 4.1).
    check: None where the folder has no problem that can be read for the activity.
    """

    id: str
    setting: str
    correct: bool
    check: GoalCheck | None


def check_labelled(instances: Sequence[LabelledInstance], folder: Path) -> tuple[list[CheckedPlan], list[str]]:
    """Check labelled plans on their activities' problems.

    Args:
        folder: with problems in one of `files.LAYOUTS`.

    Returns:
        The plans in their order, and what is wrong with problems that are absent or damaged, each once.

    Raises:
        LmmsEgoplanError: the folder has no problem at all, or none of these activities'.
    """
    check_folder(folder)
    read: dict[Path, Problem | None] = {}
    wrong: list[str] = []
    checked: list[CheckedPlan] = []
    for instance in track(instances, "Checking plans"):
        place = parse_id(instance.id)
        path = problem_path(folder, place)
        if path is None:
            wrong.append(f"{place.activity}: no problem{place.description}.bddl in {folder}")
        elif path not in read:
            try:
                read[path] = read_problem(path)
            except LmmsEgoplanError as error:
                read[path] = None
                wrong.append(str(error))
        problem = None if path is None else read[path]
        for plan in instance.plans:
            check = None if problem is None else check_goal(problem, parsed_steps(one_per_line(plan.text)))
            checked.append(CheckedPlan(instance.id, place.setting, plan.correct, check))
    if all(plan.check is None for plan in checked):
        raise LmmsEgoplanError(f"{folder}: no problem in it for any of the plans; the first: {wrong[0]}")
    return checked, list(dict.fromkeys(wrong))


def agreement(plans: Sequence[CheckedPlan]) -> dict[str, float | None]:
    """Return the figures over some plans; "correct by the check" are those that reach all checkable conditions.

    Returns:
        ``plans``: all; ``checked``: those with a value (`GoalCheck.share`), which the following are over. ``correct``:
        share that people call correct; ``reached``: share that the check does. ``accuracy`` of the check's verdict.
        ``mcc``: Matthews' correlation of the two; None where people say the same of all plans. ``auc`` of the share of
        conditions reached, as a score; None as ``mcc``. ``always_wrong``: the accuracy of calling every plan wrong; of
        calling it right, ``correct``. ``condition_coverage``: checkable conditions, of all conditions of all plans with
        a problem. ``step_coverage``: understood steps, of all steps of these plans. ``name_coverage``: names that fit
        the problem, of all names in the understood steps of these plans. Figures are None where they are over nothing.

    >>> right = GoalCheck(("(open ?box.n.01_1)",), (), (), 1, 1)
    >>> wrong = GoalCheck((), ("(open ?box.n.01_1)",), (), 1, 1)
    >>> plans = [CheckedPlan("a", "normal", True, right), CheckedPlan("b", "normal", False, wrong)]
    >>> figures = agreement(plans)
    >>> figures["accuracy"], figures["auc"], figures["always_wrong"]
    (1.0, 1.0, 0.5)
    """
    from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

    checks = [plan.check for plan in plans if plan.check is not None]
    checkable = sum(len(check.reached + check.missed) for check in checks)
    scored = [(plan.correct, check.share) for plan in plans if (check := plan.check) and check.share is not None]
    said, shares = [label for label, _ in scored], [share for _, share in scored]
    verdicts = [share == 1 for share in shares]
    correct = _share(sum(said), len(said))
    both = len(set(said)) > 1
    return {
        "plans": len(plans),
        "checked": len(scored),
        "correct": correct,
        "reached": _share(sum(verdicts), len(verdicts)),
        "accuracy": float(accuracy_score(said, verdicts)) if scored else None,
        "mcc": float(matthews_corrcoef(said, verdicts)) if both else None,
        "auc": float(roc_auc_score(said, shares)) if both else None,
        "always_wrong": None if correct is None else 1 - correct,
        "condition_coverage": _share(checkable, checkable + sum(len(check.unchecked) for check in checks)),
        "step_coverage": _share(sum(check.understood for check in checks), sum(check.steps for check in checks)),
        "name_coverage": _share(sum(check.named or 0 for check in checks), sum(check.names or 0 for check in checks)),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
