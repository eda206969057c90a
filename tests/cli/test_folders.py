"""Wrong folders: one line that names what was found, and what to pass or to run."""

import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.egointent.source import raw_record, write_annotations
from benchmarks.egothink.source import write_source
from example_record import RECORD
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.cli import app
from media.files import write_epic_folder, write_numbered_video

EPIC_VIDEOS = ("P01_02", "P01_03", "P02_01", "P03_04")
EGO4D_VIDEOS = ("0a1b-2c", "0a1b-2d")
# With this name, a path needs no quotes in a shell.
EPIC_100 = "{participant}/rgb_frames/{video}"


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def egoplan(folder, *arguments, source="EpicKitchens", videos=EPIC_VIDEOS):
    """Prepare questions that show frame 2 to 5 of each video."""
    step = {"current_observation_frame": 5, "task_progress_metadata": []}
    records = [
        RECORD | step | {"sample_id": number, "video_source": source, "video_id": video}
        for number, video in enumerate(videos)
    ]
    (folder / "a.json").write_text(json.dumps(records))
    return run("data", "prepare", "egoplan", "a.json", "--split", "val", *arguments)


def epic(folder, root, layout=EPIC_100):
    """Write the frames of the videos below `root`, and prepare them from `epic`."""
    for video in EPIC_VIDEOS:
        participant = video.split("_")[0]
        path = layout.format(participant=participant, video=video)
        write_epic_folder(folder / root / path, 5, 5)


