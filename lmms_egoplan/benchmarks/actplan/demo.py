"""The demo's ActPlan-1K: the rendered scenes as household activities, in the full release's layout."""

from pathlib import Path

from PIL import Image

from lmms_egoplan.benchmarks.actplan.instances import ORIGIN
from lmms_egoplan.coverage import RENDERED_SCENES
from lmms_egoplan.demo.scenes import SCENES
from lmms_egoplan.paths import rows_beside, yaml_beside

TASKS = ("actplan_bench",)
SCORES = dict.fromkeys(("actplan", "actplan_text_only"), "lcs_norm")

# Not the tasks' own name, for which lmms-eval would look here, too.
FOLDER = "actplan-annotation"
_ROOM = "Rendered_0_int"
# How task descriptions of the release end.
_INSTRUCTION = (
    "Generate admissible procedural plans without natural language using the planning steps described with "
    "action(object). The available actions include walk_to, place_on_top, grab, place_inside, open/close, and "
    "switch-on/off."
)


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/actplan-annotation``: six instances with three views each.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    scenes = {scene.goal: scene for scene in SCENES}
    problems = yaml_beside(__file__)
    # Activities in the scene with a goal; the plans have one step per blank after a bracket.
    for row in rows_beside(__file__):
        description = folder / FOLDER / _ROOM / row["activity"] / row["description"]
        sample = description / "sample_0"
        sample.mkdir(parents=True)
        text = f"{row['task']}\n{_INSTRUCTION}\n"
        (description / f"task_description_{row['description']}.txt").write_text(text, encoding="utf-8")
        for number, view in enumerate(_views(next(scenes[row["goal"]].frames()))):
            view.save(sample / f"{number:05}.png")
        problem = problems[f"{row['activity']}/{row['description']}"]
        (description / f"problem{row['description']}.bddl").write_text(problem, encoding="utf-8")
        for number in (1, 2):
            lines = row[f"gold_{number}"].replace(") ", ")\n")
            (sample / f"plan_gold_{number}.txt").write_text(f"{lines}\n", encoding="utf-8")
    (folder / FOLDER / ORIGIN).write_text(f"{RENDERED_SCENES}\n", encoding="utf-8")
    return ["actplan", FOLDER]


def _views(room: Image.Image) -> list[Image.Image]:
    """Return the whole room, and a closer look at its left and its right."""
    half, height = room.width // 2, room.height
    return [room, *(room.crop((left, 0, left + half, height)) for left in (0, half))]
