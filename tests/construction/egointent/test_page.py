"""Test steps built from narrations, from the page and its export to the prepared split."""

import json
import re

import pytest

from annotation.egointent_labelling import export, label, unchanged
from annotation.serving import enter, post, run, served
from annotation.studies import open_store
from construction.egointent.language_model import kind_of, reply
from construction.egointent.small import write_small
from construction.language_model import environment
from construction.language_model import served as language_model
from judge_server import Reply
from lmms_egoplan.annotation.egointent import FLOW, read_items
from lmms_egoplan.annotation.pages import field_keys
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.benchmarks.egointent.records import read_annotations
from lmms_egoplan.benchmarks.splits import EGOINTENT

__all__ = ["environment", "language_model"]  # fixtures


@pytest.fixture
def built(tmp_path, environment, language_model):
    """Return a function that builds steps in a folder with these replies of the language model."""

    def built(place_reply='{"place": "kitchen", "environment": "indoor"}', support_reply=None):
        write_small(tmp_path)

        def answer(prompt, before):
            fixed_reply = {"place": place_reply, "support": support_reply}.get(kind_of(prompt))
            return Reply(fixed_reply) if fixed_reply else reply(prompt, before, lambda _: "")

        with language_model(answer):
            files = [
                "goalstep.json",
                "--narrations",
                "narration.json",
                "--videos",
                "videos",
                "--out",
                "steps.jsonl",
            ]
            arguments = [text if text.startswith("--") else tmp_path / text for text in files]
            _, output = run("data", "build", "egointent", *arguments)
        assert (tmp_path / "steps.jsonl").is_file(), output
        return tmp_path

    return built


def start(folder):
    items = folder / "steps.jsonl"
    return open_store(
        FLOW,
        folder / "labels.sqlite",
        lambda _: read_items(items, folder / "videos"),
        "steps",
        Team(2),
    )


def test_from_narrations_to_the_prepared_split(built):
    folder = built()
    store = start(folder)
    moved = []

    def change(stage, values, page):
        if stage == "revise" and "fills" in values["local_intent"]:
            times = re.search(r'data-times="([^"]+)"', page)[1].split()
            # After the recorded cut, which only the first round may do.
            moved.append(float(times[-4]))
            assert moved[0] > 1.1
            changes = {"next_step_plan": "put the kettle down", "supported_next_step_plan": "no"}
            return (
                values
                | changes
                | {"end_sec": times[-4], "local_intent": "get water", "environment": "outdoor"}
            )
        return values

    label(store, change)
    store.close()
    steps, rates, _ = export(store)
    assert run("data", "prepare", "egointent", steps, "--videos", folder / "videos")[0] == 0
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    assert len(rows) == 4
    changed = rows["f20fb254_n2"]
    assert (changed["local_intent"], changed["next_step_plan"]) == (
        "get water",
        "put the kettle down",
    )
    assert (changed["environment"], changed["scenario"]) == ("outdoor", "kitchen")
    assert changed["end_sec"] == pytest.approx(moved[0])
    assert not any(row["unverified"] for row in rows.values())
    same = rows["f20fb254_n3"]
    assert (same["start_sec"], same["end_sec"], same["local_intent"]) == (1.1, 1.9, "opens a box")
    assert not any("candidates" in key for key in json.loads(steps.read_text().splitlines()[0]))

    rate = rates["cuts_moved"]
    assert [rate[key] for key in ("value", "count", "of", "paper", "printed")] == [
        "25.0", "1", "4", "25.2", "761 of 3,014",
    ]  # fmt: skip
    assert float(rates["median_adjustment_sec"]["value"]) == pytest.approx(moved[0] - 1.1, abs=1e-3)
    assert [rates[f"cuts_moved_{way}"]["count"] for way in ("earlier", "later")] == ["0", "1"]
    assert rates["candidates_rewritten_for_hindsight_next_step"]["value"] == "25.0"
    durations = sorted(row["end_sec"] - row["start_sec"] for row in rows.values())
    assert float(rates["median_duration_sec"]["value"]) == pytest.approx(
        (durations[1] + durations[2]) / 2, abs=0.006
    )
    assert rates["median_duration_sec"]["paper"] == "1.87"

    code, audit = run("audit", "egointent-labels", steps.parent)
    assert code == 0
    for text in (
        "761 of 3,014; sec. 3.3",
        "957 of 973",
        "94.3",
        "873",
        "6.1",
        "13.7",
        "1.87",
        "183 of 3,014; sec. 3.4",
    ):
        assert text in audit


def test_page_asks_for_an_unknown_place(built):
    folder = built(place_reply="somewhere")
    store = start(folder)
    with served(store) as address:
        client = enter(address, store, "annotator-1")
        values = unchanged(client.page.text)
        assert "environment" not in values
        assert values["scenario"] == ""
        for changes in ({"scenario": "kitchen"}, {"environment": "indoor"}):
            assert post(client, **values | changes).status_code == 422
            client.page = client.get("/")
        assert (
            post(client, **values | {"environment": "outdoor", "scenario": "yard"}).status_code
            == 200
        )
    label(
        store,
        lambda stage, values, page: {
            "environment": "indoor",
            **values,
            "scenario": values["scenario"] or "hall",
        },
    )
    store.close()
    records = read_annotations(export(store)[0])
    assert sorted((record.environment, record.scenario) for record in records) == [
        *[("indoor", "hall")] * 3,
        ("outdoor", "yard"),
    ]


def test_lead_decides_between_two_places(built):
    store = start(built())
    label(
        store,
        lambda stage, values, page: values | ({"scenario": "hall"} if stage == "verify" else {}),
    )
    store.close()
    _, output = run(
        "annotate", "export", store.database.path, "--out", store.database.path.parent / "out"
    )
    assert "0 of 4" in output


def test_page_shows_other_candidates_and_a_key_for_every_choice(built):
    folder = built(support_reply='{"procedural_intent": [true, true], "next_step": [false, true]}')
    store = start(folder)
    item = store.assignments.item(0)
    form = FLOW.form(item.contents)
    words = {field.name: field for field in form.fields if hasattr(field, "candidates")}
    assert len(words["global_intent"].candidates) == 2
    assert len(words["next_step_plan"].candidates) == 1
    revised = {field.name: getattr(field, "initial", "") for field in form.fields}
    check = FLOW.form(item.contents, (revised,), 0, "verify")
    keys = field_keys(check)
    choices = [field for field in check.fields if hasattr(field, "options")]
    assert [*keys] == [field.name for field in choices]
    option_keys = [key for options in keys.values() for key in options.values()]
    assert len(option_keys) == len({*option_keys})
    # The fourth row has five keys: "another reason" has none there.
    missing = [
        option.value
        for field in choices
        for option in field.options
        if option.value not in keys[field.name]
    ]
    assert missing == ["other"]
    store.close()


@pytest.mark.parametrize("content", [None, "rate,value\n"])
def test_audit_of_another_export_is_one_error(tmp_path, content):
    if content:
        (tmp_path / "audit.csv").write_text(content)
    code, output = run("audit", "egointent-labels", tmp_path)
    assert code == 1
    assert "audit.csv" in output
