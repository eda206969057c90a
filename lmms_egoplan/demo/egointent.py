"""The demo's EgoIntent: the rendered scenes as videos, with annotated steps in the project's form."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from lmms_egoplan.benchmarks.egointent.fields import FIELDS, TITLES
from lmms_egoplan.demo.scenes import FPS, PAUSE_FRAMES, SCENES, Scene
from lmms_egoplan.frames import write_video

TASKS = ("egointent",)
SCORES = dict.fromkeys(TASKS, "overall")

# Not the task's own name, for which lmms-eval would look here, too.
FOLDER = "egointent-steps"
_VIDEOS = "videos"


class _Intent(NamedTuple):
    """Local and global intent of a scene's step (sec. 3.2); its next-step plan is what the scene goes on with."""

    step: int
    local_intent: str
    global_intent: str


class _Annotated(NamedTuple):
    scenario: str
    environment: str
    intents: tuple[_Intent, ...]


_ANNOTATED = {
    "put away the rice": _Annotated(
        *("Kitchen", "indoor"),
        (
            _Intent(0, "shut the open box, so that nothing falls out", "make the rice ready to be stored"),
            _Intent(3, "shut the open cupboard", "complete storing the rice"),
        ),
    ),
    "drink a glass of juice": _Annotated(
        *("Kitchen", "indoor"),
        (
            _Intent(1, "get the juice out of the fridge", "have the drink within reach of the glass"),
            _Intent(3, "fill the glass with juice", "make the drink ready"),
        ),
    ),
    "make a tomato salad": _Annotated(
        *("Kitchen", "indoor"),
        (
            _Intent(0, "clean the tomato with water", "prepare the tomato for the salad"),
            _Intent(3, "slice the tomato with the knife", "bring the tomato to a size that suits a salad"),
        ),
    ),
    "fry an egg": _Annotated(
        *("Kitchen", "indoor"),
        (
            _Intent(1, "switch on the heat under the pan", "get the pan hot enough for frying"),
            _Intent(2, "cover the bottom of the pan with oil", "keep the egg from sticking to the pan"),
        ),
    ),
    "paint a board": _Annotated(
        *("Yard", "outdoor"),
        (
            _Intent(1, "load the brush with paint", "supply the paint for coating the board"),
            _Intent(3, "lay the brush aside to free the hand", "bring the painting to an end"),
        ),
    ),
    "plant a seedling": _Annotated(
        *("Garden", "outdoor"),
        (
            _Intent(0, "fill the pot with soil", "give the seedling a place to grow in"),
            _Intent(3, "get hold of the watering can", "help the potted seedling to take root"),
        ),
    ),
}


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egointent-steps``: ``steps.jsonl`` with 12 steps, and six H.264 videos.

    A step is shown from the pause before it to the moment in which the hand arrives, before anything has changed
    (sec. 3.3).

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    root = folder / FOLDER
    records: list[dict[str, Any]] = []
    for scene in SCENES:
        video_id = scene.goal.replace(" ", "-")
        write_video(root / _VIDEOS / f"{video_id}.mp4", scene.frames(), FPS)
        scenario, environment, intents = _ANNOTATED[scene.goal]
        place = {"scenario": scenario, "environment": environment, "goal": scene.goal}
        for intent in intents:
            step_id = f"demo-{len(records) + 1:02}"
            records.append({"step_id": step_id, "video_id": video_id} | _step(scene, intent) | place)
    annotations = root / "steps.jsonl"
    annotations.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return ["egointent", "--annotations", f"{FOLDER}/{annotations.name}", "--videos", f"{FOLDER}/{_VIDEOS}"]


def _step(scene: Scene, intent: _Intent) -> dict[str, Any]:
    """Times and labels; the truncation point lies between two frames, clear of rounded time stamps."""
    return {
        "start_sec": (scene.span(intent.step)[0] - PAUSE_FRAMES) / FPS,
        "end_sec": (scene.first_change(intent.step) - 0.5) / FPS,
        "local_intent": intent.local_intent,
        "global_intent": intent.global_intent,
        "next_step_plan": scene.steps[intent.step + 1].narration,
    }


def table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Scores, 0 to 100, overall and by field, and how many fields were found in the replies and judged.

    Args:
        results: metrics by task, with every one of `SCORES`.
    """
    metrics = results[TASKS[0]]
    judge = metrics["judge_model"] if metrics["parsed"] else "not asked, as no reply has a field"
    scores = Table("field", title=f"EgoIntent, judge: {judge}", title_justify="left")
    for column in ("score", "steps", "parsed", "judged"):
        scores.add_column(column, justify="right")
    for field in FIELDS:
        scores.add_row(TITLES[field], f"{metrics[field]:.2f}")
    scores.add_section()
    # Not a number where no field was found.
    judged = metrics["judge_coverage"]
    scores.add_row(
        *("Overall", f"{metrics['overall']:.2f}", str(metrics["num_steps"]), f"{metrics['parsed']:.0%}"),
        f"{judged:.0%}" if math.isfinite(judged) else "-",
    )
    scores.caption = "parsed: share of the fields that the replies have. A missing field scores 0 and is not judged."
    scores.caption_justify = "left"
    return scores
