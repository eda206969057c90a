"""Read, describe and change activities; every fault of a language model leads to its reason."""

import json
import re

import pytest

from construction.actplan.language_model import LanguageModel, activity_of, kind_of, text_of
from construction.actplan.rooms import ACTIVITIES, write_activities
from judge_server import Reply
from judging.asked import KEY
from lmms_egoplan.construction.actplan import circumstances
from lmms_egoplan.construction.actplan.activities import (
    INCOMPLETE,
    INVALID,
    NO_DESCRIPTION,
    NOT_COUNTERFACTUAL,
    describe,
    examples_for,
    read_activities,
    read_examples,
)
from lmms_egoplan.construction.actplan.bddl import parse_problem
from lmms_egoplan.construction.actplan.circumstances import change, propose, read_verdicts
from lmms_egoplan.construction.actplan.conditions import Advice, Description, advise
from lmms_egoplan.construction.actplan.description import unnamed_objects
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.json_replies import CUT_OFF, NO_REPLY, NOT_JSON
from lmms_egoplan.judging.settings import JudgeSettings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return write_activities(tmp_path / "bddl")


def settings(server):
    return JudgeSettings("model", server.url, KEY, 4)


def reasons(rejections):
    return [(rejection.where, rejection.reason) for rejection in rejections]


def test_examples_are_of_other_activities(folder):
    activities, examples = read_activities(folder)[0], read_examples(folder)
    for activity in activities:
        pairs = examples_for(activity, examples, 3)
        assert len(pairs) == 3
        assert pairs == examples_for(activity, examples[::-1], 3)
        assert not [bddl for bddl, _ in pairs if f"(problem {activity.name}_" in bddl]
        assert not [text for _, text in pairs if "Generate" in text]


def test_descriptions_are_complete_or_rejected(folder):
    activities, examples = read_activities(folder)[0], read_examples(folder)
    names = [activity.name for activity in activities]
    faults = dict(
        zip(names, ("incomplete", "prose", "cut off", "refused", "other form"), strict=True)
    )
    with LanguageModel({("description", name): fault for name, fault in faults.items()}) as server:
        result, rejections = describe(activities, examples, settings(server))
        (again,) = [prompt for prompt in server.prompts if kind_of(prompt) == "again"]
    assert "objects:\n- cup.n.01\n- sink.n.01\n- table.n.02\n" in again
    assert "There is a thing somewhere." in again
    assert list(result) == [f"{names[0]}/0"]
    assert not unnamed_objects(activities[0].problem, result[f"{names[0]}/0"])
    assert reasons(rejections) == [
        (f"{names[1]}/0", NOT_JSON),
        (f"{names[2]}/0", CUT_OFF),
        (f"{names[3]}/0", NO_REPLY),
        (f"{names[4]}/0", NO_DESCRIPTION),
    ]


def test_a_description_is_requested_at_most_twice(folder):
    activities, examples = read_activities(folder)[0][:1], read_examples(folder)
    name = activities[0].name
    with LanguageModel(
        {("description", name): "incomplete", ("again", name): "incomplete"}
    ) as server:
        result, rejections = describe(activities, examples, settings(server))
        assert len(server.prompts) == 2
    assert result == {}
    assert reasons(rejections) == [(f"{name}/0", INCOMPLETE)]
    assert "cup.n.01" in rejections[0].detail


def test_every_invalid_change_has_its_reason(folder):
    activities = read_activities(folder)[0]
    faults = ("prose", "bad bddl", "unchanged", "other form", "")
    with LanguageModel(
        {("change", a.name): fault for a, fault in zip(activities, faults, strict=True)}
    ) as server:
        accepted = [(activity.name, "the thing is burnt") for activity in activities]
        accepted += [
            (activities[-1].name, "the thing has gone bad"),
            (activities[-1].name, "the thing is soaked"),
        ]
        accepted += [("making_tea", "there is no tea")]
        changed, rejections = change(activities, accepted, settings(server))
    (result,) = changed
    assert (result.key, result.category, result.circumstance) == (
        f"{activities[-1].name}/1",
        "object property",
        "the thing is burnt",
    )
    assert result.problem.name == f"{activities[-1].name}_1"
    assert parse_problem(str(result.problem), "again") == result.problem
    assert [rejection.reason for rejection in rejections] == [
        circumstances.UNKNOWN_ACTIVITY,
        NOT_JSON,
        circumstances.BAD_BDDL,
        circumstances.UNCHANGED,
        circumstances.NO_PROBLEM,
        circumstances.UNKNOWN_PREDICATE,
        circumstances.NOT_NEEDED,
    ]
    assert "perished" in rejections[-2].detail


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (
            "(forall (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?shelf.n.01_1))",
            "(ontop ?cup.n.01_1 ?table.n.02_1)",
            "start",
        ),
        (
            "(:goal (and",
            "(:goal (and (frozen ?cup.n.01_1) (not (frozen ?cup.n.01_1))",
            "(frozen ?cup.n.01_1)",
        ),
        (
            "(inroom table.n.02_1 kitchen)",
            "(inside cup.n.01_1 cup.n.01_1)",
            "(inside ?cup.n.01_1 ?cup.n.01_1)",
        ),
        (
            "(inroom table.n.02_1 kitchen)",
            "(inside table.n.02_1 cup.n.01_1)",
            "(inside ?table.n.02_1 ?cup.n.01_1)",
        ),
        ("(inroom table.n.02_1 kitchen)", "(not (burnt cup.n.01_1))", "(not (burnt ?cup.n.01_1))"),
        ("agent.n.01_1 - agent.n.01", "", "agent"),
    ],
)
def test_changed_problems_with_contradictions_are_rejected(folder, old, new, named):
    activities = [
        activity for activity in read_activities(folder)[0] if activity.name == "storing_cups"
    ]
    bddl = (
        (folder / "storing_cups/problem0.bddl")
        .read_text()
        .replace("(:init", "(:init (burnt cup.n.01_1)")
    )
    assert old in bddl
    reply = {"category": "object property", "problem": bddl.replace(old, new)}
    with LanguageModel() as server:
        server.reply = lambda prompt, before: Reply(json.dumps(reply))
        changed, rejections = change(
            activities, [("storing_cups", "a cup is burnt")], settings(server)
        )
    assert changed == []
    (rejection,) = rejections
    assert rejection.reason == circumstances.BAD_BDDL
    assert named in rejection.detail


