"""The two pages of the construction: their content, valid answers, and the exports."""

import json
import re
from functools import partial
from html import unescape
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.serving import enter, export, label_all, post, run, served
from annotation.studies import open_store
from construction.actplan.rooms import room
from lmms_egoplan.annotation import actplan_circumstances, actplan_plans
from lmms_egoplan.annotation.forms import FormError, Words
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.errors import LmmsEgoplanError

CIRCUMSTANCE = {
    "activity": "making_tea",
    "task": "Make tea.",
    "procedure": ["boil <water>", "pour"],
}


@given(st.text() | st.text("a \t\n\x00\x1b\x1f\x85\u200d\u200f\u202e\u2069\ufeff"))
def test_a_box_of_several_lines_keeps_them_and_no_other_blanks(text):
    def read(rows):
        try:
            return Words("text", "Text", rows=rows).read([text])
        except FormError:
            return ""

    controls = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    lines = [
        "".join(c for c in line if c == "\t" or (category(c) != "Cc" and c not in controls))
        for line in text.splitlines()
    ]
    assert read(2) == " ".join(" ".join(lines).split())
    assert read(3).split("\n") == (
        [" ".join(line.split()) for line in lines if line.strip()] or [""]
    )


def start(flow, folder, read_items):
    return open_store(flow, folder / "labels.sqlite", read_items, "items", Team(2, 2))


@pytest.fixture
def circumstances(tmp_path):
    lines = [
        {"id": f"making_tea/{n}", **CIRCUMSTANCE, "circumstance": f"thing {n} is burnt"}
        for n in (1, 2, 3)
    ]
    path = tmp_path / "circumstances.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return start(
        actplan_circumstances.FLOW, tmp_path, lambda _: actplan_circumstances.read_items(path)
    )


@pytest.fixture
def instances(tmp_path):
    room("cup", "table").save(tmp_path / "00001.png")
    line = {
        "id": "home/storing_cups/0/sample_0",
        "description": "Put the cups into the shelf.",
        "objects": ["cup", "shelf"],
    }
    line["images"] = ["00001.png"]
    path = tmp_path / "instances.jsonl"
    path.write_text(json.dumps(line) + "\n")
    return path


def start_plans(tmp_path, instances):
    return start(actplan_plans.FLOW, tmp_path, partial(actplan_plans.read_items, instances))


def test_the_lead_decides_on_circumstances_without_agreement(circumstances, tmp_path):
    def choose(person, page):
        assert "1. boil <water>" in page or "boil <water>" in page
        assert "(burnt object)" in page
        if "thing 1" in page:
            return {"plausible": "yes", "expressible": "yes"}
        if "thing 2" in page:
            return {"plausible": "no"}
        assert '"rewritten"' in page
        return {
            "plausible": "yes",
            "expressible": "yes" if person.endswith("1") else "no",
            "rewritten": "not asked",
        }

    label_all(circumstances, lambda person, page: choose(person, unescape(page)))
    output, _ = export(circumstances)
    assert "Circumstances decided: 2 of 3, accepted: 1" in output
    assert re.search(r"^Not exported .*lead.*: 1$", output, re.MULTILINE)
    with served(circumstances) as address:
        lead = enter(address, circumstances, "lead")
        (position,) = [
            at for name, at in circumstances.positions().items() if name == "making_tea/3"
        ]
        lead.page = lead.get(f"/adjudicate/{position}")
        assert post(lead, plausible="yes", expressible="otherwise").status_code == 422
        answer = {"plausible": "yes", "expressible": "otherwise", "rewritten": "thing 3 is stained"}
        assert post(lead, **answer).status_code == 200
    circumstances.close()
    assert "Circumstances decided: 3 of 3, accepted: 2" in export(circumstances)[0]
    lines = [
        json.loads(line) for line in (tmp_path / "out/circumstances.jsonl").read_text().splitlines()
    ]
    accepted = {line["id"]: line["accepted"] for line in lines}
    assert accepted == {"making_tea/1": True, "making_tea/2": False, "making_tea/3": True}
    assert [line["circumstance"] for line in lines if line["id"] == "making_tea/3"] == [
        "thing 3 is stained"
    ]
    code, output = run("annotate", "status", circumstances.database.path)
    assert code == 0, output
    assert "Selection: 6 of 6 labels" in output


