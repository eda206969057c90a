"""How far the goal check agrees with people: the labelled plans, checked, and the figures of the agreement."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.activities import parse_id
from lmms_egoplan.benchmarks.actplan.bddl.files import check_folder, problem_path
from lmms_egoplan.benchmarks.actplan.bddl.parser import read_problem
from lmms_egoplan.benchmarks.actplan.bddl.problems import Problem
from lmms_egoplan.benchmarks.actplan.goal_check.check import GoalCheck, check_goal
from lmms_egoplan.benchmarks.actplan.labelled_plans import LabelledInstance
from lmms_egoplan.benchmarks.actplan.reply import one_per_line, parsed_steps
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track


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
