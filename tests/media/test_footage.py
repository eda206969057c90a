"""Find questions with complete footage, and report the others."""

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, MissingFootage, find_footage
from media.files import damage_packet, write_epic_folder, write_numbered_video

QUESTIONS = [
    ("a", "first", range(3, 6)),
    ("b", "second", range(2)),
    ("c", "first", range(20, 30)),
    ("d", "gone", []),
]


@pytest.fixture
def paths(tmp_path):
    write_epic_folder(tmp_path / "second", 0, 1)
    return {
        "first": write_numbered_video(tmp_path / "first.mp4", 30),
        "second": tmp_path / "second",
    }


def find_in(paths, length=30):
    def find(questions):
        video = questions[0][1]
        if video == "gone":
            raise LmmsEgoplanError("gone: no such video")
        return {
            name: f"{name}: too long"
            if frames[-1] >= length
            else Footage(paths[video], "1", frames)
            for name, _, frames in questions
        }

    return find


def footage_of(find, verify=False):
    return find_footage(
        QUESTIONS, lambda question: question[0], lambda question: question[1], find, verify=verify
    )


GONE = MissingFootage("gone", "gone: no such video", ["d"])


def test_questions_have_their_footage_or_a_reason(paths):
    footage, lost = footage_of(find_in(paths, length=10))
    assert [*footage] == ["a", "b"]
    assert footage["a"] == Footage(paths["first"], "1", range(3, 6))
    assert lost == [MissingFootage("first", "c: too long", ["c"]), GONE]


def test_an_os_error_affects_only_its_video(paths):
    def find(questions):
        if questions[0][1] == "first":
            raise PermissionError("not yours")
        return find_in(paths)(questions)

    footage, lost = footage_of(find)
    assert [*footage] == ["b"]
    assert lost == [MissingFootage("first", "not yours", ["a", "c"]), GONE]


def test_verified_frames_are_all_decoded(paths):
    assert footage_of(find_in(paths), verify=True) == footage_of(find_in(paths))
    damage_packet(paths["first"], 25)
    footage, lost = footage_of(find_in(paths), verify=True)
    assert [*footage] == ["a", "b"]
    assert lost[0] == GONE
    ((video, reason, ids),) = lost[1:]
    assert (video, ids) == ("first", ["c"])
    assert str(paths["first"]) in reason


def test_a_video_deleted_before_decoding_is_reported(paths):
    find = find_in(paths)

    def find_and_remove(questions):
        footage = find(questions)
        if questions[0][1] == "first":
            paths["first"].unlink()
        return footage

    footage, lost = footage_of(find_and_remove, verify=True)
    assert [*footage] == ["b"]
    assert lost[0] == GONE
    assert (lost[1].video, lost[1].ids) == ("first", ["a", "c"])
    assert str(paths["first"]) in lost[1].reason
