"""Guide agents with a model, and write their episodes."""

from pathlib import Path

import typer

from lmms_egoplan.encoder import load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.planner.episode_files import write_episode
from lmms_egoplan.planner.planner import Environment, Episode, Method, Step, run_episode


class Guide:
    """A model that guides agents and writes their episodes.

    Args:
        model: Checkpoint of a vision-language model.
        peft: Folder of an adapter; None without one.
        method: How the model chooses actions.
        beams: Beam width, and number of proposals per step.

    Raises:
        LmmsEgoplanError: The model, its adapter or the sentence encoder cannot be loaded.
    """

    def __init__(self, model: str, peft: Path | None, method: Method, beams: int) -> None:
        from lmms_egoplan.planner.proposals import Proposer, load_model

        self._facts = {"model": model if peft is None else f"{model} with {peft}", "method": method}
        if method == "generate":
            load_encoder()  # needed to interpret free text; load it before the model, to fail early
        self._proposer = Proposer(*load_model(model, peft), beams, method)

    def run(self, world: Environment, goal: str, steps: int, out: Path, **facts: int) -> Episode:
        """Guide an agent, print each step, and write the episode even if it fails.

        Args:
            world: The environment to act in.
            goal: The goal in EgoPlan's wording, see `run_episode`.
            steps: Maximum number of steps.
            out: Output folder.
            facts: Further facts to write, such as a seed.
        """
        episode = run_episode(self._proposer, world, goal, steps, _print)
        page = write_episode(episode, out, **self._facts, **facts)
        num_steps = len(episode.steps)
        typer.echo(
            f"{goal}: {episode.end} after {num_steps} step{'' if num_steps == 1 else 's'}; {page}"
        )
        return episode


def raise_failure(episode: Episode) -> None:
    """Raise the signal that interrupted an episode, or its problem as `LmmsEgoplanError`."""
    if episode.interrupt:
        raise episode.interrupt
    if episode.problem:
        raise LmmsEgoplanError(episode.problem)


def _print(step: Step) -> None:
    typer.echo(
        f"{step.number:3d}. {step.executed.action or step.executed.text}: {step.outcome.message}"
    )
