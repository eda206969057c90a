"""Run one planning episode: observe, propose actions, execute the best one, repeat.

This is how EgoPlan-Bench's first version guides an agent (arXiv 2312.06722v1, Applications in
guiding embodied agents). The model proposes the next action from goal, progress and current view,
by beam search of width five. The best proposal is executed in an `Environment`.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.frames import FRAMES_PER_CLIP, NUM_CLIPS
from lmms_egoplan.benchmarks.egoplan.prompts import QUESTION
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.media.sampling import evenly_spaced


@dataclass(frozen=True)
class ActionOutcome:
    """The result of an action.

    Attributes:
        changed: True if anything in the environment changed.
        message: The result in words.
        clip: The action as seen, oldest frame first; empty if there was nothing to see.
        real_action: The action that the clip shows, if the environment does not follow requests,
            as a recorded video; else None.
        past: Clips of the latest actions, which replace the clips of all outcomes so far; None to
            keep those.
    """

    changed: bool
    message: str
    clip: Clip
    real_action: str | None = None
    past: Sequence[Clip] | None = None


@dataclass(frozen=True)
class Status:
    """The possible actions, and whether the goal is reached.

    Attributes:
        actions: The actions that are possible now, in words, without duplicates. None if any text
            is allowed.
        done: True if the goal, or the end of a recording, is reached.
    """

    actions: Sequence[str] | None
    done: bool


class Environment(Protocol):
    """An environment to act in, seen through the agent's eyes.

    Any exception from a method ends the episode as ``environment failed``. Its message becomes the
    episode's problem.

    Attributes:
        name: Name of the environment, for the episode's page.
    """

    name: str

    def status(self) -> Status:
        """Return the possible actions, and whether the goal is reached."""

    def observe(self) -> Image.Image:
        """Return the current view, RGB."""

    def execute(self, action: str) -> ActionOutcome:
        """Execute an action.

        Args:
            action: One of the possible actions, or a model's text that is not similar enough to any
                of them.
        """


logger = logging.getLogger(__name__)

# This project's default, not the paper's.
MAX_STEPS = 20

Method = Literal["generate", "rank"]
"""How a model chooses actions.

It writes freely, or ranks the environment's actions by their likelihood.
"""

# The ways in which an episode can end.
DONE = "done"
BUDGET = "out of steps"
STUCK = "nothing left to try"
ENVIRONMENT_FAILED = "environment failed"
MODEL_FAILED = "model failed"
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Proposal:
    """One proposal.

    Attributes:
        text: The model's words.
        logprob: Sum over the text's tokens, in nats.
        num_tokens: Number of tokens.
        action: The environment's action that matches the text; None if no action matches.
        similarity: Cosine of text and action, in [-1, 1].
    """

    text: str
    logprob: float
    num_tokens: int
    action: str | None
    similarity: float | None = None


class ActionProposer(Protocol):
    """Anything that proposes actions: the model's `Proposer`, or an oracle in tests."""

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, step_name: str
    ) -> list[Proposal]:
        """Return proposals, best first; an empty list if there is nothing to do."""


@dataclass(frozen=True)
class Step:
    """One iteration of an episode.

    Attributes:
        number: Number of the step, from 1.
        view: The camera image before the action.
        proposals: The model's proposals, most likely first.
        executed: The best proposal that has not failed since the scene last changed.
        outcome: The result that the environment reported.
        model_seconds, action_seconds: Wall time of model and action.
    """

    number: int
    view: Image.Image
    proposals: list[Proposal]
    executed: Proposal
    outcome: ActionOutcome
    model_seconds: float
    action_seconds: float


@dataclass
class Episode:
    """All steps towards one goal, and how the episode ended.

    Attributes:
        goal: The goal in words.
        environment: Name of the environment.
        steps: The steps.
        end: ``done`` (decided by the environment), ``out of steps``, ``nothing left to try``,
            ``environment failed``, ``model failed`` or ``interrupted``.
        problem: The failure in words; None without a failure.
        last_view: The view after the last step; None after a failure.
        interrupt: Ctrl-C or another signal that ended the episode, for the caller to raise after
            saving; else None.
    """

    goal: str
    environment: str
    steps: list[Step] = field(default_factory=list)
    end: str = BUDGET
    problem: str | None = None
    last_view: Image.Image | None = None
    interrupt: KeyboardInterrupt | None = None

    @property
    def is_success(self) -> bool:
        """True if the goal, or the end of a recording, was reached."""
        return self.end == DONE


