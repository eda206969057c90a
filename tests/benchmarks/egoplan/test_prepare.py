"""Test `data prepare` of both benchmarks: rows, counts, and media that are missing, damaged or
outside the folder.
"""

import json
import os
import re
import shutil
from datetime import datetime

import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.bench2_questions import EXAMPLES
from example_record import RECORD
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan, prepare_egoplan_bench2
from lmms_egoplan.benchmarks.egoplan.records import read_bench2_annotations
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import frame_path
from lmms_egoplan.storage import load_summary, records_digest, split_dir
from media.files import damage_packet, number_image, write_epic_folder, write_numbered_video


def question(sample_id, source, video_id, observation, *past, goal="brew tea"):
    return RECORD | {
        "sample_id": sample_id,
        "video_source": source,
        "video_id": video_id,
        "task_goal": goal,
        "question": f"What next, in order to {goal}?",
        "current_observation_frame": observation,
        "task_progress_metadata": [
            {"narration_text": f"step {i}", "start_frame": start, "stop_frame": stop}
            for i, (start, stop) in enumerate(past)
        ],
    }


def bench2_question(sample_id, **changes):
    return {
        "sample_id": sample_id,
        "domain": "work",
        "scenario": "carpentry",
        "task_goal": "saw a board",
        **{f"choice_{letter}": f"step {letter}" for letter in "abcd"},
        "golden_choice_idx": "B",
        "answer": "step b",
        "task_start_frame": 4,
        "current_observation_frame": 29,
        "task_progress_metadata": [
            {"narration_text": "take the saw", "start_frame": 10, "stop_frame": 20}
        ],
    } | changes


QUESTIONS = [
    question(11, "EpicKitchens", "P01_02", 20, (2, 9), (8, 25)),
    question(12, "EpicKitchens", "P01_02", 1),
    question(20, "Ego4D", "0a1b-2c", 29, (0, 12), goal="wash car"),
]


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_epic_folder(tmp_path / "epic" / "P01" / "rgb_frames" / "P01_02", 1, 20)
    write_numbered_video(tmp_path / "ego4d" / "0a1b-2c.mp4", 30)
    return tmp_path


def prepare(
    folder, questions, split="val", epic="epic", ego4d="ego4d", skip_missing=False, verify=False
):
    roots = {"EpicKitchens": epic and folder / epic, "Ego4D": ego4d and folder / ego4d}
    media = Media(roots, skip_missing=skip_missing, verify=verify)
    return prepare_egoplan(write(folder, questions), split, media)


def write(folder, questions):
    path = folder / "annotations.json"
    path.write_text(json.dumps(questions))
    return path


def prepare_bench2(folder, questions, **options):
    return prepare_egoplan_bench2(
        write(folder, questions), Media({"Ego4D": folder / "ego4d"}, **options)
    )


def test_writes_every_question(folders):
    summary = prepare(folders, QUESTIONS)
    dataset = EGOPLAN.load("val")
    epic = folders / "epic" / "P01" / "rgb_frames" / "P01_02"
    assert dataset[0] == {
        "sample_id": 11,
        "video_source": "EpicKitchens",
        "video_id": "P01_02",
        "task_goal": "brew tea",
        "question": "What next, in order to brew tea?",
        "choices": ["fill kettle", "pour water", "open drawer", "wash cup"],
        "golden_choice_idx": "B",
        "answer": "pour water",
        "current_observation_frame": 20,
        "past_actions": [
            {"narration_text": "step 0", "start_frame": 2, "stop_frame": 9},
            {"narration_text": "step 1", "start_frame": 8, "stop_frame": 25},
        ],
        "media_path": str(epic.resolve()),
        "split_size": 3,
        "question_set": "own",
    }
    assert dataset[1]["past_actions"] == []
    assert dataset[2]["media_path"] == str((folders / "ego4d" / "0a1b-2c.mp4").resolve())
    assert {name: dataset.features[name].dtype for name in ("sample_id", "split_size")} == {
        "sample_id": "int64",
        "split_size": "int64",
    }
    assert summary == load_summary("egoplan", "val")


