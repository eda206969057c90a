import os
from collections import Counter
from io import BytesIO
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from benchmarks.actplan.release import instance_ids, task_description, write_instance, write_release
from lmms_egoplan.benchmarks.actplan.instances import (
    ACTIVITY_TYPES,
    SETTINGS,
    InstanceId,
    activity_type,
    find_instances,
    parse_id,
    read_instance,
)
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.actplan.prompts import prompt_text, views
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from media.files import number_image, read_number
from shared_data import DATA

DEFINITIONS = DATA / "actplan" / "bddl" / "activity_definitions"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(
    lambda name: name.strip() and name not in (".", "..")
)


@pytest.mark.parametrize("before", ["", "../annotation/", "/data/full release/", "a/b/c/"])
def test_an_id_is_parsed_with_or_without_parent_folders(before):
    instance = parse_id(f"{before}Beechwood_0_int/making_tea/1/sample_12")
    assert instance == InstanceId("Beechwood_0_int", "making_tea", 1, 12)
    assert str(instance) == "Beechwood_0_int/making_tea/1/sample_12"
    assert instance.setting == "counterfactual"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "making_tea/0/sample_0",
        "/making_tea/0/sample_0",
        " /making_tea/0/sample_0",
        "../making_tea/0/sample_0",
        "Rs_int/./0/sample_0",
        "Rs_int//0/sample_0",
        "Rs_int/making_tea/2/sample_0",
        "Rs_int/making_tea/00/sample_0",
        "Rs_int/making_tea/0/sample_",
        "Rs_int/making_tea/0/sample_01",
        "Rs_int/making_tea/0/sample_-1",
        "Rs_int/making_tea/0/sample_٣",
        "Rs_int/making_tea/0/sample_" + "9" * 5000,
        "Rs_int/making_tea/0/sample_0/",
        "Rs_int/making_tea/0/sample_0\n",
        "Rs_int/mak\ud800ing_tea/0/sample_0",
    ],
)
def test_other_texts_are_not_ids(text):
    assert parse_id(text) is None


@given(NAMES, NAMES, st.sampled_from((0, 1)), st.integers(0, 999_999_999))
def test_a_formatted_id_parses_to_the_same_id(scene, activity, description, sample):
    instance = InstanceId(scene, activity, description, sample)
    assert parse_id(str(instance)) == parse_id(f"../x/{instance}") == instance
    assert instance.setting == SETTINGS[description]


@given(st.one_of(st.text(), st.from_regex(r"\A[a./]*/[a./]+/[0-2]/sample_[0-9]*\Z")))
def test_any_text_is_an_id_or_none(text):
    instance = parse_id(text)
    assert instance is None or text.endswith(str(instance))


@pytest.mark.parametrize(
    ("activity", "expected"),
    [
        ("cleaning_up_after_a_meal", "cleaning"),
        ("filling_a_Christmas_stocking", "filling"),
        ("packing_child_s_bag", "packing"),
        ("putting_away_toys", "putting away"),
        ("putting_leftovers_away", "putting away"),
        ("putting_dishes_away_after_cleaning", "putting away"),
        ("storing_the_groceries", "storing"),
        ("putting_up_Christmas_decorations_inside", "other"),
        ("putting_things_faraway", "other"),
        ("throwing_away_leftovers", "other"),
        ("unpacking_suitcase", "other"),
        ("boxing_books_up_for_storage", "other"),
        ("clearing_the_table_after_dinner", "other"),
        ("", "other"),
    ],
)
def test_the_name_determines_the_activity_type(activity, expected):
    assert activity_type(activity) == expected


def test_types_of_the_published_activities():
    if not DEFINITIONS.exists():
        pytest.skip(f"{DEFINITIONS} is absent")
    folders = list(DEFINITIONS.glob("*/"))
    for description, expected in ((0, (27, 2, 8, 5, 2, 56)), (1, (16, 2, 5, 3, 1, 26))):
        names = [
            folder.name
            for folder in folders
            if (folder / f"task_description_{description}.txt").exists()
        ]
        types = Counter(map(activity_type, names))
        assert tuple(types[name] for name in ACTIVITY_TYPES) == expected


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return write_release(tmp_path_factory.mktemp("release"), 8)


@pytest.fixture(scope="module")
def docs(release, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path_factory.mktemp("data")))
        prepare_actplan(release)
        return ACTPLAN.load("test")


def test_the_prompt_is_the_exact_task_description(docs, release):
    instances, _ = find_instances(release)
    records = {str(instance): read_instance(release, instance) for instance in instances}
    assert len(docs) == 8
    for doc in docs:
        assert prompt_text(doc) == records[doc["id"]].task_description
        assert prompt_text({"task_description": doc["task_description"]}) == prompt_text(doc)


def test_all_views_are_shown_in_the_order_of_the_release(docs):
    for doc in docs:
        images = views(doc)
        numbers = [read_number(image) for image in images]
        assert {image.mode for image in images} == {"RGB"}
        assert numbers == list(range(numbers[0], numbers[0] + len(doc["images"])))