def archive(path, files, content):
    """Write an archive of empty files, or of one with a content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.parent / "source"
    source.write_bytes(content)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name in files:
                zipped.write(source, name)
    else:
        with tarfile.open(path, "w") as tar:
            for name in files:
                tar.add(source, name)
    source.unlink()


def too_deep(folder):
    epic(folder, "epic")
    return egoplan(folder, "--epic-kitchens", "epic/P01/rgb_frames"), "--epic-kitchens epic?"


def too_high(folder):
    epic(folder, "all/EPIC-KITCHENS")
    return egoplan(folder, "--epic-kitchens", "all"), "mean --epic-kitchens all/EPIC-KITCHENS?"


def too_high_with_spaces(folder):
    epic(folder, "all/EPIC KITCHENS")
    return egoplan(folder, "--epic-kitchens", "all"), "--epic-kitchens 'all/EPIC KITCHENS'?"


def no_participants(folder):
    epic(folder, "epic", "{video}")
    return egoplan(folder, "--epic-kitchens", "epic"), "4 folders, such as epic/P01_02"


def flat_frames(folder):
    write_epic_folder(folder / "epic/P01/rgb_frames", 5, 5)
    return egoplan(folder, "--epic-kitchens", "epic"), "directly in epic/P01/rgb_frames"


def folder_twice(folder):
    epic(folder, "epic", "{participant}/rgb_frames/{video}/{video}")
    return egoplan(folder, "--epic-kitchens", "epic"), "epic/P01/rgb_frames/P01_02/P01_02 "


def source_videos(folder):
    for video in EPIC_VIDEOS:
        path = folder / "epic" / video[:3] / "videos" / f"{video}.MP4"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    facts = "4 files, such as epic/P01/videos/P01_02.MP4", "--rgb-frames"
    return egoplan(folder, "--epic-kitchens", "epic"), *facts


def lower_case(folder):
    epic(folder, "epic", "{participant}/rgb_frames/{video}")
    for path in sorted((folder / "epic").glob("*/rgb_frames/*")):
        path.rename(path.with_name(path.name.lower()))
    return egoplan(folder, "--epic-kitchens", "epic"), "such as epic/P01/rgb_frames/p01_02"


def empty_folder(folder):
    (folder / "epic").mkdir()
    return egoplan(folder, "--epic-kitchens", "epic"), "epic: ", "empty", "epic-kitchens.github.io"


def other_content(folder):
    (folder / "epic/docs").mkdir(parents=True)
    return egoplan(folder, "--epic-kitchens", "epic"), "contains docs/;", "P01/rgb_frames/P01_02"


def archive_as_folder(folder):
    archive(folder / "P01.tar", ["P01/rgb_frames/P01_02/frame_0000000001.jpg"], b"")
    facts = "P01.tar: is an archive", "tar -xf P01.tar -C P01"
    return egoplan(folder, "--epic-kitchens", "P01.tar"), *facts


def other_suffix(folder):
    (folder / "ego4d").mkdir()
    for video in EGO4D_VIDEOS:
        write_numbered_video(folder / "ego4d" / f"{video}.mp4", 8)
        (folder / "ego4d" / f"{video}.mp4").rename(folder / "ego4d" / f"{video}.MP4")
    result = egoplan(folder, "--ego4d", "ego4d", source="Ego4D", videos=EGO4D_VIDEOS)
    return result, "for f in ego4d/*.MP4; do mv"


def ego4d_two_levels_too_high(folder):
    for video in EGO4D_VIDEOS:
        write_numbered_video(folder / "ego4d/v2/video_540ss" / f"{video}.mp4", 8)
    result = egoplan(folder, "--ego4d", "ego4d", source="Ego4D", videos=EGO4D_VIDEOS)
    return result, "all of them in ego4d/v2/video_540ss; did you mean --ego4d ego4d/v2/video_540ss?"


def clips_too_deep(folder):
    for number in range(4):
        write_numbered_video(folder / "clips" / f"{number}.mp4", 1)
    (folder / "clips/logs").mkdir()
    return egoplan(folder, "--clips", "clips/logs"), "did you mean --clips clips?"


def egointent_too_high(folder):
    write_annotations(folder / "steps.jsonl", [raw_record(video_id="0a1b-2c")])
    write_numbered_video(folder / "ego4d/full_scale/0a1b-2c.mp4", 90)
    result = run("data", "prepare", "egointent", "steps.jsonl", "--videos", "ego4d")
    return result, "the video 0a1b-2c is missing", "--videos ego4d/full_scale?"


def egothink_too_deep(folder):
    write_source(folder / "EgoThink", 1)
    return run("data", "prepare", "egothink", "EgoThink/Object"), "did you mean EgoThink?"


def egothink_too_high(folder):
    write_source(folder / "all/EgoThink", 1)
    return run("data", "prepare", "egothink", "all"), "did you mean all/EgoThink?"


def egothink_from_the_hub(folder):
    for dimension in DIMENSIONS:
        (folder / "hub-clone" / dimension.hub_config).mkdir(parents=True)
        (folder / "hub-clone" / dimension.hub_config / "test-0.parquet").touch()
    return run("data", "prepare", "egothink", "hub-clone"), "hub-clone: ", "pass hub"


def egothink_images_in_archives(folder):
    write_source(folder / "EgoThink", 1)
    for path in sorted((folder / "EgoThink").rglob("images")):
        for image in path.iterdir():
            image.unlink()
        path.rmdir()
        archive(path.with_suffix(".zip"), ["images/1.jpg"], b"")
    result = run("data", "prepare", "egothink", "EgoThink")
    return result, "12 archives, such as EgoThink/Activity/images.zip", "unzip -q"


def judged_answers(folder):
    (folder / "judged").mkdir()
    line = json.dumps({"id": "existence/1", "rating": 1, "judge": "a"})
    for name in ("a", "b"):
        (folder / "judged" / f"{name}.jsonl").write_text(line)
    return run("report", "judged", "--out", "r"), "pass them: judged/a.jsonl judged/b.jsonl"


def judged_answers_to_show(folder):
    (folder / "judged").mkdir()
    line = json.dumps({"step_id": "1", "judge_prompt": "a"})
    (folder / "judged/a.jsonl").write_text(line)
    return run("show", "judged"), "pass it: judged/a.jsonl"


def answers(folder):
    (folder / "answers").mkdir()
    (folder / "answers/a.jsonl").write_text("{}")
    return run("agreement", "egothink", "answers", "--out", "o.csv"), "pass files: answers/a.jsonl"


def plans(folder):
    (folder / "plans").mkdir()
    (folder / "plans/a.jsonl").write_text("{}")
    result = run("score", "actplan", "plans", "--out", "o.json")
    return result, "plans: cannot be read: it is a folder; did you mean plans/a.jsonl?"


def samples_to_submit(folder):
    (folder / "run").mkdir()
    (folder / "run/1_samples_egoplan_val.jsonl").write_text("{}")
    result = run("submit", "egoplan", "run", "--out", "o.json")
    return result, "run: is a folder", "run/1_samples_egoplan_val.jsonl"


def annotations_folder(folder):
    (folder / "files").mkdir()
    for name in "abcd":
        (folder / "files" / f"{name}.json").touch()
    result = run("data", "prepare", "egoplan", "files", "--split", "val")
    return result, "pass one of its files: files/a.json, files/b.json, files/c.json and 1 more"


def _with_archives(layout, files, content=b""):
    def make(folder):
        for video in EPIC_VIDEOS:
            path = layout.format(participant=video.split("_")[0], video=video)
            archive(folder / path, [name.format(video=video) for name in files], content)

    return make


@pytest.mark.parametrize(
    "mistake",
    [
        too_deep,
        too_high,
        too_high_with_spaces,
        no_participants,
        flat_frames,
        folder_twice,
        source_videos,
        lower_case,
        empty_folder,
        other_content,
        archive_as_folder,
        other_suffix,
        ego4d_two_levels_too_high,
        clips_too_deep,
        egointent_too_high,
        egothink_too_deep,
        egothink_too_high,
        egothink_from_the_hub,
        egothink_images_in_archives,
        judged_answers,
        judged_answers_to_show,
        answers,
        plans,
        samples_to_submit,
        annotations_folder,
    ],
    ids=lambda mistake: mistake.__name__,
)
def test_a_wrong_folder_is_one_line_with_the_remedy(folder, mistake):
    result, *facts = mistake(folder)
    assert result.exit_code == 1, result.output
    assert result.output.count("\n") == 1, result.output
    assert all(fact in result.stderr for fact in facts), result.stderr


@pytest.mark.parametrize(
    ("layout", "files"),
    [
        ("epic/{participant}/rgb_frames/{video}.tar", ["./frame_0000000005.jpg"]),
        ("epic/{participant}/rgb_frames/{video}.tar", ["{video}/frame_0000000005.jpg"]),
        ("epic/frames_rgb_flow/rgb/train/{participant}/{video}.tar", ["./frame_0000000005.jpg"]),
        ("epic/{participant}/rgb_frames/{video}.zip", ["frame_0000000005.jpg"]),
    ],
)
def test_the_command_for_archives_extracts_them(folder, layout, files):
    """The tar files of EPIC-KITCHENS have one video each, without its folder."""
    write_epic_folder(folder / "frame", 5, 5)
    content = (folder / "frame/frame_0000000005.jpg").read_bytes()
    _with_archives(layout, files, content)(folder)
    result = egoplan(folder, "--epic-kitchens", "epic")
    assert result.output.count("\n") == 1
    assert "all 4 videos are missing (P01_02, P01_03, P02_01, ...)" in result.stderr
    assert "4 archives, such as epic/" in result.stderr
    start = result.stderr.index("for f in")
    command = result.stderr[start : result.stderr.index("done", start)] + "done"
    if "unzip" in command:
        command = command.replace("unzip -q", "python -m zipfile -e").replace(" -d ", " ")
    subprocess.run(command, shell=True, check=True, cwd=folder)
    assert egoplan(folder, "--epic-kitchens", "epic").exit_code == 0


@pytest.mark.parametrize("root", [".", "frames_rgb_flow", "frames_rgb_flow/rgb"])
def test_the_layout_of_the_older_torrent_is_accepted_with_that_of_the_newer_release(folder, root):
    layouts = {
        "P01_02": "frames_rgb_flow/rgb/train/P01/P01_02",
        "P02_01": "frames_rgb_flow/rgb/test/P02/P02_01",
        "P01_102": f"{root}/P01/rgb_frames/P01_102",
    }
    for path in layouts.values():
        write_epic_folder(folder / path, 5, 5)
    result = egoplan(folder, "--epic-kitchens", root, videos=[*layouts])
    assert result.exit_code == 0, result.output

    write_epic_folder(folder / root / "P01/rgb_frames/P01_02", 5, 5)
    result = egoplan(folder, "--epic-kitchens", root, videos=[*layouts])
    assert result.exit_code == 1
    assert "P01/rgb_frames/P01_02: " in result.stderr
    assert "train/P01/P01_02 also has frames of P01_02" in result.stderr


def test_the_folder_of_participants_in_the_older_torrent_is_accepted(folder):
    root = Path("frames_rgb_flow/rgb/train")
    epic(folder, root, "{participant}/{video}")
    assert egoplan(folder, "--epic-kitchens", root).exit_code == 0
