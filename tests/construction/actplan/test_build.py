"""The whole pipeline: activities, tours, a local language model that fails, people on the page, and
prepared data.
"""

import json
import re
from collections import Counter
from functools import partial
from hashlib import sha256
from html import unescape

import pytest

from annotation.serving import export, label_all, run
from annotation.studies import open_store
from construction.actplan.language_model import LanguageModel, kind_of
from construction.actplan.rooms import room, write_activities, write_folder, write_tour
from construction.language_model import Metered, served, start_build
from lmms_egoplan.annotation import actplan_circumstances, actplan_plans
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.construction.actplan import activities as activities_module
from lmms_egoplan.construction.actplan import circumstances, layout, tours, views
from lmms_egoplan.construction.actplan.activities import INSTRUCTION
from lmms_egoplan.construction.actplan.bddl import parse_problem
from lmms_egoplan.construction.actplan.build import NO_ACTIVITY
from lmms_egoplan.construction.actplan.description import unnamed_objects
from lmms_egoplan.files import LOCK, lock_folder
from lmms_egoplan.judging.json_replies import NOT_JSON, WRONG_FORM
from lmms_egoplan.judging.settings import DEFAULT_MODEL
from lmms_egoplan.outputs import MARKER
from markers import write_marker
from patience import FOREVER_S
from shared_data import DATA

__all__ = ["served"]  # a fixture
REAL = DATA / "actplan" / "bddl" / "activity_definitions"
ROOMS = [room("cup", "shelf"), room("sink"), room("table", "carton")]

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
    write_tour(
        home / "cleaning_cups/0/sample_0.mp4",
        [room("cup", "shelf"), room("sink"), room("table", "carton")],
    )
    write_folder(
        home / "packing_cookies/0/sample_0",
        [room("cookie", "table"), room("carton"), room("shelf", "cup")],
    )
    write_folder(
        home / "packing_cookies/1/sample_0", [room("cookie", "sink"), room("carton", "table")]
    )
    return tmp_path


def build(folder, *inputs):
    options = (
        folder / "bddl",
        "--images",
        folder / "tours",
        "--llm",
        "seeing-model",
        "--out",
        folder / "built",
    )
    code, output = run("data", "build", "actplan", *options, *inputs)
    assert code == 0, output
    return output


def people(flow, read_items, answer, out):
    """Let two people label all items on the page, and export the labels."""
    store = open_store(flow, out.with_suffix(".sqlite"), read_items, "items", Team(2, 2))
    label_all(store, lambda person, page: answer(person, unescape(page)))
    store.close()
    return export(store, out)[0]


def decide(folder, answer):
    path = folder / "built/circumstances.jsonl"
    return people(
        actplan_circumstances.FLOW,
        lambda _: actplan_circumstances.read_items(path),
        answer,
        folder / "chosen",
    )


def plan(folder, answer):
    path = folder / "built/instances.jsonl"
    return people(
        actplan_plans.FLOW, partial(actplan_plans.read_items, path), answer, folder / "written"
    )


def choose(person, page):
    """Call stained objects implausible, and wrongly say that BDDL can express objects that have
    gone bad.
    """
    stated = re.search(r"Circumstance</h2>.*?>([^<]+)</", page, re.DOTALL)[1]
    return {"plausible": "no" if "stained" in stated else "yes", "expressible": "yes"}


def carried(target, thing, *numbers):
    """Return the steps that carry some objects to a target."""
    steps_by_object = (
        (
            "walk_to(table)",
            f"grab({thing}_{n})",
            f"walk_to({target})",
            f"place_inside({target}, {thing}_{n})",
        )
        for n in numbers
    )
    return [step for steps in steps_by_object for step in steps]


def write(person, page):
    """Let the first person carry both objects, as the goal requires; the second one forgets an
    object.
    """
    objects = re.search(r"Objects</h2>.*?>([^<]+)</", page, re.DOTALL)[1].split(", ")
    (thing,) = {"cup", "cookie"}.intersection(objects)
    (target,) = {*objects} - {thing, "table"}
    return {
        "plan": "\r\n".join(carried(target, thing, *((1, 2) if person.endswith("1") else (1,))))
    }


