"""Views: the choice by a model and by people, and the reuse of stored views."""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from construction.actplan.language_model import LanguageModel
from construction.actplan.rooms import room, write_activities, write_folder, write_tour
from judge_server import Reply
from judging.asked import KEY
from lmms_egoplan.construction.actplan import views as views_module
from lmms_egoplan.construction.actplan.activities import read_activities
from lmms_egoplan.construction.actplan.tours import Candidate, find_tours
from lmms_egoplan.construction.actplan.views import (
    FEWEST_VIEWS,
    MOST_VIEWS,
    choose_views,
    cover,
    read_choices,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import UNFINISHED
from lmms_egoplan.judging.json_replies import NO_REPLY
from lmms_egoplan.judging.settings import JudgeSettings

OBJECTS = ["cup", "sink", "table", "shelf"]


@given(st.lists(st.sets(st.sampled_from(OBJECTS)), min_size=FEWEST_VIEWS, max_size=8))
def test_few_views_cover_all_visible_objects(visible):
    candidates = [
        (
            Candidate(f"{number:05}", None, Image.new("RGB", (1, 1)), float(number % 3)),
            sorted(things),
        )
        for number, things in enumerate(visible)
    ]
    chosen, unseen = cover(candidates, OBJECTS)
    assert FEWEST_VIEWS <= len(chosen) <= MOST_VIEWS
    assert [candidate for candidate in candidates if candidate in chosen] == chosen
    seen = {thing for _, things in chosen for thing in things}
    assert unseen == [thing for thing in OBJECTS if thing not in seen]
    # With four objects, five views always show every visible object.
    assert seen == set().union(*visible)
    sizes = range(len(visible) + 1)
    fewest = next(
        n for n in sizes if any(set().union(*subset) == seen for subset in combinations(visible, n))
    )
    assert len(chosen) <= max(FEWEST_VIEWS, fewest + 1)


@pytest.fixture
def tours(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    activities = {
        activity.name: activity
        for activity in read_activities(write_activities(tmp_path / "bddl"))[0]
    }
    home = tmp_path / "tours/home"
    write_tour(
        home / "cleaning_cups/0/sample_0.mp4",
        [room("cup", "shelf"), room("sink"), room("table", "carton")],
    )
    write_folder(
        home / "cleaning_cups/0/sample_1", [room("cup", "table"), room("sink"), room("carton")]
    )
    return lambda: [
        (tour, activities[tour.id.activity]) for tour in find_tours(tmp_path / "tours")[0]
    ]


def choose(tours, tmp_path, server, choices=None, model="model"):
    return choose_views(
        tours, choices or {}, tmp_path / "views", JudgeSettings(model, server.url, KEY, 4)
    )


def file_names(result):
    return {str(entry.tour.id)[-1]: [view.file for view in entry.views] for entry in result[0]}


def test_stored_views_are_replaced_only_for_another_tour_or_choice(tours, tmp_path):
    with LanguageModel() as server:
        result = choose(tours(), tmp_path, server)
        assert file_names(result) == {
            "0": ["00000.png", "00009.png", "00018.png"],
            "1": ["00000.png", "00001.png"],
        }
        assert result[1] == []
        assert len(server.prompts) == 6
        records = sorted((tmp_path / "views").rglob("views.json"))
        before = [path.stat().st_mtime_ns for path in records]
        assert choose(tours(), tmp_path, server) == result
        assert [path.stat().st_mtime_ns for path in records] == before
        write_folder(
            tmp_path / "other", [room("cup", "table"), room("sink"), room("carton", "shelf")]
        )
        (tmp_path / "other/00002.png").replace(
            tmp_path / "tours/home/cleaning_cups/0/sample_1/00002.png"
        )
        assert choose(tours(), tmp_path, server)[0] == result[0]
        assert [
            path.stat().st_mtime_ns == time for path, time in zip(records, before, strict=True)
        ] == [True, False]
        assert len(server.prompts) == 7
        records[0].write_text("{")
        (records[1].parent / "00001.png").unlink()
        assert choose(tours(), tmp_path, server)[0] == result[0]
        assert len(server.prompts) == 7
        by_hand = {
            "home/cleaning_cups/0/sample_0": ["0.5", "2.5"],
            "home/cleaning_cups/0/sample_1": ["00002.png", "00000.png"],
        }
        result = choose(tours(), tmp_path, server, by_hand)
        assert file_names(result) == {
            "0": ["00002.png", "00010.png"],
            "1": ["00000.png", "00002.png"],
        }
        assert {entry.unseen for entry in result[0]} == {None}
        assert len(server.prompts) == 7
    assert not list((tmp_path / "views").rglob(f"{UNFINISHED}*"))


def test_a_missing_reply_is_requested_again(tours, tmp_path):
    faults = {("seen", ""): "refused"}
    with LanguageModel(faults) as server:
        chosen, rejections = choose(tours(), tmp_path, server)
        assert chosen == []
        assert [rejection.reason for rejection in rejections] == (
            [NO_REPLY] * 3 + [views_module.TOO_FEW]
        ) * 2
        faults.clear()
        chosen, rejections = choose(tours(), tmp_path, server)
        assert (len(chosen), rejections) == (2, [])


def test_a_missing_reply_is_requested_again_even_if_there_are_enough_views(tours, tmp_path):
    with LanguageModel() as server:
        reply = server.reply
        server.reply = lambda *asked: (
            Reply("refused", 400) if asked[0].endswith("[sink]") else reply(*asked)
        )
        chosen, rejections = choose(tours(), tmp_path, server)
        assert [entry.unseen for entry in chosen] == [("sink",)] * 2
        assert [rejection.reason for rejection in rejections] == [NO_REPLY] * 2
        server.reply = reply
        chosen, rejections = choose(tours(), tmp_path, server)
        assert [entry.unseen for entry in chosen] == [()] * 2
        assert rejections == []


@pytest.mark.parametrize("fault", ["prose", "other form"])
def test_unusable_replies_give_no_view(tours, tmp_path, fault):
    with LanguageModel({("seen", ""): fault}) as server:
        chosen, rejections = choose(tours(), tmp_path, server)
    assert chosen == []
    assert [
        rejection.where for rejection in rejections if rejection.reason == views_module.TOO_FEW
    ] == [
        "home/cleaning_cups/0/sample_0",
        "home/cleaning_cups/0/sample_1",
    ]
    assert len(rejections) == 8


def test_views_are_read_from_a_file(tmp_path):
    (tmp_path / "views.csv").write_text("id,view\nh/a/0/sample_0,1.5\nh/a/0/sample_0,3\n")
    (tmp_path / "views.json").write_text(json.dumps({"h/a/0/sample_0": [1.5, "3"]}))
    assert read_choices(tmp_path / "views.csv") == {"h/a/0/sample_0": ["1.5", "3"]}
    assert read_choices(tmp_path / "views.json") == {"h/a/0/sample_0": ["1.5", "3"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,view\nx,1\n", "x: expected 2 to 5 different views, found 1"),
        ("a.csv", "id,view\n" + "x,1\n" * 3, "found 1"),
        ("a.csv", "id,frame\nx,1\n", "line 2: expected the columns id and view"),
        ("a.json", "[1]", "expected an object with a list of views"),
        ("a.json", '{"x": 1}', "expected an object with a list of views"),
        ("a.json", '{"x": [1, 2', "a.json"),
        ("a.csv", b"\xff", "UTF-8"),
    ],
)
def test_invalid_files_of_views_raise_an_error(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LmmsEgoplanError, match=message):
        read_choices(tmp_path / name)
