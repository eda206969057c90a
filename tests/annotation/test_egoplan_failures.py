"""Test types of failures.

Wrong answers of runs, a local judge, people's labels on the page, and their report.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from annotation.serving import export, label_all, run
from annotation.studies import open_store
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_docs, egoplan_replies, prepare
from judge_server import JudgeServer, Reply
from lmms_egoplan.annotation.egoplan_failures import FLOW, read_items
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.report.egoplan import failures
from lmms_egoplan.report.egoplan.failures import (
    FAILURES,
    LABELS,
    PEOPLE,
    Failure,
    agreement_rows,
    share_rows,
)
from lmms_egoplan.report.egoplan.wrong_answers import wrong_answers
from lmms_egoplan.stats.intervals import score_interval
from report.joined import near
from report.synthetic import write_run
from shared_data import PAPERS

COUNT = 91
PAPER = PAPERS / "000_cd03694783b9721f.txt"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Write prepared data and runs:

    Small ranks choices; it also writes letters, and ranks without its video.
    """
    folder = tmp_path_factory.mktemp("failures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare(folder / "data", COUNT)
        tasks = {
            "egoplan_val": egoplan_answers(COUNT, 0.5, 1, unscored=0.1),
            "egoplan_val_generate": egoplan_replies(COUNT, 0.7, 2, unparsed=0.2),
            "egoplan_val_blind": egoplan_answers(COUNT, 0.3, 3),
            "egoplan_val_other_video": egoplan_answers(COUNT, 0.3, 4),
        }
        write_run(folder / "runs", "lmms-eval", "org/Small", tasks)
        yield folder / "runs"


@pytest.fixture
def judge(monkeypatch):
    """Start a judge that replies with a type, by the right choice of the question."""

    def start(reply):
        server = JudgeServer(reply)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", "key")
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "seeing-judge")
        return server

    return start


def test_wrong_answers_are_those_with_a_wrong_choice(runs):
    ids = {failure.id for failure, _ in wrong_answers([runs], None)}
    expected = set()
    for number, (doc, losses) in enumerate(
        zip(egoplan_docs(COUNT), egoplan_answers(COUNT, 0.5, 1, 0.1).responses, strict=True)
    ):
        values = [json.loads(text)["loss"] for text in losses]
        if (
            all(value == value for value in values)
            and "ABCD"[values.index(min(values))] != doc["golden_choice_idx"]
        ):
            expected.add(f"{number + 1} of Small")
    for number, (doc, (reply,)) in enumerate(
        zip(egoplan_docs(COUNT), egoplan_replies(COUNT, 0.7, 2, 0.2).responses, strict=True)
    ):
        if reply[1:] == "." and reply[0] != doc["golden_choice_idx"]:
            expected.add(f"{number + 1} of Small (egoplan_val_generate)")
    assert ids == expected
    for failure, frames in wrong_answers([runs], 3):
        assert len(frames()) <= 8
        assert failure.texts["Right choice"] != failure.texts["The model's choice"]
        assert ("The model's reply" in failure.texts) == ("generate" in failure.model)


def label_on_the_page(runs, tmp_path):
    """Label eight answers; people differ on one.

    Return the output and folder of the export, and its records.
    """
    store = open_store(
        FLOW,
        tmp_path / "labels.sqlite",
        lambda folder: read_items([runs], 4, folder),
        "",
        Team(2, 2),
    )
    disputed = store.items()[0].contents["texts"]
    kinds = [*FAILURES]

    def answer(person, page):
        assert "Small" not in page
        is_disputed = all(text in page for text in disputed.values()) and person == "annotator-2"
        return {"type": kinds[1 if is_disputed else 0]}

    label_all(store, answer)
    store.close()
    output, labels = export(store)
    return output, labels, [json.loads(line) for line in (labels / LABELS).read_text().splitlines()]


