"""VirtualHome's calls to a local server that answers like its simulator."""

import base64
import io
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.planner import virtualhome
from lmms_egoplan.planner.planner import ENVIRONMENT_FAILED, STUCK, run_episode
from lmms_egoplan.planner.virtualhome import VirtualHome
from planner.says import Says


class Simulator(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.nodes = [
            {
                "id": 7,
                "class_name": "stove",
                "properties": ["CAN_OPEN", "HAS_SWITCH"],
                "states": ["OFF", "CLOSED"],
            },
            {"id": 9, "class_name": "water_glass", "properties": ["GRABBABLE"], "states": []},
            {"id": 1, "class_name": "character", "properties": [], "states": []},
        ]
        self.edges = [_edge(9, "ON", 7), _edge(1, "CLOSE", 9)]
        self.scripts, self.fault, self.act = [], None, _stove_on

    def answer(self, request):
        if self.fault is not None:
            return self.fault
        if request["action"] == "environment_graph":
            graph = (
                {"nodes": self.nodes}
                if self.edges is None
                else {"nodes": self.nodes, "edges": self.edges}
            )
            return {"success": True, "message": json.dumps(graph)}
        if request["action"] == "camera_image":
            settings = json.loads(request["stringParams"][0])
            content = io.BytesIO()
            Image.new("RGB", (settings["image_width"], settings["image_height"]), "red").save(
                content, format="PNG"
            )
            return {
                "success": True,
                "message_list": [base64.b64encode(content.getvalue()).decode()],
            }
        assert request["action"] == "render_script"
        lines = request["stringParams"][1:]
        self.scripts.append(lines)
        if self.edges is not None:
            self.edges[1] = _edge(1, "CLOSE", len(self.scripts))  # every script begins with a walk
        return self.act(self, lines[-1])


def _edge(start, relation, end):
    return {"from_id": start, "relation_type": relation, "to_id": end}


def _stove_on(simulator, line):
    """Turn on the stove, however often; refuse to take anything."""
    if "grab" in line:
        return {"success": False, "message": "hands are full"}
    simulator.nodes[0]["states"] = ["ON", "CLOSED"]
    return {"success": True, "message": ""}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = self.server.answer(request)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def simulator():
    with Simulator() as server:
        threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        ).start()  # it stops at once
        yield server
        server.shutdown()


def test_a_stove_is_turned_on(simulator):
    home = VirtualHome(simulator.url, [("Stove", "on")], camera=0)
    assert home.status().actions == [
        "open the stove",
        "close the stove",
        "turn on the stove",
        "turn off the stove",
        "take the water glass",
    ]
    assert not home.status().done
    assert home.observe().size == (640, 480)
    refused = home.execute("take the water glass")
    assert not refused.changed
    assert "hands are full" in refused.message
    assert "fly" in home.execute("fly").message
    assert home.execute("turn on the stove").changed
    assert simulator.scripts[-1] == ["<char0> [walk] <stove> (7)", "<char0> [switchon] <stove> (7)"]
    assert home.status().done
    home.close()


def add(*edges):
    return lambda simulator, line: simulator.edges.extend(edges)


def sit_as_a_state(simulator, line):
    simulator.nodes[2]["states"] = ["SITTING"]


WALK = add(_edge(1, "INSIDE", 7), _edge(1, "FACING", 9), _edge(7, "BETWEEN", 9), _edge(1, "ON", 3))


def reorder(simulator, line):
    simulator.nodes.reverse()
    simulator.nodes[-1]["states"].reverse()
    simulator.edges.reverse()


@pytest.mark.parametrize("success", [True, False])
@pytest.mark.parametrize(
    ("act", "changed"),
    [
        *(
            (add(_edge(1, "HOLDS_RH", 9)), True),
            (add(_edge(1, "SITTING", 7)), True),
            (sit_as_a_state, True),
        ),
        *((WALK, False), (reorder, False), (add(), False)),
    ],
)
def test_the_graph_and_not_the_simulators_reply_shows_a_change(simulator, act, changed, success):
    simulator.act = lambda *call: act(*call) or {"success": success, "message": "so it says"}
    home = VirtualHome(simulator.url, [("stove", "ON")], camera=0)
    outcome = home.execute("take the water glass")
    assert (outcome.changed, len(outcome.clip)) == (changed, 2 * changed)
    assert ("so it says" in outcome.message) == (not success)


def test_an_action_that_succeeds_and_changes_nothing_is_not_repeated(simulator):
    """The simulator always reports success. Once the stove is on, the next best action is tried."""
    home = VirtualHome(simulator.url, [("water_glass", "CLEAN")], camera=0)
    episode = run_episode(Says("turn on the stove", "open the stove"), home, "have a clean glass")
    assert [(step.executed.action, step.outcome.changed) for step in episode.steps] == [
        ("turn on the stove", True),
        ("turn on the stove", False),
        ("open the stove", False),
    ]
    assert episode.end == STUCK


def test_a_graph_without_edges(simulator):
    simulator.edges = None
    home = VirtualHome(simulator.url, [("stove", "ON")], camera=0)
    assert home.execute("turn on the stove").changed
    assert not home.execute("turn on the stove").changed


@pytest.mark.parametrize(
    "fault",
    [
        b"no json",
        b"",
        {"success": False, "message": "no scene"},
        {"success": True},
        [1],
        {"success": True, "message": "{}", "message_list": []},
        {
            "success": True,
            "message": '{"nodes": [{"id": 1, "class_name": 5}]}',
            "message_list": ["bm8gaW1hZ2U="],
        },
        {"success": True, "message": '{"nodes": 3}', "message_list": "?"},
        {"success": True, "message": None, "message_list": [None]},
    ],
)
def test_a_simulator_with_unexpected_replies(simulator, fault):
    home = VirtualHome(simulator.url, [("stove", "ON")], camera=0)
    simulator.fault = fault
    for call in (home.observe, home.status):
        with pytest.raises(LmmsEgoplanError, match=simulator.url):
            call()


def test_a_missing_object_or_simulator_is_named(simulator):
    with pytest.raises(LmmsEgoplanError, match="sauna"):
        VirtualHome(simulator.url, [("sauna", "ON")], camera=0)
    simulator.shutdown()
    simulator.server_close()
    with pytest.raises(LmmsEgoplanError, match=simulator.url):
        VirtualHome(simulator.url, [("stove", "ON")], camera=0)


def test_a_simulator_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(virtualhome, "_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, but never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(LmmsEgoplanError, match=r"environment_graph.*ReadTimeout"):
            VirtualHome(url, [("stove", "ON")], camera=0)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "http://[1", "ftp://127.0.0.1"])
def test_an_invalid_address_is_named(url):
    with pytest.raises(LmmsEgoplanError, match=f"VirtualHome at {re.escape(url)}: "):
        VirtualHome(url, [("stove", "ON")], camera=0)


def test_a_simulator_that_stops_keeps_the_earlier_steps(simulator):
    home = VirtualHome(simulator.url, [("water_glass", "CLEAN")], camera=0)

    def end(step):
        simulator.fault = b"gone"

    episode = run_episode(Says("open the stove"), home, "have a clean glass", on_step=end)
    assert (episode.end, len(episode.steps)) == (ENVIRONMENT_FAILED, 1)
    assert simulator.url in episode.problem
