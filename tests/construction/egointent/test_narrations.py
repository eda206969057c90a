import pytest

from construction.egointent.small import TEA, UID, narrated, write_narrations
from lmms_egoplan.construction import ego4d
from lmms_egoplan.construction.egointent import narrations as reading
from lmms_egoplan.construction.egointent.narrations import read_narrations
from lmms_egoplan.errors import LmmsEgoplanError


def read(tmp_path, passes, uids=(UID,), **options):
    return read_narrations(write_narrations(tmp_path / "narration.json", {UID: passes}, **options), uids)


def reasons(rejections):
    return [rejection.reason for rejection in rejections]


@pytest.mark.parametrize("wrapped", [True, False])
def test_narrations_come_by_time_with_summaries_of_both_passes(tmp_path, wrapped):
    passes = {
        "narration_pass_1": narrated(*TEA[::-1], summaries=("C makes tea", "C cleans")),
        "narration_pass_2": narrated((1, "#C C does it"), summaries=("C makes  tea", "C drinks")),
    }
    videos, rejections = read(tmp_path, passes, wrapped=wrapped)
    found = videos[UID]
    assert [(one.number, one.seconds, one.text) for one in found.narrations[:2]] == [
        (1, 0.5, "C picks a kettle"),
        (2, 1.1, "C fills the kettle"),
    ]
    assert found.narrations[0].action == "picks a kettle"
    assert found.summaries == ("#Summary C makes tea", "#Summary C cleans", "#Summary C drinks")
    (second,) = rejections
    assert (second.reason, second.detail) == (reading.SECOND_PASS, "1 narrations")
    assert second.where.endswith(f"{UID}, narration_pass_2")


@pytest.mark.parametrize("absent", [{}, {"narration_pass_1": {"narrations": []}}, {"narration_pass_1": None}])
def test_a_pass_may_be_absent(tmp_path, absent):
    videos, rejections = read(tmp_path, absent | {"narration_pass_2": narrated(*TEA)})
    assert len(videos[UID].narrations) == 5
    assert rejections == []


def test_what_makes_no_step_stays_as_context_with_a_reason(tmp_path):
    texts = {
        "#C C picks a pan": "",
        "#c c  Stirs #Unsure": ego4d.UNSURE,
        "#O A man X talks": ego4d.OTHER_PERSON,
        "#C C": ego4d.NO_TEXT,
        "#C C кладёт": ego4d.OTHER_LETTERS,
        "  ": ego4d.NO_TEXT,
    }
    rows = [(float(number), text) for number, text in enumerate(texts)]
    videos, rejections = read(tmp_path, {"narration_pass_1": narrated(*rows, rows[0])})
    # The one that is there twice comes right behind its twin.
    assert [one.problem for one in videos[UID].narrations] == ["", reading.REPEATED, *list(texts.values())[1:]]
    assert reasons(rejections) == [reading.REPEATED, *list(texts.values())[1:]]
    said = [one.text for one in videos[UID].narrations]
    assert said[:4] == ["C picks a pan", "", "c Stirs something", "O A man X talks"]
    assert rejections[-1].where == f"{tmp_path / 'narration.json'}, {UID}, narration_pass_1.narrations[5]"


@pytest.mark.parametrize(
    ("text", "said", "action"),
    [
        ("#C picks a plastic bag", "picks a plastic bag", "picks a plastic bag"),
        ("  # c C takes vitamin C", "C takes vitamin C", "takes vitamin C"),
        ("#C C's hand moves", "C's hand moves", "C's hand moves"),
        ("#O man X gives #C a cup", "O man X gives C a cup", "O man X gives C a cup"),
    ],
)
def test_the_wearer_is_left_out_at_the_beginning_alone(tmp_path, text, said, action):
    videos, _ = read(tmp_path, {"narration_pass_1": narrated((1, text))})
    (narration,) = videos[UID].narrations
    assert (narration.text, narration.action) == (said, action)


def test_two_narrations_without_text_at_one_time_are_no_repetition(tmp_path):
    _, rejections = read(tmp_path, {"narration_pass_1": narrated((1, None), (1, None))})
    assert reasons(rejections) == [ego4d.NO_TEXT] * 2


def test_a_video_whose_passes_are_empty_is_said_to_be_there(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=UID):
        read(tmp_path, {"narration_pass_1": {"narrations": []}})


def test_other_videos_are_not_read(tmp_path):
    broken = narrated((0, "#C C waits"))
    del broken["narrations"][0]["timestamp_sec"]
    path = write_narrations(
        tmp_path / "n.json", {UID: {"narration_pass_1": narrated(*TEA)}, "other": {"narration_pass_1": broken}}
    )
    videos, rejections = read_narrations(path, (UID, "third"))
    assert [*videos] == [UID]
    assert reasons(rejections) == [ego4d.NO_NARRATIONS]
    videos, rejections = read_narrations(path, (UID, "other"))
    assert [*videos] == [UID]
    assert reasons(rejections) == [ego4d.NO_TIME]
    with pytest.raises(LmmsEgoplanError, match=r"n\.json.*third"):
        read_narrations(path, ("third",))


@pytest.mark.parametrize("time", [None, True, "3", -1, 1e9, float("nan")])
def test_a_time_is_seconds_from_zero(tmp_path, time):
    passes = {"narration_pass_1": narrated(*TEA)}
    passes["narration_pass_1"]["narrations"][3]["timestamp_sec"] = time
    videos, rejections = read(tmp_path, passes)
    assert reasons(rejections) == [ego4d.NO_TIME]
    assert len(videos[UID].narrations) == len(TEA) - 1


@pytest.mark.parametrize("content", [[], {}, {"videos": []}, "text"])
def test_another_file_is_one_error(tmp_path, content):
    path = write_narrations(tmp_path / "n.json", content)
    with pytest.raises(LmmsEgoplanError, match=r"n\.json.*narration_pass_1"):
        read_narrations(path, (UID,))