def test_only_plausible_circumstances_are_checked_for_bddl(circumstances):
    with served(circumstances) as address:
        client = enter(address, circumstances, "annotator-1")
        assert post(client, plausible="yes").status_code == 422
        assert post(client, plausible="no", expressible="yes").status_code == 200
    (labels,) = circumstances.labelled().labels.values()
    assert labels[0].values == {"plausible": "no"}
    circumstances.close()


def test_every_line_of_a_plan_must_be_a_step(instances, tmp_path):
    store = start_plans(tmp_path, instances)
    with served(store) as address:
        client = enter(address, store, "annotator-1")
        assert 'rows="16"' in client.page.text
        reply = post(client, plan="walk_to(table)\r\ngrab the cup\r\n(cup)")
        assert reply.status_code == 422
        assert "line 2 (grab the cup) and 3 ((cup))" in unescape(reply.text)
        # The page keeps the written text.
        assert "walk_to(table)\ngrab the cup" in unescape(reply.text).replace("\r\n", "\n")
        assert post(client, plan=" \r\n").status_code == 422
        assert post(client, plan=" walk_to(table) \r\n\r\ngrab(cup_1)\n").status_code == 200
    (labels,) = store.labelled().labels.values()
    assert labels[0].values == {"plan": "walk_to(table)\ngrab(cup_1)"}
    assert re.search("Instances with .*gold plans: 0 of 1", export(store)[0])
    store.close()


def test_plans_are_exported(instances, tmp_path):
    store = start_plans(tmp_path, instances)
    label_all(store, lambda person, _: {"plan": "walk_to(table)\ngrab(cup_1)"})
    output, out = export(store)
    assert re.search("Instances with .*gold plans: 1 of 1", output)
    (line,) = map(json.loads, (out / "gold_plans.jsonl").read_text().splitlines())
    assert [plan["steps"] for plan in line["plans"]] == [["walk_to(table)", "grab(cup_1)"]] * 2
    # The lead's plan is another one, unless it repeats a plan.
    for text, number in (("walk_to(table)\ngrab(cup_1)", 2), ("grab(cup_1)", 3)):
        slot = store.adjudicate(0, "lead")
        store.save(slot, text, {"plan": text})
        assert "plan of the lead: 1" in export(store)[0]
        (line,) = map(json.loads, (out / "gold_plans.jsonl").read_text().splitlines())
        assert [plan["person"] for plan in line["plans"]] == ["annotator-1", "annotator-2", "lead"][
            :number
        ]
    store.close()
    # The report rejects these labels.
    _, output = run("report", out, "--out", tmp_path / "report")
    assert re.search(r"/out: skipped; .*actplan-plans", " ".join(output.split()))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", r"instances\.jsonl: no instances; .*data build actplan"),
        ('{"id": "a"}', "line 1: description"),
        (
            '{"id": "a", "description": "b", "objects": [], "images": ["../x.png"]}',
            "x.png",
        ),
        (
            '{"id": "a", "description": "b", "objects": [], "images": ["x.png"]}',
            "cannot read x.png",
        ),
    ],
)
def test_invalid_instances_raise_an_error(tmp_path, line, message):
    (tmp_path / "instances.jsonl").write_text(line)
    with pytest.raises(LmmsEgoplanError, match=message):
        start_plans(tmp_path, tmp_path / "instances.jsonl")


def test_a_file_without_circumstances_raises_an_error(tmp_path):
    (tmp_path / "circumstances.jsonl").write_text("")
    with pytest.raises(
        LmmsEgoplanError, match=r"circumstances\.jsonl: no circumstances; .*data build actplan"
    ):
        actplan_circumstances.read_items(tmp_path / "circumstances.jsonl")
