"""Each benchmark's questions in the gallery, where its data are not prepared, and where two runs differ in them."""

from lmms_egoplan.report.runs import read_runs
from report.answers import Answers
from report.synthetic import write_run


def test_without_prepared_data_questions_are_those_that_lm_eval_logs(small, monkeypatch, tmp_path):
    items = small.report(small.runs).items()
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    logged = small.report(small.runs).items()
    assert [(item.key, item.question) for item in logged] == [(item.key, item.question) for item in items]
    assert {item.images for item in logged} == {None}
    bare = small.report([run for run in small.runs if run.harness == "lmms-eval"])
    assert [item.key for item in bare.items()] == [item.key for item in items]
    assert {item.images for item in bare.items()} == {None}
    assert not {item.question for item in bare.items()} & {item.question for item in items}
    assert any(str(tmp_path) in remark and f"data prepare {bare.NAME}" in remark for remark in bare.section().remarks)


def test_the_same_ids_with_other_gold_answers_are_other_questions(small, tmp_path):
    tasks = min((tasks for *_, tasks, _ in small.counting.runs()), key=len)
    other = {
        task: Answers([doc | small.counting.other_gold(doc) for doc in answers.docs], answers.responses)
        for task, answers in tasks.items()
    }
    write_run(tmp_path / "one", "lmms-eval", "org/One", tasks)
    write_run(tmp_path / "other", "lmms-eval", "org/Other", other)
    runs = read_runs([tmp_path]).runs
    report = small.report(runs)
    section = report.section()
    assert f"{report.NAME}_comparisons" not in {table.key for table in section.tables}
    items = {item.key: item for item in report.items()}
    keys = [item.key for item in small.report(runs[:1]).items()]
    assert items.keys() == {*keys, *(f"{key} (2)" for key in keys)}
    for key in keys:
        one, other = items[key], items[f"{key} (2)"]
        assert {*one.answers, *other.answers} == {"One", "Other"}
        assert (one.gold, one.references) != (other.gold, other.references)
    missing = sum(item.images is None for item in items.values())
    assert missing >= len(keys)
    assert any(str(missing) in remark and "prepared data" in remark for remark in section.remarks)