def test_summary_compares_with_the_paper(folders):
    summary = prepare(folders, QUESTIONS)
    assert datetime.fromisoformat(summary.pop("prepared")).tzinfo
    assert len(summary.pop("fingerprint")) == len(summary.pop("records_digest")) == 64
    assert summary.pop("datasets")
    assert summary == {
        "benchmark": "egoplan",
        "format": EGOPLAN.data_format,
        "split": "val",
        "annotations": str((folders / "annotations.json").resolve()),
        "split_size": 3,
        "question_set": "own",
        "questions": 3,
        "missing": [],
        "counts": {
            "questions": {"prepared": 3, "annotations": 3, "paper": 3355, "matches": False},
            "task_goals": {"prepared": 2, "annotations": 2, "paper": 2407, "matches": False},
            "action_plans": {"prepared": 4, "annotations": 4, "paper": 2538, "matches": False},
            "verbs": {"prepared": 4, "annotations": 4, "paper": 202, "matches": False},
            "objects": {"prepared": 4, "annotations": 4, "paper": 496, "matches": False},
            "scenes": {"prepared": 2, "annotations": 2, "paper": 279, "matches": False},
            "EpicKitchens": {"prepared": 2, "annotations": 2, "paper": 2432, "matches": False},
            "Ego4D": {"prepared": 1, "annotations": 1, "paper": 923, "matches": False},
        },
    }


def test_the_official_numbers_match(folders):
    def goal(i):
        return f"goal {i % 2407}"

    epic = [question(i, "EpicKitchens", "P01_02", 1, goal=goal(i)) for i in range(2432)]
    ego4d = [question(i, "Ego4D", "0a1b-2c", i % 30, goal=goal(i)) for i in range(2432, 3355)]
    official = prepare(folders, epic + ego4d)
    counts = official["counts"]
    matching = {name for name, count in counts.items() if count["prepared"] == count["paper"]}
    assert matching == {"questions", "task_goals", "EpicKitchens", "Ego4D"}
    assert {name for name, count in counts.items() if count["matches"]} == matching
    part = prepare(folders, epic + ego4d, ego4d=None, skip_missing=True)
    assert (part["questions"], part["records_digest"]) == (2432, official["records_digest"])
    assert official["question_set"] == part["question_set"] == "official by counts"
    of_other_sources = [*epic, question(9999, "EpicKitchens", "P01_02", 1), *ego4d[1:]]
    assert (
        prepare(folders, of_other_sources, ego4d=None, skip_missing=True)["question_set"] == "own"
    )


@pytest.mark.parametrize(
    ("digest", "name"), [(None, "official by counts"), ("same", "official"), ("other", "own")]
)
def test_a_known_digest_decides(folders, monkeypatch, digest, name):
    questions = [bench2_question(f"0a1b-2c_{number}") for number in range(1321)]
    known = records_digest(read_bench2_annotations(write(folders, questions)))
    if digest:
        monkeypatch.setitem(EGOPLAN_BENCH2.digests, "test", known if digest == "same" else "0" * 64)
    summary = prepare_bench2(folders, questions)
    assert {*EGOPLAN_BENCH2.load("test")["question_set"]} == {summary["question_set"]} == {name}
    assert prepare_bench2(folders, questions[1:])["question_set"] == "own"


def test_test_split_has_no_answers(folders):
    private = [record | {"golden_choice_idx": None, "answer": None} for record in QUESTIONS]
    summary = prepare(folders, private, split="test")
    dataset = EGOPLAN.load("test")
    assert dataset["golden_choice_idx"][:] == dataset["answer"][:] == [None] * 3
    assert summary["counts"]["questions"]["paper"] == 1584
    assert summary["question_set"] == "own"
    private = [
        question(i, "Ego4D", "0a1b-2c", 1) | {"golden_choice_idx": None, "answer": None}
        for i in range(1584)
    ]
    assert prepare(folders, private, split="test")["question_set"] == "official by counts"
    assert summary["counts"]["Ego4D"] == {
        "prepared": 1,
        "annotations": 1,
        "paper": None,
        "matches": None,
    }


