"""Simulate a kitchen: Gymnasium-Robotics' Franka Kitchen.

It is seen from head height over the robot's arm.

The motion of an action is scripted: it moves the joint of a door, a knob or a switch, or the
kettle. The arm does not move. The environment decides if a goal is reached.
"""

import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.planner.planner import ActionOutcome, Status

_KITCHEN = module_yaml(__file__)
ACTIONS: dict[str, dict[str, str]] = _KITCHEN["actions"]
"""For each action, the ``element`` that moves, and its target ``to``.

The target is the goal state (``done``) or the first one (``undone``).
"""
GOALS: dict[str, list[str]] = _KITCHEN["goals"]
"""For each goal, the elements of the environment that must be in their goal states."""

_INSTALL = 'the kitchen needs its simulator: pip install "lmms-egoplan[kitchen]"'

# The camera: the point it looks at and its distance (metres), and its angles (degrees).
_LOOKS_AT = (-0.1, 0.6, 2.0)
_DISTANCE = 2.2
_AZIMUTH = 90.0
_ELEVATION = -20.0
_WIDTH = 320
_HEIGHT = 240
# A coarser shadow map and less antialiasing than the simulator's defaults (4096, 8), for speed.
_QUALITY = {"shadowsize": 1024, "offsamples": 4}
# Number of frames of a motion after the view before it, and their rate.
_MOTION_FRAMES = 7
_FPS = 8.0
# Tolerance for an element's joints (radians or metres). Springs move them slightly.
_CLOSE = 0.1


