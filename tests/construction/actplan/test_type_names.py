import pytest

from lmms_egoplan.construction.actplan.type_names import names_of_type, singulars


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