def test_a_source_that_is_not_needed_is_optional(folders):
    assert prepare(folders, QUESTIONS[:2], ego4d=None)["questions"] == 2
    assert prepare(folders, QUESTIONS[2:], epic=None)["questions"] == 1
    with pytest.raises(LmmsEgoplanError, match=r"1 of 3 .*Ego4D.*--ego4d.*ego4d-data.org"):
        prepare(folders, QUESTIONS, ego4d=None)
    with pytest.raises(LmmsEgoplanError, match=r"--epic-kitchens .*absent.*epic-kitchens.github"):
        prepare(folders, QUESTIONS, epic="absent", skip_missing=True)
    for skip_missing in (False, True):
        with pytest.raises(LmmsEgoplanError, match=r"1 of 1 .*Ego4D.*--ego4d"):
            prepare_egoplan_bench2(
                write(folders, [bench2_question("v_1")]),
                Media({"Ego4D": None}, None, None, skip_missing),
            )


def test_missing_media_are_listed_and_nothing_is_written(folders):
    frame_path(folders / "epic/P01/rgb_frames/P01_02", 2).unlink()
    questions = [
        *QUESTIONS,
        question(30, "Ego4D", "0a1b-2c", 30),
        question(31, "Ego4D", "absent", 3),
        question(32, "EpicKitchens", "P01_02", 21),
    ]
    with pytest.raises(LmmsEgoplanError) as caught:
        prepare(folders, questions)
    message = str(caught.value)
    for pattern in (
        "4 of 6",
        "2 from EpicKitchens.*--epic-kitchens.*https://epic-kitchens.github.io",
        "2 from Ego4D.*--ego4d.*https://ego4d-data.org",
        "3 videos",
        f"P01_02.*2.*{folders}/epic/P01/rgb_frames/P01_02/frame_0000000002.jpg.* 2 to 21",
        f"0a1b-2c.*1.*{folders}/ego4d/0a1b-2c.mp4: 30 .* frame 30",
        f"absent.*1.*{folders}/ego4d/absent.mp4",
        "--skip-missing",
    ):
        assert re.search(pattern, message), pattern
    assert not split_dir("egoplan", "val").exists()

    summary = prepare(folders, questions, skip_missing=True)
    assert (summary["questions"], summary["split_size"]) == (2, 6)
    assert [
        (video["video_source"], video["video"], video["sample_ids"]) for video in summary["missing"]
    ] == [
        ("EpicKitchens", "P01_02", [11, 32]),
        ("Ego4D", "0a1b-2c", [30]),
        ("Ego4D", "absent", [31]),
    ]
    assert all(video["reason"] in message for video in summary["missing"])
    assert load_summary("egoplan", "val") == summary
    assert summary["counts"]["Ego4D"] == {
        "prepared": 1,
        "annotations": 3,
        "paper": 923,
        "matches": False,
    }
    dataset = EGOPLAN.load("val")
    assert dataset["sample_id"][:] == [12, 20]
    assert dataset["split_size"][:] == [6, 6]


def test_verify_finds_damaged_frames(folders):
    """Frames 24 to 35 are one group of pictures.

    The damage makes frame 27 and all later ones undecodable.
    """
    write_numbered_video(folders / "ego4d/0a1b-2c.mp4", 60)
    damage_packet(folders / "ego4d/0a1b-2c.mp4", 25)
    frame = frame_path(folders / "epic/P01/rgb_frames/P01_02", 12)
    frame.write_bytes(frame.read_bytes()[:400])
    questions = [
        *QUESTIONS,
        question(21, "Ego4D", "0a1b-2c", 24),
        question(22, "Ego4D", "0a1b-2c", 59, (36, 40)),
        question(23, "Ego4D", "0a1b-2c", 59, (20, 40)),
    ]
    unverified = prepare(folders, questions)
    assert (unverified["questions"], "verified" in unverified) == (6, False)
    with pytest.raises(LmmsEgoplanError) as caught:
        prepare(folders, questions, verify=True)
    message = str(caught.value)
    for pattern in (
        "3 of 6.*damaged",
        f"P01_02.*1.*{frame}",
        rf"0a1b-2c.*2.*{folders}/ego4d/0a1b-2c.mp4: frame \d+.* s,.*damaged",
        "--skip-missing",
    ):
        assert re.search(pattern, message), pattern
    assert load_summary("egoplan", "val") == unverified

    summary = prepare(folders, questions, skip_missing=True, verify=True)
    assert summary["verified"] is True
    assert [entry["sample_ids"] for entry in summary["missing"]] == [[11], [20, 23]]
    dataset = EGOPLAN.load("val")
    assert dataset["sample_id"][:] == [12, 21, 22]