class Kitchen:
    """One kitchen, from its start to a goal.

    Attributes:
        unreached: The goal's elements that are not in their goal states according to the
            environment.

    Args:
        elements: Elements of the environment whose goal states make up the goal; see `GOALS`.
        seed: Random seed for the environment's noise.
        motion_frames: Number of frames in each action's clip after its first view; 0 for no clip.
            Without a GPU, a frame takes about half a second.

    Raises:
        LmmsEgoplanError: The simulator is not installed, cannot render, or has no such element.
    """

    name = "Franka Kitchen"

    def __init__(
        self, elements: Sequence[str], seed: int = 0, motion_frames: int = _MOTION_FRAMES
    ) -> None:
        mujoco, kitchen_env = _simulator()
        unknown = set(elements) - set(kitchen_env.OBS_ELEMENT_GOALS)
        if unknown:
            raise LmmsEgoplanError(
                f"the kitchen has no {', '.join(sorted(unknown))}; use "
                f"{', '.join(kitchen_env.OBS_ELEMENT_GOALS)}"
            )
        self._mujoco = mujoco
        self._motion_frames = motion_frames
        try:
            self._environment = kitchen_env.KitchenEnv(
                list(elements), remove_task_when_completed=False
            )
            self._environment.reset(seed=seed)
        except Exception as error:  # Other versions of the simulator fail in many ways.
            raise LmmsEgoplanError(f"{_INSTALL} ({type(error).__name__}: {error})") from error
        self._model = self._environment.model
        self._data = self._environment.data
        self._joints = kitchen_env.OBS_ELEMENT_INDICES
        start = {
            element: self._data.qpos[joints].copy() for element, joints in self._joints.items()
        }
        self._states: dict[str, dict[str, Any]] = {
            "done": kitchen_env.OBS_ELEMENT_GOALS,
            "undone": start,
        }
        self.unreached = set(elements)
        self._camera = mujoco.MjvCamera()
        self._camera.lookat[:] = _LOOKS_AT
        self._camera.distance = _DISTANCE
        self._camera.azimuth = _AZIMUTH
        self._camera.elevation = _ELEVATION
        for name, value in _QUALITY.items():
            setattr(self._model.vis.quality, name, value)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # GLFW's warning repeats the error
                self._renderer = mujoco.Renderer(self._model, _HEIGHT, _WIDTH)
        except Exception as error:  # Each OpenGL backend has its own errors.
            raise _cannot_draw(error) from error
        self.observe()

    def status(self) -> Status:
        """Return all actions of the kitchen, and whether the goal is reached."""
        return Status(list(ACTIONS), done=not self.unreached)

    def observe(self) -> Image.Image:
        """Render the current view."""
        try:
            self._renderer.update_scene(self._data, self._camera)
            return Image.fromarray(self._renderer.render())
        except Exception as error:
            raise _cannot_draw(error) from error

    def execute(self, action: str) -> ActionOutcome:
        """Move the action's element to its target state, frame by frame.

        If it is in this state, nothing changes.
        """
        if action not in ACTIONS:
            return ActionOutcome(changed=False, message="unknown action", clip=Clip())
        element, to = ACTIONS[action].values()
        joints = self._joints[element]
        goal = self._states[to][element]
        start = self._data.qpos[joints].copy()
        if self._is_at(element, to):
            return ActionOutcome(changed=False, message="already done", clip=Clip())
        frames = [self.observe()] if self._motion_frames else []
        for number in range(1, self._motion_frames + 1):
            self._move(joints, start + (goal - start) * number / self._motion_frames)
            frames.append(self.observe())
        self._move(joints, goal)
        self._settle()
        return ActionOutcome(changed=True, message="done", clip=Clip(frames, _FPS))

    def state(self) -> dict[str, bool]:
        """Return whether each element of the kitchen is in its goal state."""
        return {element: self._is_at(element, "done") for element in self._joints}

    def set(self, done: Collection[str]) -> None:
        """Put these elements into their goal states, and all others into their first states.

        There is no motion.
        """
        for element, joints in self._joints.items():
            self._move(joints, self._states["done" if element in done else "undone"][element])
        self._settle()

    def close(self) -> None:
        """Close the simulator."""
        self._renderer.close()
        self._environment.close()

    def _is_at(self, element: str, to: str) -> bool:
        return bool(
            abs(self._states[to][element] - self._data.qpos[self._joints[element]]).max() < _CLOSE
        )

    def _move(self, joints: Any, values: Any) -> None:
        self._data.qpos[joints] = values
        self._mujoco.mj_forward(self._model, self._data)

    def _settle(self) -> None:
        """Run the simulation for a moment, with the arm at rest, and update `unreached`."""
        *_, info = self._environment.step(np.zeros(self._environment.action_space.shape))
        self.unreached = set(self._environment.goal) - set(info["step_task_completions"])


def _simulator() -> tuple[Any, Any]:
    """Import mujoco and the kitchen of Gymnasium-Robotics.

    Raises:
        LmmsEgoplanError: They are not installed, or cannot load their renderer.
    """
    with suppress(ImportError):
        # torch's compiler must load its LLVM before OSMesa does, or Python crashes.
        import triton  # noqa: F401
    try:
        from farama_notifications import notifications

        # Suppress a notice that is printed on import. It is about the Adroit hand, which is not
        # used here.
        notifications.get("gymnasium_robotics", {}).pop("1.4.2", None)
        import mujoco
        from gymnasium_robotics.envs.franka_kitchen import kitchen_env
    except ModuleNotFoundError as error:
        raise LmmsEgoplanError(f"{_INSTALL} ({error})") from error
    except Exception as error:  # MUJOCO_GL is read on import.
        raise _cannot_draw(error) from error
    # `Renderer.close` is also called if the renderer could not be created, and needs these
    # attributes.
    mujoco.Renderer._gl_context = mujoco.Renderer._mjr_context = None
    return mujoco, kitchen_env


def _cannot_draw(error: Exception) -> LmmsEgoplanError:
    problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return LmmsEgoplanError(
        f"the kitchen cannot be rendered ({problem}). Without a screen, set MUJOCO_GL=egl on a "
        "GPU, or MUJOCO_GL=osmesa on a CPU (on Debian: apt-get install libosmesa6)"
    )