TEA = InstanceId("Rs_int", "making_tea", 0, 0)
STEPS = ["walk_to(cabinet)", "open(cabinet)", "grab(teapot)"]


@pytest.fixture
def source(tmp_path):
    write_instance(
        tmp_path / "annotation", TEA, [number_image(n) for n in range(3)], STEPS, STEPS[:2]
    )
    return tmp_path / "annotation"


def problems_of(source):
    return read_instance(source, TEA).problems


def test_all_instances_are_found_in_order(tmp_path):
    write_release(tmp_path / "release", 60)
    ids, wrong_folders = find_instances(tmp_path / "release")
    assert ids == sorted(instance_ids(60))
    assert wrong_folders == {}
    for sample in (10, 2):
        write_instance(
            tmp_path / "release", InstanceId("Rs_int", "making_tea", 1, sample), [], [], []
        )
    ids, _ = find_instances(tmp_path / "release")
    tea = [
        instance.sample
        for instance in ids
        if (instance.scene, instance.activity) == ("Rs_int", "making_tea")
    ]
    assert tea[-2:] == [2, 10]


def test_files_outside_the_layout_are_ignored(source):
    folder = source / str(TEA)
    for name in (
        "README.md",
        "Rs_int/notes.txt",
        "Rs_int/making_tea/.DS_Store",
        "Rs_int/making_tea/0/problem7.bddl",
    ):
        (source / name).write_text("x")
    for name in ("plan_gemini.txt", "plan_gold_3.txt", ".DS_Store", "._00014.png", "notes.md"):
        (folder / name).write_bytes(b"\xff")
    for name in (
        ".git/a/0/sample_0",
        "__MACOSX/Rs_int/making_tea/0/sample_0",
        "Rs_int/making_tea/.cache",
    ):
        (source / name).mkdir(parents=True)
    (folder / "more").mkdir()
    assert find_instances(source) == ([TEA], {})
    record = read_instance(source, TEA)
    assert record.problems == ()
    assert len(record.images) == 3


def test_folders_that_do_not_fit_the_layout_are_named(source):
    for name in (
        "making_tea/2/sample_0",
        "making_tea/zero/sample_0",
        "making_tea/0/sample_",
        "making_tea/0/sample_01",
    ):
        (source / "Rs_int" / name).mkdir(parents=True)
    (source / "Rs_int/making_tea/1").mkdir()
    (source / "Rs_int/storing_food").mkdir()
    (source / "Merom_0_int").mkdir()
    os.mkdir(os.fsencode(source) + b"/R\xe9sidence")  # noqa: PTH102
    ids, reasons = find_instances(source)
    assert ids == [TEA]
    expected = {
        "Merom_0_int": "the name of an activity",
        "R\\udce9sidence": "expected the name of a scene",
        "Rs_int/making_tea/0/sample_": "expected sample_<k>, k from 0",
        "Rs_int/making_tea/0/sample_01": "expected sample_<k>, k from 0",
        "Rs_int/making_tea/1": "sample_<k>, k from 0",
        "Rs_int/making_tea/2": "expected 0 (normal) or 1 (counterfactual)",
        "Rs_int/making_tea/zero": "expected 0 (normal) or 1 (counterfactual)",
        "Rs_int/storing_food": "0 (normal) or 1 (counterfactual)",
    }
    assert sorted(reasons) == sorted(expected)
    assert all(reasons[path].endswith(layout) for path, layout in expected.items())


def test_a_source_without_instances_shows_the_layout(tmp_path, source):
    (tmp_path / "empty").mkdir()
    for folder, reason in (
        (tmp_path / "absent", "no such folder"),
        (tmp_path / "empty", "no instance"),
        (source / "Rs_int", "no instance"),
    ):
        with pytest.raises(LmmsEgoplanError) as caught:
            find_instances(folder)
        message = str(caught.value)
        assert message.startswith(
            f"{folder}: {reason}; expected DIR/<scene>/<activity>/<n>/sample_<k>/ with images"
        )
        assert "https://github.com/HKUST-KnowComp/ActPlan-1K" in message
    with pytest.raises(LmmsEgoplanError, match=f"{tmp_path}: .*: {source}$"):
        find_instances(tmp_path)


def test_an_instance_is_read_as_released(source):
    record = read_instance(source, TEA)
    images = sorted((source / str(TEA)).glob("*.png"))
    assert record.id == TEA
    assert record.task_description == task_description(TEA)
    assert record.images == tuple(path.read_bytes() for path in images)
    assert (list(record.gold_plan_1), list(record.gold_plan_2)) == (STEPS, STEPS[:2])
    assert record.problems == ()


