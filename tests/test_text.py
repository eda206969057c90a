import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.text import cell_text, clean_text, csv_text

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\nx",
    " =1",
    "-",
    "--",
    "+",
    "\uff1d1",
    "'=1",
    "-1 1",
]
OTHER = [
    "",
    "a",
    "1",
    "-1",
    "+1.5",
    "-.5",
    "-1e-05",
    "a=1",
    "gpt-4o",
    "'",
    "'a",
    "n/a",
    "\u2212 1",
    "(=1)",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_spreadsheet_formulas_are_escaped(text):
    assert list(csv.reader(io.StringIO(csv_text([[text]]), newline=""))) == [
        ["'" + text.replace("\r", "\n")]
    ]


@pytest.mark.parametrize("text", OTHER)
def test_other_cells_are_unchanged(text):
    assert list(csv.reader(io.StringIO(csv_text([["x", text]]), newline=""))) == [["x", text]]


def test_numbers_are_not_escaped():
    assert csv_text([[-1, -0.5, True, None]]) == "-1,-0.5,True,\n"


@given(st.text() | st.text(alphabet="'=+-@\t\r\n 1.e"))
def test_a_cell_is_read_back(text):
    (row,) = csv.reader(io.StringIO(csv_text([["x", text]]), newline=""))
    assert cell_text(row[1]) == clean_text(text).replace("\r\n", "\n").replace("\r", "\n")
    is_number = re.fullmatch(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", row[1], re.IGNORECASE)
    assert is_number or row[1][:1] not in tuple("=+-@\t\r\n")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a \ud83d", "a ?"),
        ("\ude00\ud83d", "??"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\U0001f600 \ufffd", "\U0001f600 \ufffd"),
    ],
)
def test_halves_of_surrogate_pairs(text, cleaned):
    assert clean_text(text) == cleaned


@given(st.text(alphabet=st.characters(categories=("Cs", "L"))))
def test_cleaned_texts_can_be_written(text):
    assert clean_text(clean_text(text).encode().decode()) == clean_text(text)
