"""Stored ratings, by judges and by people: what is read, and what is refused by file, line and field."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.egothink.judged_files import CONTENTS, judged, judged_file, write_lines
from lmms_egoplan.benchmarks.egothink.answer_files import between_levels, read_human, read_raters
from lmms_egoplan.errors import LmmsEgoplanError


def test_raters_get_different_names(tmp_path):
    answers = [judged("existence/1"), judged("existence/2", rating=None)]
    first, second = (judged_file(tmp_path / f"{name}.jsonl", answers) for name in ("one", "two"))
    mixed = judged_file(tmp_path / "m.jsonl", [judged("existence/1"), judged("existence/2", rating=0.0, judge="b")])
    human = tmp_path / "human.csv"
    human.write_text("id,Ann,judge-a\nexistence/1,0.5,\nexistence/2,1,0\n")
    assert read_raters([first, second, mixed], human) == {
        "judge-a (one)": {"existence/1": 1.0, "existence/2": None},
        "judge-a (two)": {"existence/1": 1.0, "existence/2": None},
        "judge-a, b": {"existence/1": 1.0, "existence/2": 0.0},
        "Ann": {"existence/1": 0.5, "existence/2": 1.0},
        "judge-a (human)": {"existence/1": None, "existence/2": 0.0},
    }
    same = [judged_file(tmp_path / folder / "one.jsonl", answers) for folder in ("x", "y")]
    assert list(read_raters(same, None)) == [f"judge-a ({path})" for path in same]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"rating": 7, "judge": "a"}, "rating: .*found 7"),
        ({"rating": -0.1, "judge": "a"}, "rating: "),
        ({"rating": float("nan"), "judge": "a"}, "rating: "),
        ({"rating": True, "judge": "a"}, "rating: "),
        ({"rating": "1", "judge": "a"}, "rating: "),
        ({"rating": 1}, "judge: .*found nothing"),
        ({}, "lmms-egoplan judge egothink"),
    ],
)
def test_wrong_ratings(tmp_path, record, message):
    path = write_lines(tmp_path / "a.jsonl", [{"id": "existence/1", "answer": "Yes."} | record])
    with pytest.raises(LmmsEgoplanError, match=message) as error:
        read_raters([path], None)
    assert str(path) in str(error.value)


def test_means_of_several_raters_are_ratings(tmp_path):
    judge = write_lines(
        tmp_path / "a.jsonl", [{"id": "existence/1", "answer": "Yes.", "rating": 0.833, "judge": "three judges"}]
    )
    human = tmp_path / "human.csv"
    human.write_text("id,Panel\nexistence/1,0.833\nexistence/2,1\n")
    raters = read_raters([judge], human)
    assert raters["three judges"] == {"existence/1": 0.833}
    assert raters["Panel"] == {"existence/1": 0.833, "existence/2": 1.0}
    assert between_levels(raters["Panel"]) == {"existence/1": 0.833}


def test_ratings_of_different_answers_are_not_compared(tmp_path):
    first = judged_file(tmp_path / "a.jsonl", [judged("existence/1", "Yes.")])
    second = judged_file(tmp_path / "b.jsonl", [judged("existence/1", "No.")])
    with pytest.raises(LmmsEgoplanError, match=r"b.jsonl, line 1: .*'existence/1'.*a.jsonl"):
        read_raters([first, second], None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1"),
        ("id\nexistence/1\n", "line 1"),
        ("question,Ann\n", "line 1"),
        ("id,Ann,Ann\n", "line 1"),
        ("id,id,Ann\n", "line 1"),
        ("id,Ann,\n", "line 1"),
        ("id,Ann\nexistence/1,1\nexistence/2,83.3\n", "line 3, column Ann: .*83.3"),
        ("id,Ann\nexistence/1,-0.5\n", "line 2, column Ann: "),
        ('id,Ann\nexistence/1,"0,5"\n', "line 2, column Ann: "),
        ("id,Ann\nexistence/1,yes\n", "line 2, column Ann: "),
        ("id,Ann\nexistence/1,nan\n", "line 2, column Ann: "),
        ("id,Ann\nexistence/1\n", "line 2: "),
        ("id,Ann\nexistence/1,1,1\n", "line 2: "),
        ("id,Ann\nexistence/1,1\nexistence/1,1\n", "line 3: id 'existence/1'"),
        ("id,Ann\nbeing/1,1\n", "line 2: id .*being/1"),
        ('id,Ann\n"existence/1,1\n', "after line 1: no CSV"),
    ],
)
def test_wrong_human_ratings(tmp_path, text, message):
    path = tmp_path / "human.csv"
    path.write_text(text)
    with pytest.raises(LmmsEgoplanError, match=message) as error:
        read_human(path)
    assert str(path) in str(error.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(*[st.sampled_from(["", "0", "0.5", "1", " 1.0 "])] * 2), min_size=1))
def test_human_ratings(tmp_path, cells):
    path = tmp_path / "human.csv"
    rows = [f"{first},existence/{number},{second}\r\n" for number, (first, second) in enumerate(cells)]
    path.write_bytes("\ufeffAnn,id,Bob\r\n".encode() + "".join(rows).encode() + b"\r\n")
    values = {"": None, "0": 0.0, "0.5": 0.5, "1": 1.0, " 1.0 ": 1.0}
    assert read_human(path) == {
        name: {f"existence/{number}": values[row[column]] for number, row in enumerate(cells)}
        for column, name in enumerate(("Ann", "Bob"))
    }


@given(CONTENTS)
def test_no_other_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError):
        read_human(path)
