"""Compare the names of all tasks and groups with the harness's."""

from pathlib import Path

import pytest
from lmms_eval.tasks import TaskManager

from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.paths import LMMS_EVAL_TASKS


@pytest.mark.whole
def test_no_task_is_named_like_an_upstream_one():
    """The harness's own task would take precedence."""
    package_tasks = TaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False)
    index = TaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS)).task_index
    assert len(package_tasks.all_subtasks) > 12
    for name in package_tasks.all_subtasks + package_tasks.all_groups:
        assert Path(index[name]["yaml_path"]).is_relative_to(LMMS_EVAL_TASKS)
    # The group of all tasks excludes tasks that repeat questions or need another judge.
    excluded_tasks = {
        "egointent_diagnostics",
        "egointent_v1",
        "egoplan_val_thinking",
        "egoplan_val_reasoned",
        "egoplan_val_clips_marked",
        "egoplan_val_published",
        "egoplan_val_clips_published",
        "egoplan_bench2_thinking",
        "actplan_normal",
        "actplan_counterfactual",
    }
    presets = {name for name in package_tasks.all_subtasks if "__" in name}
    # EgoThink's need a judge.
    unjudged = {name for name in presets if name.startswith("egoplan")}
    assert set(index["egocentric_planning_presets"]["task"]) == unjudged
    shortcuts = {
        name
        for name in package_tasks.all_subtasks
        if name.endswith(tuple(f"_{name}" for name in SHORTCUTS))
    }
    # the latter marks clips, not images
    shortcuts -= {
        "egoplan_val_blind",
        "egoplan_val_clips_marked",
    }
    # the others need a judge or a scorer
    ranked = {name for name in shortcuts if name.startswith("egoplan")}
    assert set(index["egocentric_planning_shortcuts"]["task"]) == ranked
    untagged = excluded_tasks | presets | shortcuts
    assert set(index["egocentric_planning"]["task"]) == set(package_tasks.all_subtasks) - untagged