def test_people_label_answers_without_seeing_the_model(runs, tmp_path):
    """A dispute is no type."""
    output, labels, records = label_on_the_page(runs, tmp_path)
    assert "Answers labelled: 7 of 8" in output
    assert sorted(str(record["type"]) for record in records) == ["None"] + ["visual"] * 7
    assert json.loads((labels / "annotation.json").read_text())["benchmark"] == "egoplan"
    verified = json.dumps({"benchmark": "egoplan", "files": ["rejected.csv", "labels.jsonl"]})
    (labels / "annotation.json").write_text(verified)
    code, output = run("annotate", "export", tmp_path / "labels.sqlite", "--out", labels)
    assert (code, "contains labels of another page" in output) == (1, True)


@pytest.mark.nightly
def test_people_and_a_judge_label_the_same_answers(runs, tmp_path, judge, monkeypatch):
    """A judge's unusable reply is no type."""
    _, labels, records = label_on_the_page(runs, tmp_path)

    def reply(prompt, _):
        return Reply(
            "No type." if "### The model's reply\n" in prompt else json.dumps({"type": "state"})
        )

    with judge(reply) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        arguments = ("judge", "egoplan", runs, "--sample", 4, "--out", tmp_path / "judged")
        code, output = run(*arguments, "--estimate")
        assert (code, server.prompts, (tmp_path / "judged").exists()) == (0, [], False)
        code, output = run(*arguments)
        assert code == 1
        assert "4 of 8 answers are not judged" in " ".join(output.split())
        assert (
            "Small, Type-2: Omitting key state changes in task progress: 4 of 4 answers" in output
        )
        contents = [body["messages"][-1]["content"] for body in server.bodies]
        assert all(
            [part["type"] for part in content][:2] == ["image_url", "image_url"]
            for content in contents
        )
        assert not any(
            "Small" in prompt or "{" in prompt.partition("### Goal")[2].partition("The answer")[0]
            for prompt in server.prompts
        )
        # After the test request, each unusable reply is requested once more, and stored.
        assert len(server.prompts) == 1 + 12
    judged = [json.loads(line) for line in (tmp_path / "judged" / LABELS).read_text().splitlines()]
    assert {record["id"] for record in judged} == {record["id"] for record in records}
    assert {record["by"] for record in judged} == {"seeing-judge, prompt 2"}
    assert all((record["type"] is None) == ("generate" in record["model"]) for record in judged)
    assert all(record["why"] for record in judged if record["type"] is None)
    code, output = run("report", labels, tmp_path / "judged", "--out", tmp_path / "report")
    assert code == 0, output
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    tables = {table["key"]: table for part in report["benchmarks"] for table in part["tables"]}
    shares = tables["egoplan_failures"]["rows"]
    assert len(shares) == 16  # four types, two tasks, people and judge
    assert tables["egoplan_failures_agreement"]["rows"][0]["values"][1] in (3, 4)
    assert (tmp_path / "report" / "tables" / "egoplan_failures.csv").is_file()


def failure(number, kind, by=PEOPLE, **fields):
    about = {
        "id": f"{number} of m",
        "run": "m, now, egoplan_val",
        "model": "m",
        "video": f"v{number % 12}",
    }
    texts = {"Goal": "make tea", "Right choice": "boil water"}
    return Failure(
        **about | {"texts": texts, "wrong": 50, "by": by, "type": kind, "why": None} | fields
    )