def test_questions_of_an_omitted_source_can_be_skipped(folders):
    summary = prepare(folders, QUESTIONS, ego4d=None, skip_missing=True)
    (missing,) = summary["missing"]
    assert "--ego4d" in missing["reason"]
    assert missing == {
        "video_source": "Ego4D",
        "video": "0a1b-2c",
        "reason": missing["reason"],
        "sample_ids": [20],
    }
    with pytest.raises(LmmsEgoplanError, match="no question is left to prepare"):
        prepare(folders, QUESTIONS[2:], ego4d=None, skip_missing=True)
    assert load_summary("egoplan", "val") == summary


def test_long_lists_are_cut(folders):
    questions = [question(i, "Ego4D", f"absent-{i // 2}", 3) for i in range(100, 210)]
    with pytest.raises(LmmsEgoplanError, match=r"110 of 113 (.|\n)* 55 (.|\n)* 35 more") as caught:
        prepare(folders, [*questions, *QUESTIONS])
    assert str(caught.value).count("(questions: 2)") == 20
    summary = prepare(folders, [*questions, *QUESTIONS], skip_missing=True)
    assert [video["sample_ids"] for video in summary["missing"]] == [
        [i, i + 1] for i in range(100, 210, 2)
    ]


def test_symlinks_must_stay_inside_the_folder(folders):
    (folders / "elsewhere").mkdir()
    (folders / "epic/P02").mkdir()
    (folders / "epic/P02/rgb_frames").symlink_to(folders / "elsewhere")
    write_epic_folder(folders / "elsewhere/P02_01", 1, 3)
    write_numbered_video(folders / "elsewhere/v.mp4", 5)
    (folders / "ego4d/v.mp4").symlink_to(folders / "elsewhere/v.mp4")
    questions = [question(1, "EpicKitchens", "P02_01", 3), question(2, "Ego4D", "v", 3)]
    with pytest.raises(LmmsEgoplanError, match=r"P02_01 .*leads out of(.|\n)*v \(.*leads out of"):
        prepare(folders, questions)

    folder = folders / "epic/P01/rgb_frames/P01_02"
    frame_path(folder, 5).unlink()
    frame_path(folder, 5).symlink_to(frame_path(folder, 4).name)
    assert prepare(folders, QUESTIONS)["missing"] == []
    frame_path(folder, 5).unlink()
    frame_path(folder, 5).symlink_to(frame_path(write_epic_folder(folders / "elsewhere", 5, 5), 5))
    with pytest.raises(LmmsEgoplanError, match=r"frame_0000000005.jpg' leads out of"):
        prepare(folders, QUESTIONS)
    frame_path(folder, 5).rename(frame_path(folder, 21))
    write_epic_folder(folder, 5, 5)
    assert prepare(folders, QUESTIONS)["missing"] == []


@pytest.mark.parametrize(
    "damage",
    [lambda path: None, lambda path: path.symlink_to("gone.jpg"), lambda path: path.mkdir()],
)
def test_every_frame_up_to_the_observation_must_exist(folders, damage):
    path = frame_path(folders / "epic/P01/rgb_frames/P01_02", 13)
    path.unlink()
    damage(path)
    summary = prepare(
        folders, [*QUESTIONS, question(13, "EpicKitchens", "P01_02", 12, (1, 4))], skip_missing=True
    )
    (video,) = summary["missing"]
    assert video["sample_ids"] == [11]
    assert video["reason"].startswith(f"{path}: no such frame")


def test_a_frame_far_beyond_the_folder_is_quickly_reported(folders):
    with pytest.raises(LmmsEgoplanError, match=r"frame_0000000021.jpg: no such frame"):
        prepare(folders, [question(1, "EpicKitchens", "P01_02", 2**62, (2, 5))])


