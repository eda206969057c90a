"""Replay recorded videos with a model, and count how often it proposes the next action."""

from collections.abc import Sequence
from pathlib import Path

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import delete_other_results
from lmms_egoplan.planner.guide import Guide
from lmms_egoplan.planner.planner import Episode
from lmms_egoplan.planner.recorded import RecordedVideo, guesses, step_accuracy


def replay(guide: Guide, videos: Sequence[RecordedVideo], out: Path) -> None:
    """Replay videos, write their episodes, and print the accuracy over all steps.

    Episodes of an earlier run with more videos are deleted at the end. A signal ends the replay
    after its episode is written and the accuracy so far is printed.

    Args:
        guide: The model.
        videos: The videos.
        out: Receives a folder for each video.

    Raises:
        LmmsEgoplanError: A video could not be replayed to its end.
    """
    episodes: list[Episode] = []
    folders = [out / f"{number:04d}" for number in range(1, len(videos) + 1)]
    for video, folder in zip(videos, folders, strict=True):
        episode = guide.run(video, video.goal, video.num_actions, folder)
        episodes.append(episode)
        if episode.interrupt:
            break
    _print_accuracy(episodes, videos)
    if episodes and episodes[-1].interrupt:
        raise episodes[-1].interrupt
    delete_other_results(out, folders)
    failed = [episode for episode in episodes if episode.problem]
    if failed:
        raise LmmsEgoplanError(
            f"{len(failed)} of {len(episodes)} videos could not be replayed to their end; "
            f"their earlier steps count. First problem: {failed[0].problem}"
        )


def _print_accuracy(episodes: Sequence[Episode], videos: Sequence[RecordedVideo]) -> None:
    """Print the accuracy over all steps, next to those of two guesses; nothing without a step."""
    right, steps = step_accuracy(episodes)
    if not steps:
        return
    right_by_chance = 0.0
    right_not_done = 0.0
    for episode, video in zip(episodes, videos, strict=False):
        by_chance, not_done = guesses(episode, video.actions)
        right_by_chance += by_chance
        right_not_done += not_done
    typer.echo(
        f"Next action right: {right} of {steps} steps ({right / steps:.3f}; by chance "
        f"{right_by_chance / steps:.3f}, not done yet {right_not_done / steps:.3f}) in "
        f"{len(episodes)} videos"
    )
