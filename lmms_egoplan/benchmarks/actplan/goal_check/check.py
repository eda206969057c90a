"""One plan's goal check: its conditions reached, not reached, and not checkable; its steps and names understood."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictInt

from lmms_egoplan.benchmarks.actplan.bddl.problems import Problem
from lmms_egoplan.benchmarks.actplan.goal_check.actions import STATES, read_step
from lmms_egoplan.benchmarks.actplan.goal_check.executor import Executor
from lmms_egoplan.benchmarks.actplan.goal_check.goals import grounded, holds, is_checkable
from lmms_egoplan.benchmarks.actplan.goal_check.names import Name
from lmms_egoplan.benchmarks.actplan.goal_check.world import SUPPORTS

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

    >>> from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem
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
