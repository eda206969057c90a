"""The whole way: activities and tours, a language model on loopback that fails, people on the page, prepared data."""

import json
import re
from html import unescape

import pytest
from typer.testing import CliRunner

from annotation.serving import enter, post, served
from benchmarks.actplan.construction.language_model import LanguageModel, kind_of
from benchmarks.actplan.construction.rooms import room, write_activities, write_folder, write_tour
from judging.asked import KEY
from lmms_egoplan.annotation.serve import open_store
from lmms_egoplan.benchmarks.actplan.construction import (
    circumstance_flow,
    circumstances,
    plan_flow,
)
from lmms_egoplan.benchmarks.actplan.construction.sources import INSTRUCTION
from lmms_egoplan.benchmarks.actplan.splits import PREPARED
from lmms_egoplan.cli import app
from lmms_egoplan.judging.json_replies import NOT_JSON

FAULTS = {
    ("description", "cleaning_cups"): "incomplete",
    ("description", "filling_sink"): "once 500",
    ("description", "storing_cups"): "prose",
    ("description", "packing_cookies"): "fenced",
    ("circumstances", "filling_sink"): "other form",
}


@pytest.fixture
def sources(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_activities(tmp_path / "bddl")
    home = tmp_path / "tours" / "home"
    write_tour(home / "cleaning_cups/0/sample_0.mp4", [room("cup", "shelf"), room("sink"), room("table", "carton")])
    write_folder(home / "packing_cookies/0/sample_0", [room("cookie", "table"), room("carton"), room("shelf", "cup")])
    write_folder(home / "packing_cookies/1/sample_0", [room("cookie", "sink"), room("carton", "table")])
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def build(folder, server, *more, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", KEY)
    options = (
        "--bddl",
        folder / "bddl",
        "--images",
        folder / "tours",
        "--llm",
        "seeing-model",
        "--out",
        folder / "built",
    )
    code, output = run("data", "build", "actplan", *options, *more)
    assert code == 0, output
    return output


def people(flow, db, read_items, answer, out):
    """Two people label all items on the page, and the labels are exported."""
    store = open_store(flow, db, read_items, "items", 2, 2)
    with served(store, flow) as address:
        for known in store.progress():
            client = enter(address, store, known.person)
            while 'action="/label/' in client.page.text:
                reply = post(client, **answer(known.person, unescape(client.page.text)))
                assert reply.status_code == 200, reply.text
    store.close()
    code, output = run("annotate", "export", "--db", db, "--out", out)
    assert code == 0, output
    return output


def choose(person, page):
    """Stained things are said to be implausible; things that have gone bad are said to be sayable, wrongly."""
    stated = re.search(r"Circumstance</h2>.*?>([^<]+)</", page, re.DOTALL)[1]
    return {"plausible": "no" if "stained" in stated else "yes", "expressible": "yes"}


def carried(place, thing, *numbers):
    """The steps by which some things come into a place."""
    own = (
        ("walk_to(table)", f"grab({thing}_{n})", f"walk_to({place})", f"place_inside({place}, {thing}_{n})")
        for n in numbers
    )
    return [step for steps in own for step in steps]


def write(person, page):
    """The first person carries both things, as the goal has it; the second one leaves one on the table."""
    objects = re.search(r"Objects</h2>.*?>([^<]+)</", page, re.DOTALL)[1].split(", ")
    (thing,) = {"cup", "cookie"}.intersection(objects)
    (place,) = {*objects} - {thing, "table"}
    return {"plan": "\r\n".join(carried(place, thing, *((1, 2) if person.endswith("1") else (1,))))}


def rejections(folder):
    return [json.loads(line) for line in (folder / "built" / "rejections.jsonl").read_text().splitlines()]


def reasons(folder):
    return sorted({(left["step"], left["reason"]) for left in rejections(folder)})


def test_from_activities_and_tours_to_prepared_data(sources, monkeypatch):
    built = sources / "built"
    with LanguageModel(FAULTS) as server:
        output = build(sources, server, monkeypatch=monkeypatch)
        assert "lmms-egoplan annotate actplan-circumstances --items" in output
        assert "4 activities described, 0 of them changed by a circumstance; 2 instances with views" in output
        told = people(
            circumstance_flow.FLOW,
            sources / "circumstances.sqlite",
            lambda _: circumstance_flow.read_items(built / "circumstances.jsonl"),
            choose,
            sources / "chosen",
        )
        # Three activities with five circumstances each, of which one was told twice and one is implausible.
        assert "Circumstances decided: 12 of 12, accepted: 9" in told
        asked = len(server.prompts)
        build(sources, server, "--circumstances", sources / "chosen", monkeypatch=monkeypatch)
        assert {kind_of(prompt) for prompt in server.prompts[asked:]} <= {"change", "description", "again", "seen"}
        told = people(
            plan_flow.FLOW,
            sources / "plans.sqlite",
            lambda folder: plan_flow.read_items(built / "instances.jsonl", folder),
            write,
            sources / "written",
        )
        assert "Goal check (a note): 3 of 6 plans miss a condition; not checkable: 0" in told
        asked = len(server.prompts)
        more = ("--circumstances", sources / "chosen", "--plans", sources / "written")
        output = build(sources, server, *more, monkeypatch=monkeypatch)
        # Nothing but what got no usable reply is asked again.
        assert server.prompts[asked:] == []
    assert "3 instances with views, 3 with gold plans" in output
    code, output = run("data", "prepare", "actplan", built / "annotation")
    assert code == 0, output
    rows = {row["id"]: row for row in PREPARED.load("test")}
    assert set(rows) == {
        "home/cleaning_cups/0/sample_0",
        "home/packing_cookies/0/sample_0",
        "home/packing_cookies/1/sample_0",
    }
    changed = rows["home/packing_cookies/1/sample_0"]
    assert "burnt" in changed["task_description"]
    assert changed["task_description"].endswith(f"{INSTRUCTION}\n")
    plans = sorted([changed["gold_plan_1"], changed["gold_plan_2"]], key=len)
    assert plans == [carried("carton", "cookie", 1), carried("carton", "cookie", 1, 2)]
    assert [len(row["images"]) for row in rows.values()] == [3, 2, 2]
    line = json.loads((built / "instances.jsonl").read_text().splitlines()[0])
    # One of each room, sharp, with its time in the video.
    assert [int(view["time"] // 2) for view in line["views"]] == [0, 1, 2]
    assert (line["id"], line["unseen"]) == ("home/cleaning_cups/0/sample_0", [])
    assert reasons(sources) == [
        ("change", circumstances.NOT_NEEDED),
        ("change", circumstances.UNKNOWN_PREDICATE),
        ("circumstance", circumstances.NOT_ACCEPTED),
        ("circumstance", circumstances.REPEATED),
        ("circumstance", circumstances.WRONG_FORM),
        ("description", NOT_JSON),
    ]
    assert (built / "figure_4.csv").read_text().splitlines()[1] == "object property,1,0,1,1,0,0"