def test_the_fingerprint_changes_with_the_data(folders):
    frames, film = folders / "epic/P01/rgb_frames/P01_02", folders / "ego4d/0a1b-2c.mp4"
    seen = [prepare(folders, QUESTIONS)["fingerprint"]]
    write_epic_folder(frames, 21, 22)
    assert prepare(folders, QUESTIONS)["fingerprint"] == seen[0] == EGOPLAN.fingerprint("val")
    for name in ("epic", "ego4d"):
        shutil.copytree(folders / name, folders / "copy" / name)  # with the times of the files
    assert prepare(folders / "copy", QUESTIONS)["fingerprint"] == seen[0]

    number_image(3).save(frame_path(frames, 9), quality=50)
    seen.append(prepare(folders, QUESTIONS)["fingerprint"])
    os.utime(film, ns=(0, 7))
    seen.append(prepare(folders, QUESTIONS)["fingerprint"])
    seen.append(prepare(folders, QUESTIONS[::-1])["fingerprint"])
    seen.append(
        prepare(folders, [*QUESTIONS[:2], QUESTIONS[2] | {"task_goal": "dry car"}])["fingerprint"]
    )
    assert len(set(seen)) == 5


@pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the public records")
def test_published_example(folders):
    folder = folders / "epic" / "P01" / "rgb_frames" / "P01_13"
    write_epic_folder(folder, 36, 760)
    summary = prepare_egoplan(
        EXAMPLES, "val", Media({"EpicKitchens": folders / "epic", "Ego4D": None})
    )
    assert summary["questions"] == summary["split_size"] == 1
    (row,) = EGOPLAN.load("val")
    assert (row["sample_id"], row["answer"], len(row["past_actions"])) == (
        115,
        "put cereal box into cupboard",
        5,
    )
    assert row["media_path"] == str(folder.resolve())


def test_bench2_rows_and_counts(folders):
    questions = [bench2_question("0a1b-2c_1"), bench2_question("0a1b-2c_2", domain="Daily life")]
    counts = prepare_bench2(folders, questions)["counts"]
    assert counts == {
        "questions": {"prepared": 2, "annotations": 2, "paper": 1321, "matches": False},
        "videos": {"prepared": 1, "annotations": 1, "paper": 1113, "matches": False},
        "domains": {"prepared": 2, "annotations": 2, "paper": 4, "matches": False},
        "scenarios": {"prepared": 1, "annotations": 1, "paper": 24, "matches": False},
    }
    row = EGOPLAN_BENCH2.load("test")[0]
    assert [*row] == [
        *(
            "sample_id",
            "video_source",
            "video_id",
            "task_goal",
            "question",
            "choices",
            "golden_choice_idx",
            "answer",
        ),
        *("current_observation_frame", "past_actions", "media_path", "split_size"),
        *("question_set", "domain", "scenario", "first_frame"),
    ]
    assert (row["video_id"], row["domain"], row["scenario"], row["first_frame"]) == (
        "0a1b-2c",
        "Work",
        "carpentry",
        4,
    )


def test_bench2_without_some_frames(folders):
    late, absent = (
        bench2_question("0a1b-2c_2", current_observation_frame=30),
        bench2_question("v2_1"),
    )
    questions = [bench2_question("0a1b-2c_1"), late, absent]
    with pytest.raises(LmmsEgoplanError) as caught:
        prepare_bench2(folders, questions)
    for pattern in ("2 of 3", "0a1b-2c.mp4: 30 .* frame 30", "v2.mp4"):
        assert re.search(pattern, str(caught.value))
    assert prepare_bench2(folders, questions, skip_missing=True)["questions"] == 1
    assert EGOPLAN_BENCH2.load("test")["sample_id"] == ["0a1b-2c_1"]
    with pytest.raises(LmmsEgoplanError, match=r"--clips .*--ego4d"):
        prepare_bench2(folders, questions, clips=folders)


def test_the_size_of_a_copy_gives_a_warning(folders):
    """The number of records in lmms-eval's copy of EgoPlan-Bench2 differs from the paper's."""
    questions = [bench2_question(f"0a1b-2c_{number}") for number in range(1435)]
    arguments = [
        "data",
        "prepare",
        "egoplan_bench2",
        str(write(folders, questions)),
        "--ego4d",
        str(folders / "ego4d"),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert re.search(r"Warning: .*1,435 .*lmms-eval.*1,321", result.stderr)
    assert "warnings" not in prepare_bench2(folders, questions[:-1])