def test_nothing_is_proposed_if_a_counterfactual_exists(folder):
    for name in list(ACTIVITIES)[:2]:
        bddl = (folder / name / "problem0.bddl").read_text().replace(f"{name}_0", f"{name}_1")
        (folder / name / "problem1.bddl").write_text(bddl)
    (folder / "cleaning_cups" / "task_description_1.txt").write_text("The sink is blocked.\n")
    activities, rejections = read_activities(folder)
    assert reasons(rejections) == [("packing_cookies/problem1.bddl", NOT_COUNTERFACTUAL)]
    assert [activity.key for activity in activities].count("cleaning_cups/1") == 1
    texts = {activity.key: "There are a cup." for activity in activities}
    with LanguageModel() as server:
        propose(activities, texts, settings(server))
        assert "cleaning_cups" not in map(activity_of, server.prompts)
        assert len(server.prompts) == 4


def test_unusable_problems_are_rejected(folder):
    (folder / "cleaning_cups/problem0.bddl").write_text("(define (problem x)")
    path = folder / "storing_cups/problem0.bddl"
    path.write_text(
        path.read_text().replace("(ontop cup.n.01_1", "(perished cup.n.01_1) (ontop cup.n.01_9")
    )
    (folder / "filling_sink/problem0.bddl").write_bytes(b"\xff")
    activities, rejections = read_activities(folder)
    assert [activity.name for activity in activities] == ["packing_cookies", "putting_away_cookies"]
    assert [rejection.reason for rejection in rejections] == [INVALID] * 3
    assert "perished" in rejections[2].detail
    for name in ("packing_cookies", "putting_away_cookies"):
        (folder / name / "problem0.bddl").write_text("")
    with pytest.raises(LmmsEgoplanError, match="none of its 5 problems can be used"):
        read_activities(folder)


def test_invalid_folders_raise_an_error(tmp_path, folder):
    with pytest.raises(LmmsEgoplanError, match="no such folder"):
        read_activities(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LmmsEgoplanError, match="no BDDL problem"):
        read_activities(tmp_path / "empty")
    for path in folder.glob("*/task_description_0.txt"):
        path.unlink()
    with pytest.raises(LmmsEgoplanError, match="--examples"):
        read_examples(folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1"),
        ('{"id": "a/1", "activity": "a", "circumstance": "b"}', "line 1: accepted"),
        (
            '{"id": "a/1", "activity": "a", "circumstance": 3, "accepted": true}',
            "line 1: circumstance",
        ),
        (None, re.escape("no circumstances.jsonl")),
    ],
)
def test_invalid_exports_raise_an_error(tmp_path, line, message):
    if line is not None:
        (tmp_path / "circumstances.jsonl").write_text(line)
    with pytest.raises(LmmsEgoplanError, match=message):
        read_verdicts(tmp_path)


def test_verdicts_are_in_the_order_of_the_proposals(tmp_path):
    ids = ("b/10", "b/2", "a/3", "b/1")
    lines = [
        {"id": name, "activity": name[0], "circumstance": name, "accepted": name != "b/1"}
        for name in ids
    ]
    (tmp_path / "circumstances.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    accepted, refused = read_verdicts(tmp_path)
    assert accepted == [("a", "a/3"), ("b", "b/2"), ("b", "b/10")]
    assert reasons(refused) == [("b", circumstances.NOT_ACCEPTED)]


def test_changes_of_a_circumstance_are_conditions_to_state(folder):
    activities = read_activities(folder)[0]
    with LanguageModel() as server:
        (changed,), _ = change(activities, [("storing_cups", "the cup is burnt")], settings(server))
        assert [str(fact) for fact in changed.changes] == ["(burnt ?cup.n.01_1)"]
        text = text_of(changed.problem)
        descriptions = {
            "told": Description(changed.problem, text, changed.changes),
            "forgotten": Description(
                changed.problem, text.replace("burnt", "there"), changed.changes
            ),
        }
        advice, _ = advise(descriptions, settings(server))
    assert advice == [Advice("told", (), ()), Advice("forgotten", ("(burnt ?cup.n.01_1)",), ())]


def test_complete_examples_are_preferred(folder):
    path = folder / "storing_cups/task_description_0.txt"
    path.write_text("Store things.\nGenerate admissible procedural plans.")
    activities, examples = read_activities(folder)[0], read_examples(folder)
    assert [example.activity for example in examples if not example.is_complete] == ["storing_cups"]
    for activity in activities:
        texts = [text for _, text in examples_for(activity, examples, 3)]
        assert "Store things." not in texts
    assert "Store things." in [text for _, text in examples_for(activities[0], examples, 4)]
