"""The loop: look, propose, carry the best proposal out, until the goal is reached or nothing is left to try.

EgoPlan-Bench's first version guides an agent so (arXiv 2312.06722v1, Applications in guiding embodied agents): each
next action from goal, progress and current view, by beam search of width five, of which the top one is carried out.
`Environment` is what it acts in.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.protocol import QUESTION
from lmms_egoplan.benchmarks.egoplan.visuals import FRAMES_PER_CLIP, NUM_CLIPS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.media.sampling import evenly_spaced


@dataclass(frozen=True)
class Outcome:
    """What became of an action.

    changed: anything is different now. message: what happened, in words. clip: the action as it was seen,
    oldest frame first; empty where nothing was to be seen. done: the action that the clip shows, where that is another
    one than the one asked for, as in a recorded video. past: clips of the latest actions, in place of the clips of
    earlier outcomes and this one; None if those stay as they are.
    """

    changed: bool
    message: str
    clip: Clip
    done: str | None = None
    past: Sequence[Clip] | None = None


class Environment(Protocol):
    """A place to act in, seen from the agent's eyes.

    Whatever a method raises ends the episode as ``environment failed``; its message becomes the episode's problem.
    """

    name: str

    def observe(self) -> Image.Image:
        """Return the current view, RGB."""

    def actions(self) -> Sequence[str] | None:
        """Return what can be asked for now, in words, all different; None if any text will do."""

    def execute(self, action: str) -> Outcome:
        """Carry an action out.

        Args:
            action: one of `actions`, or, of a model that writes freely, a text that is like none of them.
        """

    def done(self) -> bool:
        """Tell if the goal is reached, or, in a recording, its end."""


logger = logging.getLogger(__name__)

# The project's own.
MAX_STEPS = 20

# How an episode ends.
DONE, BUDGET, STUCK = "done", "out of steps", "nothing left to try"
ENVIRONMENT_FAILED, MODEL_FAILED, INTERRUPTED = "environment failed", "model failed", "interrupted"


@dataclass(frozen=True)
class Proposal:
    """One proposal.

    text: as the model put it. logprob: the sum over its `num_tokens` tokens, in nats. action: what it means among the
    environment's actions; None for none of them. similarity: of the two, cosine in [-1, 1].
    """

    text: str
    logprob: float
    num_tokens: int
    action: str | None
    similarity: float | None = None


class Proposes(Protocol):
    """A source of proposals: `Proposer`, or anything else, such as an oracle."""

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, place: str
    ) -> list[Proposal]:
        """Return proposals, the best first; none if there is nothing to do."""


@dataclass(frozen=True)
class Step:
    """One round of the loop.

    view: what was seen before. proposals: of the model, the likeliest first. tried: the one that was carried out, of
    those not tried in vain since anything changed. outcome: what became of it. model_seconds, action_seconds: of wall
    time.
    """

    number: int
    view: Image.Image
    proposals: list[Proposal]
    tried: Proposal
    outcome: Outcome
    model_seconds: float
    action_seconds: float


@dataclass
class Episode:
    """All steps towards one goal, and how it ended.

    end: ``done``, which the environment decides, ``out of steps``, ``nothing left to try``, ``environment failed``,
    ``model failed`` or ``interrupted``.
    problem: what failed, in words; None where nothing did. last_view: after the last step; None where something failed.
    interrupt: Ctrl-C or another signal that ended it, for the caller to raise once the episode is kept; else None.
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
        """True if the environment is done: a goal that is reached, or a recording's end."""
        return self.end == DONE


def run_episode(
    proposer: Proposes,
    environment: Environment,
    goal: str,
    max_steps: int = MAX_STEPS,
    frames_per_clip: int = FRAMES_PER_CLIP,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Episode:
    """Guide an agent to a goal.

    The prompt is EgoPlan's question with the goal, after clips of the last 4 actions that changed anything, and the
    current view (as in ``egoplan_val_clips``).

    A proposal that changed nothing is not tried again before something has changed; the next best one is. One that
    means none of the environment's actions is handed to it as it is, and takes a step of the budget, too.

    Args:
        goal: as EgoPlan words it, after "in order to": ``heat water``.
        max_steps: budget, at least 1.
        frames_per_clip: frames of each past action, at least 1.
        on_step: called with every step at its end.

    Returns:
        The episode; where the environment or the proposer fails or a signal comes, with the steps up to then, and why.

    Raises:
        ValueError: a number below 1.
        LmmsEgoplanError: the goal is empty.
    """
    for name, number in (("max_steps", max_steps), ("frames_per_clip", frames_per_clip)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if not goal.strip():
        raise LmmsEgoplanError("the goal is empty; say what is to be reached, such as: heat water")
    episode = Episode(goal, environment.name)
    try:
        for step in _steps(proposer, environment, episode, max_steps, frames_per_clip):
            episode.steps.append(step)
            on_step(step)
        with _ending(ENVIRONMENT_FAILED):
            episode.last_view = environment.observe()
    except _EndedError as ended:
        # A goal that was reached stays so without a last view.
        episode.end = episode.end if episode.is_success else ended.end
        episode.problem = str(ended)
    except KeyboardInterrupt as interrupt:
        episode.end, episode.interrupt = episode.end if episode.is_success else INTERRUPTED, interrupt
    return episode


def _steps(
    proposer: Proposes, environment: Environment, episode: Episode, max_steps: int, frames_per_clip: int
) -> Iterator[Step]:
    past: list[Clip] = []
    in_vain: set[str] = set()
    for number in range(1, max_steps + 1):
        with _ending(ENVIRONMENT_FAILED):
            if environment.done():
                break
            view, actions = environment.observe(), environment.actions()
        started = time.monotonic()
        visuals = [*(_thinned(clip, frames_per_clip) for clip in past[-NUM_CLIPS:]), view]
        question, place = QUESTION.format(goal=episode.goal), f"{episode.goal}, step {number}"
        with _ending(MODEL_FAILED):
            proposals = proposer.propose(question, visuals, actions, place)
        tried = next((one for one in proposals if (one.action or one.text) not in in_vain), None)
        if tried is None:
            episode.end = STUCK
            return
        proposed = time.monotonic()
        with _ending(ENVIRONMENT_FAILED):
            outcome = environment.execute(tried.action or tried.text)
        if outcome.changed:
            in_vain.clear()
            past = [*past, outcome.clip or Clip([view])] if outcome.past is None else list(outcome.past)
        else:
            in_vain.add(tried.action or tried.text)
        yield Step(number, view, proposals, tried, outcome, proposed - started, time.monotonic() - proposed)
    with _ending(ENVIRONMENT_FAILED):
        if environment.done():
            episode.end = DONE


class _EndedError(Exception):
    """What fails in an episode ends it; the message is its `problem`."""

    def __init__(self, end: str, problem: str) -> None:
        super().__init__(problem)
        self.end = end


@contextmanager
def _ending(end: str) -> Iterator[None]:
    """End the episode so if anything fails here, including other people's environments and models."""
    try:
        yield
    except LmmsEgoplanError as error:
        raise _EndedError(end, str(error)) from error
    except Exception as error:
        logger.warning("%s", end, exc_info=True)
        raise _EndedError(end, f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def _thinned(clip: Clip, count: int) -> Clip:
    """Return a clip of so many frames, evenly spaced, as EgoPlan's; short clips repeat some."""
    last = len(clip) - 1
    fps = clip.fps * (count - 1) / last if clip.fps and last and count > 1 else None
    return Clip((clip[position] for position in evenly_spaced(0, last, count)), fps)
