from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES, SETTINGS, InstanceId, activity_type, parse_id
from shared_data import DATA

DEFINITIONS = DATA / "actplan" / "bddl" / "activity_definitions"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(
    lambda name: name.strip() and name not in (".", "..")
)


@pytest.mark.parametrize("before", ["", "../annotation/", "/data/full release/", "a/b/c/"])
def test_reads_an_id_with_or_without_folders_before_it(before):
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
def test_what_is_no_id(text):
    assert parse_id(text) is None


@given(NAMES, NAMES, st.sampled_from((0, 1)), st.integers(0, 999_999_999))
def test_an_id_is_read_as_it_is_written(scene, activity, description, sample):
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
def test_the_type_is_told_by_the_name(activity, expected):
    assert activity_type(activity) == expected


def test_types_of_the_published_activities():
    if not DEFINITIONS.exists():
        pytest.skip(f"{DEFINITIONS} is absent")
    folders = list(DEFINITIONS.glob("*/"))
    for description, expected in ((0, (27, 2, 8, 5, 2, 56)), (1, (16, 2, 5, 3, 1, 26))):
        names = [folder.name for folder in folders if (folder / f"task_description_{description}.txt").exists()]
        types = Counter(map(activity_type, names))
        assert tuple(types[name] for name in ACTIVITY_TYPES) == expected