def test_images_of_all_kinds_come_in_the_order_of_their_names(source):
    folder = source / str(TEA)
    for path in folder.glob("*.png"):
        path.unlink()
    names = ("00002.JPG", "00010.png", "00009.jpeg", "00001.jpg")
    for number, name in enumerate(names):
        number_image(number).save(folder / name, "PNG" if name.endswith("png") else "JPEG")
    assert read_instance(source, TEA).images == tuple(
        (folder / name).read_bytes() for name in sorted(names)
    )


def test_plans_are_read_line_by_line(tmp_path):
    folder = write_instance(tmp_path, TEA, [number_image(1)], STEPS, None)
    plans = (
        ["wait()"],
        ["walk_to(table)", "grab( cup, )"],
        ["a()", "wipe(table_1, , cup)", "b(0)", "wipe(a)"],
    )
    ends = ("\n", "\r\n", "\r", "\n\n", " \t\n", "\n  ")
    wrong = []
    for steps, end, last, encoding in product(plans, ends, (True, False), ("utf-8", "utf-8-sig")):
        data = (end.join(steps) + (end if last else "")).encode(encoding)
        (folder / "plan_gold_1.txt").write_bytes(data)
        record = read_instance(tmp_path, TEA)
        if (list(record.gold_plan_1), record.gold_plan_2, record.problems) != (steps, (), ()):
            wrong.append((data, record))
    assert wrong == []


def test_a_byte_order_mark_and_windows_line_breaks_are_not_text(source):
    path = source / str(TEA) / "../task_description_0.txt"
    path.write_bytes("The task: café.\r\n\r\nGenerate.  \r\n".encode("utf-8-sig"))
    assert read_instance(source, TEA).task_description == "The task: café.\n\nGenerate.  \n"


def test_one_gold_plan_is_enough(source):
    (source / str(TEA) / "plan_gold_1.txt").unlink()
    record = read_instance(source, TEA)
    assert (record.gold_plan_1, list(record.gold_plan_2), record.problems) == ((), STEPS[:2], ())
    (source / str(TEA) / "plan_gold_2.txt").unlink()
    (problem,) = problems_of(source)
    assert problem.startswith(f"{source / str(TEA)}: ")
    assert all(name in problem for name in ("plan_gold_1.txt", "plan_gold_2.txt"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "only blanks"),
        (b"\xef\xbb\xbf \r\n\t\n", "only blanks"),
        (b"walk_to(caf\xe9)\n", "0xe9 in position 11: invalid continuation byte"),
        ("walk_to(table)\n".encode("utf-16"), "0xff in position 0: invalid start byte"),
    ],
)
@pytest.mark.parametrize(
    "name", ["plan_gold_1.txt", "plan_gold_2.txt", "../task_description_0.txt"]
)
def test_an_unreadable_text_is_a_problem(source, name, content, reason):
    path = (source / str(TEA) / name).resolve()
    path.write_bytes(content)
    (problem,) = problems_of(source)
    assert problem.startswith(f"{path}: ")
    assert reason in problem


def test_all_problems_of_an_instance_are_listed(source):
    folder = source / str(TEA)
    (folder.parent / "task_description_0.txt").unlink()
    for name in ("plan_gold_1.txt", "00014.png"):
        (folder / name).unlink()
        (folder / name).mkdir()
    buffer = BytesIO()
    Image.effect_noise((200, 200), 90).save(buffer, "JPEG")
    (folder / "00055.png").write_bytes(buffer.getvalue()[:999])
    (folder / "00096.png").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    reasons = (
        f"{folder.parent}/task_description_0.txt: no such file",
        f"{folder}/plan_gold_1.txt: no such file",
        f"{folder}/00014.png: no such file",
        f"{folder}/00055.png: cannot decode the image: OSError: ",
        f"{folder}/00096.png: not an image: the file is empty or of an unknown type",
    )
    for problem, reason in zip(problems_of(source), reasons, strict=True):
        assert problem.startswith(reason)
    for path in folder.glob("*.png"):
        path.rmdir() if path.is_dir() else path.unlink()
    assert problems_of(source)[-1] == f"{folder}: no image (png, jpg or jpeg)"


def test_links_must_not_leave_the_source(source, tmp_path):
    folder = source / str(TEA)
    for name in ("plan_gold_2.txt", "00014.png"):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
    (folder / "00055.png").unlink()
    (folder / "00055.png").symlink_to("00096.png")
    first, second = problems_of(source)
    assert f"'{TEA}/plan_gold_2.txt' leads out of {source}, to {tmp_path}/plan_gold_2.txt" in first
    assert f"'{TEA}/00014.png' leads out of {source}" in second


def test_a_name_that_is_not_utf8_is_escaped(source):
    with open(os.fsencode(source / str(TEA)) + b"/caf\xe9.png", "wb"):  # noqa: PTH123
        pass
    assert problems_of(source) == (
        (
            f"{source / str(TEA)}/caf\\udce9.png: not an image: the file is empty or of an "
            "unknown type"
        ),
    )
