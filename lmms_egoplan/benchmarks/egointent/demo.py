"""The demo's EgoIntent: the rendered scenes as videos, with annotated steps in the project's form."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from lmms_egoplan.demo.scenes import FPS, PAUSE_FRAMES, SCENES, Scene
from lmms_egoplan.media.frames import write_video

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
    return ["egointent", f"{FOLDER}/{annotations.name}", "--videos", f"{FOLDER}/{_VIDEOS}"]


def _step(scene: Scene, intent: _Intent) -> dict[str, Any]:
    """Times and labels; the truncation point lies between two frames, clear of rounded time stamps."""
    return {
        "start_sec": (scene.span(intent.step)[0] - PAUSE_FRAMES) / FPS,
        "end_sec": (scene.first_change(intent.step) - 0.5) / FPS,
        "local_intent": intent.local_intent,
        "global_intent": intent.global_intent,
        "next_step_plan": scene.steps[intent.step + 1].narration,
    }
