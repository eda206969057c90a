"""The simulated kitchen. Runs if the simulator is installed and can render."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.planner.kitchen import GOALS, Kitchen
from lmms_egoplan.planner.planner import Proposal, run_episode

os.environ.setdefault("MUJOCO_GL", "osmesa")  # read when the simulator is imported
if find_spec("gymnasium_robotics") is None:  # `Kitchen` imports it, after triton
    pytest.skip(
        "the kitchen's simulator is not installed: pip install .[kitchen]", allow_module_level=True
    )


@pytest.fixture(scope="module")
def kitchen():
    try:
        kitchen = Kitchen(GOALS["heat water"], motion_frames=1)
    except LmmsEgoplanError as error:
        pytest.skip(str(error))
    yield kitchen
    kitchen.close()


class InOrder:
    def __init__(self, *texts):
        self.texts = list(texts)

    def propose(self, question, visuals, actions, step_name):
        text = self.texts.pop(0)
        return [Proposal(text, -1.0, 1, text if text in actions else None)]


def test_water_is_heated(kitchen):
    texts = [
        "close the microwave",
        "boil the egg",
        "turn on the back burner",
        "move the kettle to the back burner",
    ]
    episode = run_episode(InOrder(*texts), kitchen, "heat water")
    assert [step.outcome.changed for step in episode.steps] == [False, False, True, True]
    assert episode.steps[1].outcome.message
    assert episode.is_success
    first, last = episode.steps[0].view, episode.last_view
    assert first.size == last.size == (320, 240)
    assert first.tobytes() != last.tobytes()


def test_every_action_can_be_done_and_undone(kitchen):
    for action in kitchen.status().actions:
        if (outcome := kitchen.execute(action)).changed:
            assert len(outcome.clip) == 2
            assert not kitchen.execute(action).changed, f"{action} twice"


def test_all_goals_are_of_elements_that_the_kitchen_has():
    from gymnasium_robotics.envs.franka_kitchen.kitchen_env import OBS_ELEMENT_GOALS

    assert len(GOALS) == 30
    assert {element for parts in GOALS.values() for element in parts} == set(OBS_ELEMENT_GOALS)
    assert len({tuple(sorted(parts)) for parts in GOALS.values()}) == 30


def test_an_unknown_element_is_named():
    with pytest.raises(LmmsEgoplanError, match=r"sauna.*bottom burner"):
        Kitchen(["sauna"])


@pytest.mark.parametrize(
    "variables",
    [
        {"MUJOCO_GL": "bogus"},
        {"MUJOCO_GL": "disabled"},
        {"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "egl"},
        {"MUJOCO_GL": "glfw", "DISPLAY": ""},
    ],
)
def test_a_missing_renderer_gives_a_one_line_error(variables):
    command = [
        sys.executable,
        "-m",
        "lmms_egoplan",
        "plan",
        "kitchen",
        "--goal",
        "heat water",
        "--model",
        "none",
    ]
    result = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert result.returncode == 1
    assert "apt-get install libosmesa6" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_incompatible_simulator_is_reported(monkeypatch):
    from gymnasium_robotics.envs.franka_kitchen import kitchen_env

    def fail(*_):
        raise AssertionError  # as with mujoco 3.17

    monkeypatch.setattr(kitchen_env.KitchenEnv, "_get_obs", fail)
    with pytest.raises(LmmsEgoplanError, match="pip install"):
        Kitchen(["kettle"])
