"""The demo's EgoIntent: the rendered scenes as videos, with annotated steps in the project's form."""

import json
from pathlib import Path
from typing import Any

from lmms_egoplan.coverage import RENDERED_SCENES
from lmms_egoplan.demo.scenes import FPS, PAUSE_FRAMES, SCENES, Scene
from lmms_egoplan.media.frames import write_video
from lmms_egoplan.paths import rows_beside

TASKS = ("egointent",)
SCORES = dict.fromkeys(TASKS, "overall")

# Not the task's own name, for which lmms-eval would look here, too.
FOLDER = "egointent-steps"
ANNOTATIONS, VIDEOS = "steps.jsonl", "videos"


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egointent-steps``: ``steps.jsonl`` with 12 steps, and six H.264 videos.

    A step is shown from the pause before it to the moment in which the hand arrives, before anything has changed
    (sec. 3.3).

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    root = folder / FOLDER
    # Labels of some of the scenes' steps (sec. 3.2); a step's next-step plan is what the scene goes on with.
    rows = rows_beside(__file__)
    records: list[dict[str, Any]] = []
    for scene in SCENES:
        video_id = scene.goal.replace(" ", "-")
        write_video(root / VIDEOS / f"{video_id}.mp4", scene.frames(), FPS)
        for row in (row for row in rows if row["goal"] == scene.goal):
            place = {name: row[name] for name in ("scenario", "environment", "goal")} | {"origin": RENDERED_SCENES}
            records.append({"step_id": f"demo-{len(records) + 1:02}", "video_id": video_id} | _step(scene, row) | place)
    annotations = root / ANNOTATIONS
    annotations.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return ["egointent", f"{FOLDER}/{ANNOTATIONS}", "--videos", f"{FOLDER}/{VIDEOS}"]


def _step(scene: Scene, row: dict[str, str]) -> dict[str, Any]:
    """Return times and labels; the truncation point lies between two frames, clear of rounded time stamps."""
    step = int(row["step"])
    return {
        "start_sec": (scene.span(step)[0] - PAUSE_FRAMES) / FPS,
        "end_sec": (scene.first_change(step) - 0.5) / FPS,
        "local_intent": row["local_intent"],
        "global_intent": row["global_intent"],
        "next_step_plan": scene.steps[step + 1].narration,
    }
