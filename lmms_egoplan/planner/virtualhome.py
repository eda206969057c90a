"""Control VirtualHome, whose simulator the user runs, with three calls of its HTTP interface.

The messages are those of release v2.3.0, as sent by its Python client
(``simulation/unity_simulator/comm_unity.py``, March 2022). The simulator is not available as a
package: this module was run only against a server of the tests that answers such messages.
"""

import base64
import binascii
import io
import json
from collections.abc import Sequence
from typing import Any

import httpx
from PIL import Image, UnidentifiedImageError
from pydantic import Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.planner.planner import ActionOutcome, Status
from lmms_egoplan.validation import Checked, read_as

# The actions on an object, by the property that allows them: words, and the script's action.
_VERBS = {
    "CAN_OPEN": {"open the {}": "open", "close the {}": "close"},
    "HAS_SWITCH": {"turn on the {}": "switchon", "turn off the {}": "switchoff"},
    "GRABBABLE": {"take the {}": "grab"},
    "SITTABLE": {"sit on the {}": "sit"},
}
# The relations that these actions change. Others, such as CLOSE, change whenever the character
# walks.
_RELATIONS = ("HOLDS_RH", "HOLDS_LH", "SITTING")
_TIMEOUT_S = 120.0
_SIZE = (640, 480)


class _Node(Checked):
    id: int
    class_name: str
    properties: list[str]
    states: list[str]


class _Edge(Checked):
    from_id: int
    to_id: int
    relation_type: str


class _Graph(Checked):
    nodes: list[_Node]
    edges: list[_Edge] = Field(default_factory=list)

    def facts(self) -> set[tuple[int, str, int | None]]:
        """Return everything that actions can change.

        These are the objects' states, and what the character holds or sits on.
        """
        edges = {(edge.from_id, edge.relation_type, edge.to_id) for edge in self.edges}
        states = {(node.id, state, None) for node in self.nodes for state in node.states}
        return states | {edge for edge in edges if edge[1] in _RELATIONS}


class VirtualHome:
    """The first character of a running simulator.

    Args:
        url: Address of the simulator, such as ``http://127.0.0.1:8080``.
        until: Object and state pairs that make up the goal, such as ``[("stove", "ON")]``.
        camera: Number of the camera that shows the character's view.

    Raises:
        LmmsEgoplanError: The simulator cannot be reached, or has no such object.
    """

    name = "VirtualHome"

    def __init__(self, url: str, until: Sequence[tuple[str, str]], camera: int) -> None:
        self._url = url
        self._camera = camera
        self._until = [(name.casefold(), state.upper()) for name, state in until]
        self._client = httpx.Client(timeout=_TIMEOUT_S)
        unknown = {name for name, _ in self._until} - {
            node.class_name.casefold() for node in self._graph().nodes
        }
        if unknown:
            raise LmmsEgoplanError(
                f"VirtualHome at {url}: this apartment has no "
                f"{', '.join(sorted(unknown))}; change --until"
            )

    def status(self) -> Status:
        """Return the actions that are possible with the graph's objects.

        The goal is reached if all its states are in the graph.
        """
        graph = self._graph()
        states = {
            (node.class_name.casefold(), state) for node in graph.nodes for state in node.states
        }
        return Status(list(_scripts(graph)), done=states.issuperset(self._until))

    def observe(self) -> Image.Image:
        """Return the camera's current image."""
        settings = {"mode": "normal", "image_width": _SIZE[0], "image_height": _SIZE[1]}
        reply = self._post(
            "camera_image", intParams=[self._camera], stringParams=[json.dumps(settings)]
        )
        try:
            return Image.open(io.BytesIO(base64.b64decode(reply["message_list"][0]))).convert("RGB")
        except (
            KeyError,
            IndexError,
            TypeError,
            binascii.Error,
            UnidentifiedImageError,
            OSError,
        ) as error:
            raise self._failed(
                f"camera {self._camera} returned no image ({type(error).__name__}: {error})"
            ) from error

    def execute(self, action: str) -> ActionOutcome:
        """Walk to the action's object and act on it.

        Compare the graph before and after to detect a change.
        """
        graph = self._graph()
        scripts = _scripts(graph)
        if action not in scripts:
            return ActionOutcome(changed=False, message=f"cannot {action} here", clip=Clip())
        before = self.observe()
        settings = {
            "recording": False,
            "skip_animation": True,
            "find_solution": True,
            "image_synthesis": [],
        }
        reply = self._post(
            "render_script", stringParams=[json.dumps(settings), *scripts[action]], may_fail=True
        )
        changed = self._graph().facts() != graph.facts()
        message = "done" if changed else "nothing has changed"
        if not reply.get("success"):
            message = f"the simulator refused: {reply.get('message') or 'no reason reported'}"
        return ActionOutcome(
            changed=changed, message=message, clip=Clip([before, self.observe()] if changed else ())
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _graph(self) -> _Graph:
        reply = self._post("environment_graph")
        try:
            return read_as(_Graph, "its graph", json.loads(reply["message"]))
        except (KeyError, TypeError, ValueError) as error:
            raise self._failed(
                f"its graph is not valid JSON ({type(error).__name__}: {error})"
            ) from error
        except LmmsEgoplanError as error:
            raise self._failed(str(error)) from error

    def _post(self, action: str, *, may_fail: bool = False, **parameters: Any) -> dict[str, Any]:
        try:
            response = self._client.post(
                self._url, json={"id": action, "action": action, **parameters}
            )
            response.raise_for_status()
            reply = response.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._failed(f"{action}: {type(error).__name__}: {error}") from error
        if not isinstance(reply, dict) or not (may_fail or reply.get("success")):
            raise self._failed(f"{action}: the simulator replied {str(reply)[:200]}")
        return reply

    def _failed(self, problem: str) -> LmmsEgoplanError:
        return LmmsEgoplanError(
            f"VirtualHome at {self._url}: {problem}. Check that its simulator is running there"
        )


def _scripts(graph: _Graph) -> dict[str, list[str]]:
    """Return the script's lines for each action, by its words.

    Only the first object of each kind is used.
    """
    scripts: dict[str, list[str]] = {}
    for node in graph.nodes:
        name = node.class_name
        target = f"<{node.class_name}> ({node.id})"
        for verb, act in (
            pair for kind in node.properties for pair in _VERBS.get(kind, {}).items()
        ):
            lines = [f"<char0> [{step}] {target}" for step in ("walk", act)]
            scripts.setdefault(verb.format(name.replace("_", " ")), lines)
    return scripts