def rejections(folder):
    return [
        json.loads(line)
        for line in (folder / "built" / "rejections.jsonl").read_text().splitlines()
    ]


def reasons(folder):
    return sorted({(rejection["step"], rejection["reason"]) for rejection in rejections(folder)})


@pytest.mark.whole
def test_from_activities_and_tours_to_prepared_data(sources, served):
    built = sources / "built"
    with served(LanguageModel(FAULTS)) as server:
        output = build(sources)
        assert "lmms-egoplan annotate actplan-circumstances " in output
        assert (
            "4 activities described, 0 of them changed by a circumstance; 2 instances with views"
            in output
        )
        assert "whose accuracy was not measured: in 0 of 4 descriptions, 0 conditions" in output
        printed = decide(sources, choose)
        # Three activities with five circumstances each, including one duplicate and one implausible
        # one.
        assert "Circumstances decided: 12 of 12, accepted: 9" in printed
        asked = len(server.prompts)
        build(sources, "--circumstances", sources / "chosen")
        assert {kind_of(prompt) for prompt in server.prompts[asked:]} <= {
            "change",
            "conditions",
            "description",
            "again",
            "seen",
        }
        plan(sources, write)
        asked = len(server.prompts)
        inputs = ("--circumstances", sources / "chosen", "--plans", sources / "written")
        output = build(sources, *inputs)
        # Only requests without a usable reply are repeated.
        assert server.prompts[asked:] == []
        assert "3 instances with views, 3 with gold plans" in output
        # Repeating an earlier command without tours and plans keeps their output.
        before = contents(built)
        options = (sources / "bddl", "--llm", "seeing-model", "--out", built)
        code, output = run(
            "data", "build", "actplan", *options, "--circumstances", sources / "chosen"
        )
        assert code == 0, output
        assert contents(built).keys() == before.keys()
        assert {name for name, content in contents(built).items() if content != before[name]} <= {
            "rejections.jsonl"
        }
    code, output = run("data", "prepare", "actplan", built / "annotation")
    assert code == 0, output
    rows = {row["id"]: row for row in ACTPLAN.load("test")}
    assert set(rows) == {
        "home/cleaning_cups/0/sample_0",
        "home/packing_cookies/0/sample_0",
        "home/packing_cookies/1/sample_0",
    }
    changed = rows["home/packing_cookies/1/sample_0"]
    assert "burnt" in changed["task_description"]
    assert changed["task_description"].endswith(f"{INSTRUCTION}\n")
    problem = built / "annotation/home/packing_cookies/1/problem1.bddl"
    assert "(burnt cookie.n.01_1)" in problem.read_text()
    plans = sorted([changed["gold_plan_1"], changed["gold_plan_2"]], key=len)
    assert plans == [carried("carton", "cookie", 1), carried("carton", "cookie", 1, 2)]
    assert [len(row["images"]) for row in rows.values()] == [3, 2, 2]
    line = json.loads((built / "instances.jsonl").read_text().splitlines()[0])
    # One sharp view of each room, with its time in the video.
    assert [int(view["time"] // 2) for view in line["views"]] == [0, 1, 2]
    assert (line["id"], line["unseen"]) == ("home/cleaning_cups/0/sample_0", [])
    assert reasons(sources) == [
        ("change", circumstances.NOT_NEEDED),
        ("change", circumstances.UNKNOWN_PREDICATE),
        ("circumstance", circumstances.NOT_ACCEPTED),
        ("circumstance", circumstances.REPEATED),
        ("circumstance", WRONG_FORM),
        ("description", NOT_JSON),
    ]
    assert (built / "figure_4.csv").read_text().splitlines()[1] == "object property,1,0,1,1,0,0"


def test_views_by_hand_and_tours_that_do_not_fit(sources, served):
    (sources / "tours/home/making_tea/0").mkdir(parents=True)
    (sources / "tours/home/making_tea/0/sample_0.mp4").write_bytes(b"no video")
    (sources / "tours/home/filling_sink/0").mkdir(parents=True)
    (sources / "tours/home/filling_sink/0/sample_0.mp4").write_bytes(b"no video")
    (sources / "views.csv").write_text(
        "id,view\nhome/cleaning_cups/0/sample_0,0.5\nhome/cleaning_cups/0/sample_0,2.5\n"
    )
    with served(LanguageModel()):
        output = build(sources, "--views", sources / "views.csv")
    assert "5 activities described" in output
    advice = [
        json.loads(line) for line in (sources / "built/advice.jsonl").read_text().splitlines()
    ]
    assert len(advice) == 5
    assert advice[0] == {"activity": "cleaning_cups/0", "missing": [], "contradicted": []}
    assert reasons(sources) == [
        ("circumstance", circumstances.REPEATED),
        ("tour", NO_ACTIVITY),
        ("tour", tours.BAD_VIDEO),
        ("views", views.TOO_FEW),
    ]
    first, *_ = [
        json.loads(line) for line in (sources / "built/instances.jsonl").read_text().splitlines()
    ]
    assert [(view["time"], view["objects"]) for view in first["views"]] == [
        (0.5, None),
        (2.5, None),
    ]


def test_an_estimate_counts_only_requests_without_a_reply(sources, served):
    with served(LanguageModel()) as server:
        output = build(sources, "--estimate")
        assert server.prompts == []
        for step in ("descriptions", "descriptions, second time", "advice on descriptions"):
            assert f"{step}: 5 requests" in output
        build(sources)
        output = build(sources, "--estimate")
    assert set(re.findall(r": (\d+) requests", output)) == {"0"}


def test_plans_for_other_texts_and_views_are_rejected(sources, served):
    with served(LanguageModel()):
        build(sources)
        lines = [
            json.loads(line)
            for line in (sources / "built/instances.jsonl").read_text().splitlines()
        ]
        names = [line["id"] for line in lines]
        image_names = [
            [
                sha256((sources / "built" / image).read_bytes()).hexdigest()[:32] + ".png"
                for image in line["images"]
            ]
            for line in lines
        ]
        plan = {"plans": [{"steps": ["grab(cup)"]}] * 2}
        exported = [
            {"id": names[0], "description": "Another text.", "images": image_names[0]} | plan,
            {"id": names[1], "description": lines[1]["description"], "images": image_names[1][::-1]}
            | plan,
            {
                "id": "home/making_tea/0/sample_0",
                "description": "Make tea.",
                "images": image_names[0],
            }
            | plan,
        ]
        (sources / "written").mkdir()
        (sources / "written/gold_plans.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in exported)
        )
        output = build(sources, "--plans", sources / "written")
    assert "2 instances with views, 0 with gold plans" in output
    assert not (sources / "built/annotation").exists()
    plan_rejections = [
        (entry["where"], entry["reason"])
        for entry in rejections(sources)
        if entry["step"] == "plan"
    ]
    assert plan_rejections == [
        (names[0], layout.OTHER_TEXT),
        (names[1], layout.OTHER_IMAGES),
        ("home/making_tea/0/sample_0", layout.UNKNOWN_INSTANCE),
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--circumstances", "bddl"), "no circumstances.jsonl"),
        (("--plans", "bddl"), "no gold_plans.jsonl"),
        (("--images", "bddl"), "no tour"),
        (("--examples", "tours"), "no BDDL problem"),
        (("--views", "views.csv"), "views.csv: home/x/0/sample_0"),
        (("--out", "views.csv"), "--out views.csv: is a file"),
        (("", "built/activities"), "built/activities: no such folder"),
    ],
)
def test_invalid_inputs_raise_an_error_before_any_request(
    sources, monkeypatch, served, option, message
):
    monkeypatch.chdir(sources)
    (sources / "views.csv").write_text("id,view\nhome/x/0/sample_0,1\nhome/x/0/sample_0,2\n")
    arguments = {"": "bddl", "--images": "tours", "--out": "built"} | dict([option])
    with served(LanguageModel()) as server:
        code, output = run(
            "data",
            "build",
            "actplan",
            *filter(None, (part for pair in arguments.items() for part in pair)),
        )
        assert (code, server.prompts) == (1, [])
    assert message in " ".join(output.split())
    assert not (sources / "built").exists()


def test_the_help_names_the_default_model():
    assert f"else {DEFAULT_MODEL}." in " ".join(
        run("data", "build", "actplan", "--help")[1].replace("│", " ").split()
    )


def contents(folder):
    """Return all files, except those that depend on the time stamp of the tour's file."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("views.json", MARKER, LOCK)
    }


def test_only_one_process_uses_a_folder(sources, served):
    """A second process would delete unfinished output of the first."""
    with served(LanguageModel()) as server:
        (sources / "built").mkdir()
        write_marker(sources / "built", "data build actplan")
        with lock_folder(sources / "built"):
            options = (sources / "bddl", "--out", sources / "built")
            code, output = run("data", "build", "actplan", *options)
        assert code == 1
        assert f"{sources / 'built'} is in use" in " ".join(output.split())
        assert server.prompts == []


@pytest.mark.nightly
def test_same_output_after_a_kill(sources):
    """The process is killed twice: while it describes activities, and while it asks about views."""

    def start(out, data):
        inputs = (sources / "bddl", "--images", sources / "tours", "--out", sources / out)
        return start_build(server, sources / data, 1, "actplan", *inputs)

    with LanguageModel() as server:
        answer = server.reply = Metered(server.reply)
        assert start("whole", "data-1").wait(FOREVER_S) == 0
        prompts = answer.paid.total()
        # Two activities have the same objects, conditions and description.
        assert prompts == 5 + 4 + 5 + 6
        answer.paid.clear()
        for limit in (3, 16):
            answer.kill_after(partial(start, "killed", "data-2"), limit)
            assert not (sources / "killed/instances.jsonl").exists()
        assert start("killed", "data-2").wait(FOREVER_S) == 0
        # Replies to requests that were in flight at a kill are lost.
        assert prompts <= answer.paid.total() <= prompts + 4
    assert contents(sources / "killed") == contents(sources / "whole")


@pytest.mark.nightly
@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is absent")
def test_all_released_problems(tmp_path, monkeypatch, served):
    """Build prepared data from the 153 released problems:

    149 are valid, and 49 get a new counterfactual.
    """
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    (tmp_path / "bddl").symlink_to(REAL)
    names = sorted(path.name for path in REAL.iterdir() if path.is_dir())
    for name in names:
        for description in (0, 1):
            write_folder(tmp_path / f"tours/Rs_int/{name}/{description}/sample_0", ROOMS)
    built = tmp_path / "built"
    with served(LanguageModel()):
        output = build(tmp_path)
        assert (
            "149 activities described, 0 of them changed by a circumstance; 149 "
            "instances with views"
        ) in output
        yes, no = {"plausible": "yes", "expressible": "yes"}, {"plausible": "no"}
        decide(tmp_path, lambda person, page: yes if "is burnt" in page else no)
        output = build(tmp_path, "--circumstances", tmp_path / "chosen")
        printed = plan(tmp_path, lambda person, _: {"plan": "walk_to(table)"})
        inputs = ("--circumstances", tmp_path / "chosen", "--plans", tmp_path / "written")
        output = build(tmp_path, *inputs)
    assert re.search("Instances with .*gold plans: 198 of 198", printed)
    assert "198 instances with views, 198 with gold plans" in output
    code, output = run("data", "prepare", "actplan", built / "annotation")
    assert code == 0, output
    rows = ACTPLAN.load("test")
    lines = [json.loads(line) for line in (built / "instances.jsonl").read_text().splitlines()]
    assert len(rows) == len(lines) == 149 + 49
    texts = {row["id"]: row["task_description"] for row in rows}
    for line in lines:
        assert texts[line["id"]] == line["description"]
        assert not unnamed_objects(parse_problem(line["problem"], line["id"]), line["description"])
    rejection = Counter(rejection["reason"] for rejection in rejections(tmp_path))
    assert (
        rejection[activities_module.INVALID],
        rejection[activities_module.NOT_COUNTERFACTUAL],
    ) == (4, 13)