def run_episode(
    proposer: ActionProposer,
    environment: Environment,
    goal: str,
    max_steps: int = MAX_STEPS,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Episode:
    """Guide an agent to a goal.

    The prompt consists of clips of the last 4 actions that changed anything, the current view, and
    EgoPlan's question with the goal (as in ``egoplan_val_clips``).

    A proposal that changed nothing is not executed again until something has changed; the next best
    one is used instead. A proposal that means none of the environment's actions is passed on
    unchanged, and costs a step.

    Args:
        proposer: Source of proposals.
        environment: The environment to act in.
        goal: The goal in EgoPlan's wording, after "in order to": ``heat water``.
        max_steps: Maximum number of steps, at least 1.
        on_step: Called with each step after it has ended.

    Returns:
        The episode. If the environment or the proposer fails, or a signal arrives, it contains the
        steps until then and the reason.

    Raises:
        LmmsEgoplanError: The goal is empty.
    """
    if not goal.strip():
        raise LmmsEgoplanError("the goal is empty; set one, such as: heat water")
    episode = Episode(goal, environment.name)
    try:
        for step in _steps(proposer, environment, episode, max_steps):
            episode.steps.append(step)
            on_step(step)
        with _ending(ENVIRONMENT_FAILED):
            episode.last_view = environment.observe()
    except _EndedError as ended:
        # A reached goal stays reached if the last view fails.
        episode.end = episode.end if episode.is_success else ended.end
        episode.problem = str(ended)
    except KeyboardInterrupt as interrupt:
        episode.end = episode.end if episode.is_success else INTERRUPTED
        episode.interrupt = interrupt
    return episode


def _steps(
    proposer: ActionProposer, world: Environment, episode: Episode, max_steps: int
) -> Iterator[Step]:
    past: list[Clip] = []
    failed_actions: set[str] = set()
    for number in range(1, max_steps + 1):
        with _ending(ENVIRONMENT_FAILED):
            status = world.status()
            if status.done:
                break
            view = world.observe()
        started = time.monotonic()
        visuals = [*map(_thinned, past[-NUM_CLIPS:]), view]
        question = QUESTION.format(goal=episode.goal)
        step_name = f"{episode.goal}, step {number}"
        with _ending(MODEL_FAILED):
            proposals = proposer.propose(question, visuals, status.actions, step_name)
        untried = [item for item in proposals if (item.action or item.text) not in failed_actions]
        if not untried:
            episode.end = STUCK
            return
        executed = untried[0]
        proposed = time.monotonic()
        with _ending(ENVIRONMENT_FAILED):
            outcome = world.execute(executed.action or executed.text)
        if outcome.changed:
            failed_actions.clear()
            if outcome.past is None:
                past = [*past, outcome.clip or Clip([view])]
            else:
                past = list(outcome.past)
        else:
            failed_actions.add(executed.action or executed.text)
        yield Step(
            number,
            view,
            proposals,
            executed,
            outcome,
            proposed - started,
            time.monotonic() - proposed,
        )
    with _ending(ENVIRONMENT_FAILED):
        if world.status().done:
            episode.end = DONE


class _EndedError(Exception):
    """A failure that ends an episode. The message becomes the episode's `problem`."""

    def __init__(self, end: str, problem: str) -> None:
        super().__init__(problem)
        self.end = end


@contextmanager
def _ending(end: str) -> Iterator[None]:
    """Convert any exception to an `_EndedError`.

    Third-party environments and models may raise any.
    """
    try:
        yield
    except LmmsEgoplanError as error:
        raise _EndedError(end, str(error)) from error
    except Exception as error:
        logger.warning("%s", end, exc_info=True)
        raise _EndedError(end, f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def _thinned(clip: Clip) -> Clip:
    """Return a clip of evenly spaced frames, as many as in EgoPlan. Short clips repeat frames."""
    last = len(clip) - 1
    fps = clip.fps * (FRAMES_PER_CLIP - 1) / last if clip.fps and last else None
    return Clip((clip[position] for position in evenly_spaced(0, last, FRAMES_PER_CLIP)), fps)
