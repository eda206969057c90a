"""Stored answers and ratings: what is read, and what is refused by file, line and field."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.egothink.answer_files import read_stored, with_questions, write_judged
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.egothink.rating_files import between_levels, read_human, read_raters
from lmms_egoplan.benchmarks.egothink.scoring import Answer, JudgedAnswer
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import DataMissingError


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records), encoding="utf-8")
    return path


def judged(question, answer="Yes.", rating=1.0, judge="judge-a"):
    return JudgedAnswer(question, answer, None, False, rating, None if rating is None else "[[1]]", judge, None)


def judged_file(path, answers):
    write_judged(path, answers)
    return path


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare_egothink(write_source(tmp_path / "source"))


def test_all_kinds_of_files(tmp_path):
    plain = write_lines(tmp_path / "plain.jsonl", [{"id": "existence/1", "answer": "a\u2028b", "score": 0.5}])
    plain.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n") + b"\n")
    record = {"id": "existence/2", "answer": "", "truncated": True, "rating": 0.5, "judge": "x", "score": 50.0}
    run = tmp_path / "run"
    write_lines(run / "m" / "2_samples_egothink_object_existence.jsonl", [{"doc_id": 0, "score": record}])
    write_lines(run / "m" / "1_samples_egothink_activity.jsonl", [{"score": record | {"id": "activity/7"}}])
    write_lines(run / "m" / "1_samples_egoplan_val.jsonl", [{"predictions": {}}])
    own = judged_file(tmp_path / "own.jsonl", [judged("counting/1", "<b>é")])
    found = read_stored([plain, run, own])
    assert [(answer.id, answer.answer, answer.truncated, answer.rating, answer.judge) for answer in found] == [
        ("existence/1", "a\u2028b", None, None, None),
        ("activity/7", "", True, 0.5, "x"),
        ("existence/2", "", True, 0.5, "x"),
        ("counting/1", "<b>é", None, 1.0, "judge-a"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no answers in it"),
        ("\n \n", "no answers in it"),
        ('{"id": "existence/1", "answer": ""}\n{', "line 2: no JSON"),
        ("[1]", "line 1: expected an object"),
        ("{}", "line 1: id must be a text, got 'nothing'"),
        ('{"id": 1, "answer": ""}', "line 1: id must be a text, got 1"),
        ('{"id": "existence/1"}', "line 1: answer must be a text, got 'nothing'"),
        ('{"score": {"id": "existence/1", "answer": null}}', "line 1: answer must be a text, got None"),
        ('{"id": "existance/1", "answer": ""}', r"line 1: id must be <dimension>/<number>.*'existance/1'"),
        ('{"id": "existence/1", "answer": "", "truncated": 1}', "line 1: truncated must be"),
        ('{"id": "existence/1", "answer": ""}\n' * 2, r"line 2: id 'existence/1' is already in .*line 1"),
    ],
)
def test_wrong_files_are_named(tmp_path, text, message):
    path = tmp_path / "answers.jsonl"
    path.write_text(text)
    with pytest.raises(LmmsEgoplanError, match=message) as error:
        read_stored([path])
    assert str(path) in str(error.value)


def test_halves_of_surrogate_pairs_are_replaced(tmp_path):
    record = r'{"id": "existence/1", "answer": "a \ud83d", "judge": "j\udc00"}'
    (tmp_path / "a.jsonl").write_text(record)
    (stored,) = read_stored([tmp_path / "a.jsonl"])
    assert (stored.answer, stored.judge) == ("a ?", "j?")


def test_ids_are_unique_across_files(tmp_path):
    files = [judged_file(tmp_path / f"{name}.jsonl", [judged("existence/1")]) for name in "ab"]
    with pytest.raises(LmmsEgoplanError, match=r"b.jsonl, line 1: id 'existence/1' is already in .*a.jsonl, line 1"):
        read_stored(files)


def test_answers_of_two_versions_are_not_put_together(tmp_path):
    for time, dimension, version in (("1", "object_existence", 1.0), ("2", "object_attribute", 2.0)):
        name = dimension.partition("_")[2]
        write_lines(tmp_path / f"{time}_samples_egothink_{dimension}.jsonl", [{"id": f"{name}/1", "answer": "Yes."}])
        results = {"versions": {f"egothink_{dimension}": version}}
        (tmp_path / f"{time}_results.json").write_text(json.dumps(results))
    files = sorted(tmp_path.glob("*.jsonl"))
    for paths in ([tmp_path], files):
        with pytest.raises(
            LmmsEgoplanError, match=r"several versions of the tasks.*: 1\.0 in .*1_samp.*, 2\.0 in .*2_samp"
        ):
            read_stored(paths)
    assert [len(read_stored([file])) for file in files] == [1, 1]
    for damaged in ("{", "[]", json.dumps({"versions": {"egothink_object_attribute": 1.0}})):
        (tmp_path / "2_results.json").write_text(damaged)
        assert len(read_stored([tmp_path])) == 2


def test_absent_and_empty_places(tmp_path):
    with pytest.raises(LmmsEgoplanError, match="cannot be read"):
        read_stored([tmp_path / "absent.jsonl"])
    with pytest.raises(LmmsEgoplanError, match=r"no samples of egothink_\* below it"):
        read_stored([tmp_path])


@given(st.binary() | st.text().map(str.encode) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "answer", "score", "truncated"]), inner),
).map(json.dumps).map(str.encode))  # fmt: skip
def test_no_other_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    for read in (lambda: read_stored([path]), lambda: read_human(path)):
        with pytest.raises(LmmsEgoplanError):
            read()


@pytest.mark.usefixtures("prepared")
def test_questions_come_from_the_prepared_data(tmp_path):
    stored = read_stored([judged_file(tmp_path / "a.jsonl", [judged("counting/2", "Two."), judged("existence/1")])])
    assert with_questions(stored) == [
        Answer("counting/2", "What is thing 2 of counting? ", "The counting 2.", "Two.", None),
        Answer("existence/1", "What is thing 1 of existence? ", "The existence 1.", "Yes.", None),
    ]
    with pytest.raises(LmmsEgoplanError, match=r"b.jsonl, line 1: id 'counting/3' is no question of the prepared data"):
        with_questions(read_stored([judged_file(tmp_path / "b.jsonl", [judged("counting/3")])]))


def test_data_that_are_not_prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    stored = read_stored([judged_file(tmp_path / "a.jsonl", [judged("counting/2")])])
    with pytest.raises(DataMissingError, match="lmms-egoplan data prepare egothink"):
        with_questions(stored)


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
        ({"rating": 7, "judge": "a"}, "rating must be a number from 0 to 1, or null, got 7"),
        ({"rating": -0.1, "judge": "a"}, "rating must be"),
        ({"rating": float("nan"), "judge": "a"}, "rating must be"),
        ({"rating": True, "judge": "a"}, "rating must be"),
        ({"rating": "1", "judge": "a"}, "rating must be"),
        ({"rating": 1}, "judge must name the model"),
        ({}, "no ratings in it. Judge the answers: lmms-egoplan judge egothink"),
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
    with pytest.raises(LmmsEgoplanError, match=r"b.jsonl, line 1: another answer to 'existence/1' than in .*a.jsonl"):
        read_raters([first, second], None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the columns id and a name"),
        ("id\nexistence/1\n", "line 1: expected the columns"),
        ("question,Ann\n", "line 1: expected the columns"),
        ("id,Ann,Ann\n", "line 1: expected the columns"),
        ("id,id,Ann\n", "line 1: expected the columns"),
        ("id,Ann,\n", "line 1: expected the columns"),
        (
            "id,Ann\nexistence/1,1\nexistence/2,83.3\n",
            "line 3, column Ann: expected a number from 0 to 1, or nothing, ",
        ),
        ("id,Ann\nexistence/1,-0.5\n", "line 2, column Ann: expected"),
        ('id,Ann\nexistence/1,"0,5"\n', "line 2, column Ann: expected"),
        ("id,Ann\nexistence/1,yes\n", "line 2, column Ann: expected"),
        ("id,Ann\nexistence/1,nan\n", "line 2, column Ann: expected"),
        ("id,Ann\nexistence/1\n", "line 2: not as many cells"),
        ("id,Ann\nexistence/1,1,1\n", "line 2: not as many cells"),
        ("id,Ann\nexistence/1,1\nexistence/1,1\n", "line 3: id 'existence/1' is there twice"),
        ("id,Ann\nbeing/1,1\n", "line 2: id must be <dimension>/<number>"),
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
