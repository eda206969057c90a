"""Advice on descriptions, and its accuracy on descriptions with planted errors."""

import json
import re

import pytest

from annotation.serving import run
from construction.actplan.language_model import LanguageModel, formula_of, text_of
from construction.actplan.problem_files import RELEASED
from construction.actplan.rooms import ACTIVITIES, write_activities
from construction.language_model import served
from judge_server import Reply
from judging.asked import KEY
from lmms_egoplan.construction.actplan.activities import read_activities, read_examples
from lmms_egoplan.construction.actplan.conditions import (
    Advice,
    Description,
    Report,
    advise,
    read_report,
)
from lmms_egoplan.construction.actplan.released_check import CHECKED, Accuracy, plant
from lmms_egoplan.judging.json_replies import WRONG_FORM
from lmms_egoplan.judging.settings import JudgeSettings

__all__ = ["served"]  # a fixture


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return write_activities(tmp_path / "bddl")


def test_advice_names_missing_and_contradicted_conditions(folder):
    activities = read_activities(folder)[0][:3]
    complete, silent, contrary = (text_of(activity.problem) for activity in activities)
    changes = (formula_of("(burnt ?cup.n.01_1)"),)
    descriptions = {
        "complete": Description(activities[0].problem, complete),
        "silent": Description(activities[1].problem, silent.replace("inside", "near"), changes),
        "contrary": Description(
            activities[2].problem, contrary.replace("must be inside", "must be not inside")
        ),
    }
    goals = [str(activity.problem.conditions[0]) for activity in activities]
    with LanguageModel() as server:
        settings = JudgeSettings("model", server.url, KEY, 4)
        advice, rejections = advise(descriptions, settings)
        assert rejections == []
        assert advice == [
            Advice("complete", (), ()),
            Advice("silent", (goals[1], "(burnt ?cup.n.01_1)"), ()),
            Advice("contrary", (), (goals[2],)),
        ]
        assert [bool(line) for line in advice] == [False, True, True]
        asked = len(server.prompts)
        assert advise(descriptions, settings)[0] == advice
        assert len(server.prompts) == asked == 3


def test_a_description_without_a_usable_reply_gets_no_advice(folder):
    activity = read_activities(folder)[0][0]
    with LanguageModel() as server:
        server.reply = lambda *_: Reply(json.dumps({"missing": [2], "contradicted": []}))
        descriptions = {activity.key: Description(activity.problem, "A text.")}
        advice, rejections = advise(descriptions, JudgeSettings("model", server.url, KEY, 4))
        assert len(server.prompts) == 2
    assert advice == []
    (rejection,) = rejections
    assert (rejection.step, rejection.reason) == ("conditions", WRONG_FORM)
    assert "missing: expected a list of numbers from 1 to 1" in rejection.detail


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"missing": [1]}, "contradicted: expected a list of numbers from 1 to 3, found nothing"),
        ({"missing": [True], "contradicted": []}, "missing: expected"),
        ({"missing": ["1"], "contradicted": []}, "missing: expected"),
        ({"missing": [0], "contradicted": []}, "missing: expected"),
        ({"missing": [], "contradicted": [4]}, "contradicted: expected"),
        ({"missing": [1, 2], "contradicted": [2]}, "the same condition"),
    ],
)
def test_replies_of_another_form_are_refused(reply, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_report(reply, 3)
    assert read_report({"missing": [3, 3], "contradicted": [1]}, 3) == Report(
        frozenset({2}), frozenset({0})
    )


def check(folder, *options):
    return run(
        "data",
        "build",
        "actplan",
        folder,
        "--check-released",
        "--out",
        folder.parent / "checked",
        *options,
    )


def test_accuracy_on_planted_errors(folder, served):
    """The scripted model knows the word "inside", but not "into".

    So it finds all 5 added conditions, and 3 of 5 negated ones. It reports the conditions of two
    descriptions as missing, although they are stated.
    """
    for name in list(ACTIVITIES)[:3]:
        path = folder / name / "task_description_0.txt"
        path.write_text(path.read_text().replace("into", "inside"))
    with served(LanguageModel()) as server:
        code, output = check(folder, "--estimate")
        assert (code, server.prompts) == (0, [])
        assert "planted errors: 10 requests" in output
        code, output = check(folder, "--max-requests", 3)
        assert (code, len(server.prompts)) == (1, 3), output
        code, output = check(folder)
        assert (code, len(server.prompts)) == (0, 10), output
        assert "missing: precision 71.4% (5 of 7 reported" in output
        assert "recall 100.0% (5 of 5 planted" in output
        assert "contradicted: precision 100.0% (3 of 3 reported" in output
        assert "recall 60.0% (3 of 5 planted" in output
        assert "precision is a lower bound" in " ".join(output.split())
        assert check(folder)[0] == 0
        assert len(server.prompts) == 10
    lines = (folder.parent / "checked" / CHECKED).read_text().splitlines()
    assert len(lines) == 10
    first = json.loads(lines[0])
    assert first["id"] == "cleaning_cups/0, missing"
    assert first["missing"] == [first["planted"]]
    assert first["contradicted"] == []


def test_unusable_replies_are_not_counted(folder, served):
    with LanguageModel() as model:
        answer = model.reply

        def fail(prompt, before):
            if "at the end: (not (forall (?cookie" in prompt:
                return Reply("Sure!")
            return answer(prompt, before)

        model.reply = fail
        with served(model):
            code, output = check(folder)
    assert code == 1  # more than a tenth of the requests
    assert "Without a usable reply, not counted: 2" in output
    assert "(0 of 3 planted" in output
    lines = map(json.loads, (folder.parent / "checked" / CHECKED).read_text().splitlines())
    errors = [line["error"]["step"] for line in lines if "error" in line]
    assert errors == ["conditions", "conditions"]


def test_nothing_is_built_together_with_the_check(folder, served):
    with served(LanguageModel()) as server:
        code, output = check(folder, "--plans", folder)
        assert (code, server.prompts) == (2, [])
        assert "not with --images" in " ".join(output.split())


def test_undefined_accuracies():
    assert Accuracy("missing", 0, 0, 0).recall is None
    assert Accuracy("missing", 3, 0, 0).precision is None


@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_each_released_description_gets_one_error_of_each_kind():
    examples = read_examples(RELEASED)
    assert len(examples) == 153
    for example in examples:
        added, negated = plant(example)
        assert (added.kind, negated.kind) == ("missing", "contradicted")
        conditions = list(added.description.conditions)
        planted = conditions.pop(added.position)
        assert planted.op[:4] not in example.text.lower()
        assert planted.op not in example.bddl
        negated_conditions = list(negated.description.conditions)
        pair = {str(conditions[negated.position]), str(negated_conditions[negated.position])}
        assert f"(not {min(pair, key=len)})" in pair
        del conditions[negated.position], negated_conditions[negated.position]
        assert conditions == negated_conditions
