"""Read stored answers and ratings; reject malformed files with file, line and field."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.egothink.answers import Answer
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egothink import answer_files
from lmms_egoplan.report.egothink.answer_files import (
    between_levels,
    read_human,
    read_raters,
    read_stored,
    with_questions,
)
from lmms_egoplan.storage import DataMissingError
from report.egothink.judged_files import CONTENTS, judged, judged_file, write_lines


@pytest.fixture
def prepared(data, tmp_path):
    prepare_egothink(write_source(tmp_path / "source"))


def test_all_kinds_of_files(tmp_path):
    plain = write_lines(
        tmp_path / "plain.jsonl", [{"id": "existence/1", "answer": "a\u2028b", "score": 0.5}]
    )
    plain.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n") + b"\n")
    record = {
        "id": "existence/2",
        "answer": "",
        "truncated": True,
        "rating": 0.5,
        "judge": "x",
        "score": 50.0,
    }
    run = tmp_path / "run"
    write_lines(
        run / "m" / "2_samples_egothink_object_existence.jsonl",
        [{"doc_id": 0, "score": {}, "details": {"answer": record}}],
    )
    write_lines(
        run / "m" / "1_samples_egothink_activity.jsonl",
        [{"score": {}, "details": {"answer": record | {"id": "activity/7"}}}],
    )
    write_lines(run / "m" / "1_samples_egoplan_val.jsonl", [{"predictions": {}}])
    rated = judged_file(tmp_path / "own.jsonl", [judged("counting/1", "<b>é")])
    answers_read = read_stored([plain, run, rated])
    assert [
        (answer.id, answer.answer, answer.truncated, answer.rating, answer.judge)
        for answer in answers_read
    ] == [
        ("existence/1", "a\u2028b", None, None, None),
        ("activity/7", "", True, 0.5, "x"),
        ("existence/2", "", True, 0.5, "x"),
        ("counting/1", "<b>é", None, 1.0, "judge-a"),
    ]


MALFORMED = (
    ("", "no answers.*--log_samples"),
    ("\n \n", "no answers.*--log_samples"),
    ('{"id": "existence/1", "answer": ""}\n{', "line 2: invalid JSON"),
    ("[1]", "line 1: "),
    ("{}", "line 1: id: .*found nothing"),
    ('{"id": 1, "answer": ""}', "line 1: id: .*found 1"),
    ('{"id": "existence/1"}', "line 1: answer: .*found nothing"),
    (
        '{"score": {}, "details": {"answer": {"id": "existence/1", "answer": null}}}',
        "line 1: answer: .*found nothing",
    ),
    ('{"score": {}, "details": {}}', "line 1: expected an object with id and answer"),
    ('{"score": {"id": "existence/1"}}', "line 1: no details: an earlier version .*run it again"),
    ('{"id": "existance/1", "answer": ""}', r"line 1: id .*'existance/1'"),
    ('{"id": "existence/1", "answer": "", "truncated": 1}', "line 1: truncated: .*found 1"),
    ('{"id": "existence/1", "answer": ""}\n' * 2, r"line 2: duplicate id 'existence/1'.*line 1"),
)


def unexplained(read, path, cases):
    """Write each text into a file; return those that are read, or refused without the message and
    the path.
    """
    wrong = []
    for text, message in cases:
        path.write_text(text)
        try:
            wrong.append((text, read(path)))
        except LmmsEgoplanError as error:
            if not re.search(message, str(error)) or str(path) not in str(error):
                wrong.append((text, str(error)))
    return wrong


def test_malformed_files_are_named(tmp_path):
    assert (
        unexplained(lambda path: read_stored([path]), tmp_path / "answers.jsonl", MALFORMED) == []
    )


def test_lone_surrogates_are_replaced(tmp_path):
    record = r'{"id": "existence/1", "answer": "a \ud83d", "judge": "j\udc00"}'
    (tmp_path / "a.jsonl").write_text(record)
    (stored,) = read_stored([tmp_path / "a.jsonl"])
    assert (stored.answer, stored.judge) == ("a ?", "j?")


def test_ids_are_unique_across_files(tmp_path):
    files = [judged_file(tmp_path / f"{name}.jsonl", [judged("existence/1")]) for name in "ab"]
    with pytest.raises(
        LmmsEgoplanError, match=r"b.jsonl, line 1: duplicate id 'existence/1'.*a.jsonl, line 1"
    ):
        read_stored(files)


def test_answers_of_two_versions_are_rejected(tmp_path):
    for time, dimension, version in (
        ("1", "object_existence", 1.0),
        ("2", "object_attribute", 2.0),
    ):
        name = dimension.partition("_")[2]
        write_lines(
            tmp_path / f"{time}_samples_egothink_{dimension}.jsonl",
            [{"id": f"{name}/1", "answer": "Yes."}],
        )
        results = {"versions": {f"egothink_{dimension}": version}}
        (tmp_path / f"{time}_results.json").write_text(json.dumps(results))
    files = sorted(tmp_path.glob("*.jsonl"))
    for paths in ([tmp_path], files):
        with pytest.raises(
            LmmsEgoplanError, match=r"versions.*: 1\.0 in .*1_samp.*, 2\.0 in .*2_samp"
        ):
            read_stored(paths)
    assert [len(read_stored([file])) for file in files] == [1, 1]
    for damaged in ("{", "[]", json.dumps({"versions": {"egothink_object_attribute": 1.0}})):
        (tmp_path / "2_results.json").write_text(damaged)
        assert len(read_stored([tmp_path])) == 2


def test_missing_and_empty_paths(tmp_path):
    with pytest.raises(LmmsEgoplanError, match="cannot be read"):
        read_stored([tmp_path / "absent.jsonl"])
    with pytest.raises(LmmsEgoplanError, match=r"no samples of egothink_\*.*--log_samples"):
        read_stored([tmp_path])


@settings(max_examples=40)
@given(CONTENTS)
def test_any_malformed_file_is_one_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError):
        read_stored([path])


@pytest.mark.usefixtures("prepared")
def test_questions_come_from_the_prepared_data(tmp_path):
    stored = read_stored(
        [judged_file(tmp_path / "a.jsonl", [judged("counting/2", "Two."), judged("existence/1")])]
    )
    assert with_questions(stored) == [
        Answer("counting/2", "What is thing 2 of counting? ", "The counting 2.", "Two.", None),
        Answer("existence/1", "What is thing 1 of existence? ", "The existence 1.", "Yes.", None),
    ]
    with pytest.raises(
        LmmsEgoplanError, match=r"b.jsonl, line 1: id 'counting/3' is not in the prepared data"
    ):
        with_questions(read_stored([judged_file(tmp_path / "b.jsonl", [judged("counting/3")])]))


@pytest.mark.usefixtures("data")
def test_missing_data_name_the_command(tmp_path):
    stored = read_stored([judged_file(tmp_path / "a.jsonl", [judged("counting/2")])])
    with pytest.raises(DataMissingError, match="lmms-egoplan data prepare egothink"):
        with_questions(stored)


def test_raters_get_unique_names(tmp_path):
    answers = [judged("existence/1"), judged("existence/2", rating=None)]
    first, second = (judged_file(tmp_path / f"{name}.jsonl", answers) for name in ("one", "two"))
    mixed = judged_file(
        tmp_path / "m.jsonl", [judged("existence/1"), judged("existence/2", rating=0.0, judge="b")]
    )
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


INVALID_RATINGS = (
    ({"rating": 7, "judge": "a"}, "rating: .*found 7"),
    ({"rating": -0.1, "judge": "a"}, "rating: "),
    ({"rating": float("nan"), "judge": "a"}, "rating: "),
    ({"rating": True, "judge": "a"}, "rating: "),
    ({"rating": "1", "judge": "a"}, "rating: "),
    ({"rating": 1}, "judge: .*found nothing"),
    ({}, "lmms-egoplan judge egothink"),
)


def test_invalid_ratings_are_rejected(tmp_path):
    records = [
        ({"id": "existence/1", "answer": "Yes."} | record, message)
        for record, message in INVALID_RATINGS
    ]
    lines = [(json.dumps(record), message) for record, message in records]
    assert unexplained(lambda path: read_raters([path], None), tmp_path / "a.jsonl", lines) == []


def test_means_of_several_raters_are_ratings(tmp_path):
    judge = write_lines(
        tmp_path / "a.jsonl",
        [{"id": "existence/1", "answer": "Yes.", "rating": 0.833, "judge": "three judges"}],
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


MALFORMED_HUMAN = (
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
    ("id,Ann\nexistence/1,1\nexistence/1,1\n", "line 3: duplicate id 'existence/1'"),
    ("id,Ann\nbeing/1,1\n", "line 2: id .*being/1"),
    ('id,Ann\n"existence/1,1\n', "after line 1: not CSV"),
)


def test_malformed_human_ratings_are_rejected(tmp_path):
    assert unexplained(read_human, tmp_path / "human.csv", MALFORMED_HUMAN) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(*[st.sampled_from(["", "0", "0.5", "1", " 1.0 "])] * 2), min_size=1))
def test_human_ratings(tmp_path, cells):
    path = tmp_path / "human.csv"
    rows = [
        f"{first},existence/{number},{second}\r\n" for number, (first, second) in enumerate(cells)
    ]
    path.write_bytes("\ufeffAnn,id,Bob\r\n".encode() + "".join(rows).encode() + b"\r\n")
    values = {"": None, "0": 0.0, "0.5": 0.5, "1": 1.0, " 1.0 ": 1.0}
    assert read_human(path) == {
        name: {f"existence/{number}": values[row[column]] for number, row in enumerate(cells)}
        for column, name in enumerate(("Ann", "Bob"))
    }


@settings(max_examples=40)
@given(CONTENTS)
def test_any_malformed_csv_is_one_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError):
        read_human(path)


def test_the_preset_of_answers_is_that_of_all_of_them(tmp_path):
    def preset_of(*prompts):
        lines = [
            json.dumps({"id": f"existence/{number}", "answer": "Yes.", "prompts": name})
            for number, name in enumerate(prompts, 1)
        ]
        path = tmp_path / "answers.jsonl"
        path.write_text("\n".join(lines))
        return answer_files.preset_of(answer_files.read_stored([path]))

    assert preset_of("preset official, system turn", "preset official") == "official"
    assert preset_of("preset lmms-eval-0.7.3") == "lmms-eval-0.7.3"
    assert preset_of("preset official", "preset physbrain") == ""
    assert preset_of("preset official", None) == ""
    assert preset_of("llava") == ""
