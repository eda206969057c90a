import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from datetime import datetime
from statistics import fmean

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.release import (
    SCENES,
    instance_ids,
    task_description,
    write_instance,
    write_release,
)
from lmms_egoplan.benchmarks.actplan.instances import (
    ACTIVITY_TYPES,
    InstanceId,
    activity_type,
    parse_id,
)
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.actplan.figure_4 import described_activities, write_prepared_figure_4
from lmms_egoplan.storage import load_summary, prepared_splits, split_dir
from media.files import number_image, read_numbers
from shared_data import DATA

pytestmark = pytest.mark.usefixtures("data")

PUBLISHED = DATA / "actplan" / "annotation"
COLUMNS = [
    "id", "scene", "activity", "setting", "activity_type", "task_description", "images",
    "gold_plan_1", "gold_plan_2", "split_size", "setting_size", "question_set",
]  # fmt: skip


@pytest.fixture
def source(tmp_path):
    return write_release(tmp_path / "source", 60)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Prepare 60 instances; return the folder of the release, the data root and the summary."""
    folder = tmp_path_factory.mktemp("prepared")
    source = write_release(folder / "source", 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        return source, folder / "data", prepare_actplan(source)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def stored_bytes():
    from datasets import Image

    rows = ACTPLAN.load("test").cast_column("images", [Image(decode=False)])["images"]
    return [[cell["bytes"] for cell in row] for row in rows]


def test_every_instance_is_written(prepared, monkeypatch):
    from datasets import load_from_disk

    source, data, summary = prepared
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
    assert prepared_splits() == [("actplan", "test")]
    assert [path.name for path in (data / "actplan").iterdir()] == ["test"]
    assert summary == load_summary("actplan", "test")
    dataset = load_from_disk(split_dir("actplan", "test"))["test"]
    assert dataset.column_names == COLUMNS
    numbers = {str(instance): number for number, instance in enumerate(instance_ids(60))}
    assert dataset["id"][:] == [str(instance) for instance in sorted(instance_ids(60))]
    for row in dataset:
        instance, number = parse_id(row["id"]), numbers[row["id"]]
        folder = source / row["id"]
        assert read_numbers(row["images"]) == [
            5 * number + image for image in range(2 + number % 4)
        ]
        assert {name: row[name] for name in COLUMNS if name not in ("id", "images")} == {
            "scene": instance.scene,
            "activity": instance.activity,
            "setting": ("normal", "counterfactual")[instance.description],
            "activity_type": activity_type(instance.activity),
            "task_description": task_description(instance),
            "gold_plan_1": lines(folder / "plan_gold_1.txt"),
            "gold_plan_2": lines(folder / "plan_gold_2.txt"),
            "split_size": 60,
            "setting_size": (38, 22)[instance.description],
            "question_set": "own",
        }
        assert len(row["gold_plan_1"]) == 3 + 7 * number % 58
        assert bool(row["gold_plan_2"]) == (number % 10 != 9)
    assert {activity_type(name) for name in dataset["activity"][:]} == set(ACTIVITY_TYPES)
    assert len(set(dataset["scene"][:])) == len(SCENES)
    changed = {parse_id(name).activity for name in dataset["id"][:] if "/1/sample_" in name}
    counts = [str(sum(activity_type(name) == kind for name in changed)) for kind in ACTIVITY_TYPES]
    write_prepared_figure_4(None)
    assert lines(split_dir("actplan", "test") / "figure_4.csv") == [
        ",".join(["category", *ACTIVITY_TYPES]),
        ",".join(['"prepared, category not published"', *counts]),
    ]


def test_the_summary_compares_with_table_2(prepared):
    source, _, summary = prepared
    summary = dict(summary)
    assert datetime.fromisoformat(summary.pop("prepared")).tzinfo
    assert len(summary.pop("fingerprint")) == len(summary.pop("records_digest")) == 64
    assert summary.pop("datasets")
    ids = list(instance_ids(60))
    counts = summary.pop("counts")
    assert summary == {
        "benchmark": "actplan",
        "format": 4,
        "split": "test",
        "source": str(source.resolve()),
        "split_size": 60,
        "question_set": "own",
        "questions": 60,
        "without_gold_plan_1": 0,
        "without_gold_plan_2": 6,
        "missing": [],
        "images_outside": [],
    }
    samples = Counter(
        ((instance.activity, instance.description), instance.scene) for instance in ids
    )
    scenes = Counter(activity for activity, _ in samples)
    for name, number, paper, matches in (
        ("scenes", 15, 15, True),
        ("most_scenes", max(scenes.values()), 3, False),
        ("most_samples", max(samples.values()), 3, True),
        ("fewest_images", 2, 2, True),
        ("most_images", 5, 5, True),
    ):
        assert counts[name] == {
            "prepared": number,
            "source": number,
            "paper": paper,
            "matches": matches,
        }
    for description, setting, paper in (
        (0, "normal", (100, 825, 23.95)),
        (1, "counterfactual", (53, 362, 31.93)),
    ):
        members = [
            (number, instance)
            for number, instance in enumerate(ids)
            if instance.description == description
        ]
        expected_numbers = (
            len({instance.activity for _, instance in members}),
            len(members),
            round(fmean(3 + 7 * number % 58 for number, _ in members), 2),
        )
        for name, number, published in zip(
            ("activities", "instances", "steps"), expected_numbers, paper, strict=True
        ):
            expected = {"prepared": number, "source": number, "paper": published, "matches": False}
            assert counts[f"{setting}_{name}"] == expected
    for name in ACTIVITY_TYPES:
        number = sum(activity_type(instance.activity) == name for instance in ids)
        assert counts[name] == {
            "prepared": number,
            "source": number,
            "paper": None,
            "matches": None,
        }


@pytest.mark.nightly
def test_the_papers_counts_match(tmp_path):
    images = [number_image(1), number_image(2)]
    template = write_instance(
        tmp_path / "one", InstanceId("a", "b", 0, 0), images, ["wait()"], None
    )
    for description, activities, instances, mean in ((0, 100, 825, 23.95), (1, 53, 362, 31.93)):
        total = round(mean * instances)
        for number in range(instances):
            rounds, activity = divmod(number, activities)
            scene, sample = divmod(rounds, 3)
            instance = InstanceId(
                SCENES[(5 * scene + activity) % 15], f"activity_{activity}", description, sample
            )
            folder = tmp_path / "source" / str(instance)
            folder.mkdir(parents=True)
            for path in template.glob("*.png"):
                os.link(path, folder / path.name)
            (folder.parent / f"task_description_{description}.txt").write_text("Wait.")
            steps = total // instances + (number < total % instances)
            (folder / "plan_gold_1.txt").write_text("wait()\n" * steps)
    summary = prepare_actplan(tmp_path / "source")
    matches = {
        name: count["matches"]
        for name, count in summary["counts"].items()
        if count["paper"] is not None
    }
    assert set(matches.values()) == {True}
    assert len(matches) == 11
    assert (
        {*ACTPLAN.load("test")["question_set"]}
        == {summary["question_set"]}
        == {"official by counts"}
    )
    assert (summary["questions"], summary["without_gold_plan_2"], summary["images_outside"]) == (
        1187,
        1187,
        [],
    )


@pytest.mark.parametrize(
    ("numbers", "fewest", "most"),
    [([3], True, True), ([1, 5], False, True), ([2, 6], True, False)],
)
def test_instances_with_other_numbers_of_images_are_named(tmp_path, numbers, fewest, most):
    for sample, number in enumerate(numbers):
        images = [number_image(image) for image in range(number)]
        write_instance(
            tmp_path, InstanceId("Rs_int", "making_tea", 0, sample), images, ["wait()"], None
        )
    summary = prepare_actplan(tmp_path)
    prefix = "Rs_int/making_tea/0/sample_"
    assert summary["images_outside"] == [
        {"folder": f"{prefix}{sample}", "images": number}
        for sample, number in enumerate(numbers)
        if not 2 <= number <= 5
    ]
    counts = summary["counts"]
    for name, number, paper, matches in (
        ("fewest_images", min(numbers), 2, fewest),
        ("most_images", max(numbers), 5, most),
    ):
        assert counts[name] == {
            "prepared": number,
            "source": number,
            "paper": paper,
            "matches": matches,
        }
    assert summary["questions"] == len(numbers)


def test_the_command_names_instances_with_too_few_or_too_many_images(tmp_path, monkeypatch):
    source = write_release(tmp_path / "release", 20)
    for number, name in enumerate(map(str, instance_ids(7))):
        first, *other_images = sorted(
            [*(source / name).glob("*.png"), *(source / name).glob("*.jpg")]
        )
        for path in other_images:
            path.unlink()
        for copy in range(6 if number == 1 else 0):
            shutil.copy(first, first.with_stem(f"copy{copy}"))
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, ["data", "prepare", "actplan", str(source)])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "7 of 20 instances" in text
    assert f"{sorted(map(str, instance_ids(7)))[0]} (1)" in text
    assert " and 2 more, all listed under images_outside in " in text
    listed = load_summary("actplan", "test")["images_outside"]
    assert {entry["folder"]: entry["images"] for entry in listed} == {
        str(instance): 7 if number == 1 else 1 for number, instance in enumerate(instance_ids(7))
    }


def spoil(source):
    """Damage the first four instances, add a folder with another name, and return the instances'
    ids.
    """
    ids = list(map(str, instance_ids(4)))
    (source / ids[0] / "00014.png").write_bytes(b"no image")
    (source / ids[0] / "plan_gold_2.txt").write_text("\n")
    for path in (source / ids[1]).glob("*.jpg"):
        path.unlink()
    for path in (source / ids[2]).glob("plan_gold_*"):
        path.unlink()
    (source / ids[3] / "../task_description_0.txt").write_bytes(b"\xff")
    (source / "Rs_int/making_tea/2/sample_0").mkdir(parents=True)
    return ids


def test_all_problems_are_listed_and_nothing_is_written(source, data):
    ids = spoil(source)
    with pytest.raises(LmmsEgoplanError) as caught:
        prepare_actplan(source)
    message = str(caught.value)
    for part in (
        "ActPlan-1K's data have 6 problem(s):",
        f"{source}/Rs_int/making_tea/2: expected 0 (normal) or 1 (counterfactual)",
        f"{source}/{ids[0]}/plan_gold_2.txt: contains only blanks",
        f"{source}/{ids[0]}/00014.png: not an image: the file is empty or of an unknown type",
        f"{source}/{ids[1]}: no image (png, jpg or jpeg)",
        f"{source}/{ids[2]}: no gold plan",
        *(
            f"{(source / ids[3]).parent}/task_description_0.txt: cannot be read: ",
            "0xff in position 0",
        ),
        "--skip-missing",
    ):
        assert part in message
    assert prepared_splits() == []
    assert list((data / "actplan").iterdir()) == []


def test_skip_missing_skips_invalid_instances(source):
    ids = spoil(source)
    summary = prepare_actplan(source, skip_missing=True)
    assert (summary["questions"], summary["split_size"], summary["without_gold_plan_2"]) == (
        56,
        60,
        6,
    )
    invalid_folder, *invalid_instances = summary["missing"]
    assert invalid_folder == {
        "folder": "Rs_int/making_tea/2",
        "reason": "expected 0 (normal) or 1 (counterfactual)",
    }
    reasons = {entry["folder"]: entry["reason"] for entry in invalid_instances}
    assert sorted(reasons) == sorted(ids)
    assert all(problem in reasons[ids[0]] for problem in ("00014.png: ", "; ", "only blanks"))
    dataset = ACTPLAN.load("test")
    assert not set(ids).intersection(dataset["id"][:])
    assert dataset["split_size"][:] == [60] * 56
    sizes = dict(zip(dataset["setting"][:], dataset["setting_size"][:], strict=True))
    assert sizes == {name: summary["counts"][f"{name}_instances"]["source"] for name in sizes}
    # A damaged image still counts as an image file.
    assert summary["images_outside"] == [{"folder": ids[1], "images": 0}]
    assert summary["counts"]["fewest_images"] == {
        "prepared": 2,
        "source": 0,
        "paper": 2,
        "matches": False,
    }
    assert (
        summary["counts"]["normal_instances"]["prepared"]
        == summary["counts"]["normal_instances"]["source"] - 4
    )
    # Readable plans count for the source, even if their instances are invalid for another reason.
    lengths = [
        3 + 7 * n % 58 for n, instance in enumerate(instance_ids(60)) if not instance.description
    ]
    assert summary["counts"]["normal_steps"]["source"] == round(fmean(lengths[:2] + lengths[3:]), 2)
    assert summary["counts"]["normal_steps"]["prepared"] == round(fmean(lengths[4:]), 2)


def test_an_error_lists_twenty_problems(tmp_path):
    source = write_release(tmp_path / "source", 24)
    for path in source.rglob("plan_gold_1.txt"):
        path.write_text("")
    with pytest.raises(LmmsEgoplanError, match=r"have 24 problem\(s\)") as caught:
        prepare_actplan(source)
    assert str(caught.value).count("only blanks") == 20
    assert "... and 4 more" in str(caught.value)
    with pytest.raises(LmmsEgoplanError, match="no instance is left to prepare"):
        prepare_actplan(source, skip_missing=True)
    assert prepared_splits() == []


def test_a_source_without_gold_plan_1_has_no_mean_length(tmp_path):
    write_instance(
        tmp_path / "source",
        InstanceId("Rs_int", "making_tea", 0, 0),
        [number_image(1)],
        None,
        ["wait()"],
    )
    summary = prepare_actplan(tmp_path / "source")
    assert summary["without_gold_plan_1"] == 1
    unknown = {"prepared": None, "source": None, "paper": 23.95, "matches": False}
    assert load_summary("actplan", "test")["counts"]["normal_steps"] == unknown
    assert ACTPLAN.load("test")[0]["gold_plan_1"] == []


def test_the_fingerprint_changes_with_the_data(tmp_path):
    source = write_release(tmp_path / "source", 4)
    folder = source / str(next(instance_ids(1)))
    first, second, *_ = sorted(folder.glob("*.png"))

    def swap_images():
        texts = first.read_bytes(), second.read_bytes()
        second.write_bytes(texts[0])
        first.write_bytes(texts[1])

    changes = (
        swap_images,
        lambda: number_image(9999).save(first),
        lambda: (folder / "plan_gold_1.txt").write_text("wait()\n"),
        lambda: (folder / "plan_gold_2.txt").rename(folder / "plan_other.txt"),
        lambda: (folder / "../task_description_0.txt").write_text("Wait."),
        lambda: folder.rename(folder.with_name("sample_7")),
    )
    fingerprints = [prepare_actplan(source)["fingerprint"]]
    copy = shutil.copytree(source, tmp_path / "copy")
    assert prepare_actplan(copy)["fingerprint"] == fingerprints[0]
    for change in changes:
        change()
        fingerprints.append(prepare_actplan(source)["fingerprint"])
    assert len(set(fingerprints)) == 7


def test_a_failure_keeps_the_older_data(tmp_path):
    source = write_release(tmp_path / "source", 4)
    before = prepare_actplan(source)
    next(source.rglob("*.png")).write_bytes(b"")
    with pytest.raises(LmmsEgoplanError):
        prepare_actplan(source)
    assert load_summary("actplan", "test") == before
    assert len(ACTPLAN.load("test")) == 4


# A program that is killed while it reads the last of 40 instances. By then, it has written some of
# their rows.
KILLED = """
import os, signal
from lmms_egoplan.benchmarks.actplan import instances
from lmms_egoplan.cli import app