def test_shares_are_of_the_answers_with_a_type():
    types = ["visual"] * 9 + ["state"] * 5 + ["other"] * 2 + [None] * 4
    rows = list(share_rows([failure(number, kind) for number, kind in enumerate(types)]))
    assert [row["type"] for row in rows] == [*FAILURES.values()]
    assert [row["count"] for row in rows] == [9, 5, 0, 2]
    assert [row["share"] for row in rows] == near([100 * count / 16 for count in (9, 5, 0, 2)])
    assert {(row["typed"], row["untyped"], row["drawn"], row["wrong"]) for row in rows} == {
        (16, 4, 20, 50)
    }
    ends = score_interval([100.0] * 9 + [0.0] * 7, [f"v{number % 12}" for number in range(16)], 100)
    assert (rows[0]["low"], rows[0]["high"]) == near(ends)
    assert rows[0]["example"] == "make tea; boil water"
    (*_, untyped) = share_rows([failure(0, None)])
    assert (untyped["share"], untyped["low"], untyped["count"], untyped["untyped"]) == (
        None,
        None,
        0,
        1,
    )


def test_agreement_is_over_the_answers_with_both_types():
    from sklearn.metrics import cohen_kappa_score

    pairs = [
        ("visual", "visual"),
        ("visual", "state"),
        ("state", "state"),
        ("other", "knowledge"),
    ] * 4
    pairs += [("visual", None), (None, "state")]
    labels = [
        failure(number, kind, by)
        for number, pair in enumerate(pairs)
        for by, kind in zip((PEOPLE, "j"), pair, strict=True)
    ]
    labels.append(failure(99, "visual", "j"))
    # A run's name may be longer next to another run of the same model.
    labels[0] = labels[0].model_copy(update={"id": "0 of m (2025)", "model": "m (2025)"})
    (row,) = agreement_rows(labels)
    people, judge = zip(*pairs[:16], strict=True)
    assert (row["judge"], row["answers"], row["equal"]) == ("j", 16, 50)
    assert row["kappa"] == near(cohen_kappa_score(people, judge))
    assert row["low"] <= row["kappa"] <= row["high"]
    (few,) = agreement_rows(labels[:16])
    assert (few["answers"], "kappa" in few) == (8, False)
    assert list(agreement_rows([failure(0, "visual", "j"), failure(0, None)])) == []


def test_replies_with_exactly_one_known_type_are_read():
    for kind in ("state", "other"):
        assert failures._read("", {"type": kind}) == kind
    wrong = (
        {"type": "Type-2"},
        {"type": ["state"]},
        {"type": None},
        {},
        {"type": "state", "also": "visual"},
    )
    for reply in wrong:
        with pytest.raises(ValueError, match="expected a type"):
            failures._read("", reply)


def test_missing_questions_are_named(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    with pytest.raises(LmmsEgoplanError, match="questions are missing"):
        wrong_answers([runs], None)


def test_invalid_labels_name_file_and_field(tmp_path):
    (tmp_path / "annotation.json").write_text(json.dumps({"benchmark": "egoplan"}))
    (tmp_path / LABELS).write_text(
        json_lines([failure(0, "visual").model_dump() | {"type": "Type-4"}])
    )
    code, output = run("report", tmp_path, "--out", tmp_path / "report")
    assert code == 1
    assert re.search(r"failures\.jsonl, line 1: type", output)


@pytest.mark.skipif(not PAPER.is_file(), reason="needs ../shared/papers")
def test_names_and_quotations_are_the_papers_words():
    paper = " ".join(PAPER.read_text(encoding="utf-8").split())
    rooms = Path(failures.__file__).parents[2]
    prompt = yaml.safe_load(Path(failures.__file__).with_suffix(".yaml").read_text())[
        "prompt"
    ].partition("{texts}")[0]
    guide = " ".join(
        yaml.safe_load((rooms / "annotation" / "guides.yaml").read_text())["egoplan-failures"]
    )
    for text in (" ".join(prompt.split("\n")), guide):
        for key in ("visual", "state", "knowledge", "other"):
            text = text.replace(f'"{key}"', "")
        quotations = re.findall(r'"([^"]+)"', text)
        assert len(quotations) == 7
        assert [words for words in quotations if words.rstrip(",") not in paper] == []
    for title in [*FAILURES.values()][:3]:
        assert title in paper
        assert title.partition(": ")[2] in prompt
        assert title.partition(": ")[2] in guide
