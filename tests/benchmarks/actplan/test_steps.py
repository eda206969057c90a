import pytest

from lmms_egoplan.benchmarks.actplan.steps import Name, names_of_type, read_step, singulars


@pytest.mark.parametrize(
    ("text", "effect", "names"),
    [
        ("place_on_top(floor, next_to(toilet))", "ontop", ("floor", "next_to_toilet")),
        ("**Switch-On**(lamp)", "switch_on", ("lamp",)),
        ("walk\\_to(the table)", "walk", ("the table",)),
        ("grab(cup and plate", "take", ("cup", "plate")),
        ("grab()", "take", ()),
    ],
)
def test_steps(text, effect, names):
    step = read_step(text)
    assert (step.effect, step.names) == (effect, names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gym_shoe_1", Name(("gym", "shoe"), 1)),
        ("dusty shoe2", Name(("dusty", "shoe"), 2)),
        ("floor_next_to_sink", Name(("floor",), None, ("sink",), "nextto")),
        ("next_to_toilet", Name((), None, ("toilet",), "nextto")),
        ("can1_from_bed", Name(("can",), 1, ("bed",), "")),
        ("99999999999", Name((), 9999)),
        ("", Name(())),
    ],
)
def test_names(text, expected):
    assert Name.parse(text) == expected


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("cups", "cup"),
        ("boxes", "box"),
        ("candies", "candy"),
        ("shelves", "shelf"),
        ("knives", "knife"),
    ],
)
def test_plurals(plural, singular):
    assert singular in singulars(plural)
    assert singulars(singular) == set()


def test_names_of_types():
    assert names_of_type("piece_of_cloth.n.01") == [("piece", "of", "cloth"), ("cloth",)]