read, calls = instances.read_instance, []

def read_some(*arguments):
    calls.append(arguments)
    if len(calls) == 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(*arguments)

instances.read_instance = read_some
app()
"""


def contents(folder):
    """Return the bytes of a prepared split by file, except the random state of datasets, and the
    summary's fields.
    """
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(files.pop("state.json")) > 0
    summary = json.loads(files.pop("summary.json"))
    return files, {name: value for name, value in summary.items() if name != "prepared"}


@pytest.mark.whole
def test_after_a_kill_the_older_data_remain_and_the_same_command_prepares_the_same_bytes(
    tmp_path, data, monkeypatch
):
    prepare_actplan(write_release(tmp_path / "older", 2))
    split = split_dir("actplan", "test")
    before = contents(split)
    source = write_release(tmp_path / "source", 40)
    arguments = ["data", "prepare", "actplan", str(source)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert contents(split) == before
    assert len(ACTPLAN.load("test")) == 2
    repeated = subprocess.run(
        [sys.executable, "-m", "lmms_egoplan", *arguments], capture_output=True, text=True
    )
    assert repeated.returncode == 0, repeated.stderr
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "other"))
    prepare_actplan(source)
    write_prepared_figure_4(None)
    assert contents(split) == contents(split_dir("actplan", "test"))


def test_published_instances():
    if not PUBLISHED.exists():
        pytest.skip(f"{PUBLISHED} is absent")
    bddl = DATA / "actplan" / "bddl" / "activity_definitions"
    summary = prepare_actplan(PUBLISHED)
    if bddl.exists():
        # Fig. 4: the 53 counterfactual activities of Table 2.
        write_prepared_figure_4(described_activities(bddl))
        _, prepared, published = lines(split_dir("actplan", "test") / "figure_4.csv")
        assert prepared.endswith('",0,0,0,0,0,1')
        assert published.endswith('",16,2,5,3,1,26')
        names = [path.parent.name for path in bddl.glob("*/task_description_1.txt")]
        assert (len(names), sum(name.startswith("cleaning_") for name in names)) == (53, 16)
    assert summary["counts"]["normal_steps"]["prepared"] == 64.0
    assert summary["counts"]["counterfactual_steps"]["prepared"] == 56.0
    assert (summary["counts"]["fewest_images"]["source"], summary["images_outside"]) == (3, [])
    dataset = ACTPLAN.load("test")
    prefix = "Beechwood_0_int/assembling_gift_baskets"
    assert dataset["id"][:] == [f"{prefix}/0/sample_0", f"{prefix}/1/sample_0"]
    assert dataset["activity_type"][:] == ["other", "other"]
    for number, row in enumerate(dataset):
        folder = PUBLISHED / row["id"]
        assert row["task_description"] == (folder / f"../task_description_{number}.txt").read_text()
        assert row["gold_plan_1"] == lines(folder / "plan_gold_1.txt")
        assert row["gold_plan_2"] == lines(folder / "plan_gold_2.txt")
        assert stored_bytes()[number] == [
            path.read_bytes() for path in sorted(folder.glob("*.png"))
        ]
        assert [image.size for image in row["images"]] == [(512, 640)] * 3


def test_figure_4_shows_the_activities_of_a_folder(source, tmp_path, data):
    folder = tmp_path / "bddl"
    for activity in ("making_tea", "cleaning_shoes"):
        (folder / activity).mkdir(parents=True)
    (folder / "making_tea/task_description_0.txt").write_text("normal")
    command = ["data", "prepare", "actplan", str(source), "--bddl", str(folder)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "describes no counterfactual activity" in " ".join(result.output.split())
    assert not data.exists()
    (folder / "cleaning_shoes/task_description_1.txt").write_text("counterfactual")
    assert CliRunner().invoke(app, command).exit_code == 0
    last = lines(split_dir("actplan", "test") / "figure_4.csv")[-1]
    assert last == '"in --bddl, category not published",1,0,0,0,0,0'
