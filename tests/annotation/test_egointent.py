import json
import re
import shutil

import pytest
from typer.testing import CliRunner

from annotation.egointent_labelling import export, label, unchanged
from annotation.serving import enter, post, served, visited
from annotation.studies import open_store
from benchmarks.egointent.source import FPS, raw_record, raw_records, write_annotations
from lmms_egoplan.annotation.egointent import FLOW, read_items
from lmms_egoplan.annotation.export import write_label_studio
from lmms_egoplan.annotation.serve import Team, media_folder
from lmms_egoplan.benchmarks.egointent.records import read_annotations
from lmms_egoplan.cli import app
from lmms_egoplan.media.frames import count_video_frames, frame_times, read_video_frames
from media.files import read_number


@pytest.fixture
def source(tmp_path, monkeypatch, numbered_videos):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    shutil.copytree(numbered_videos, tmp_path / "videos")
    write_annotations(tmp_path / "steps.jsonl", raw_records())
    return tmp_path


def start(folder, annotators=3):
    items = folder / "steps.jsonl"
    return open_store(
        FLOW,
        folder / "labels.sqlite",
        lambda _: read_items(items, folder / "videos"),
        "steps",
        Team(annotators),
    )


def test_export_of_revised_steps_can_be_prepared(source):
    store = start(source)

    def change(stage, values, page):
        if stage == "revise" and "drive screw 2 in" in values["next_step_plan"]:
            return values | {
                "next_step_plan": "put the board down",
                "supported_next_step_plan": "no",
            }
        return values

    label(store, change)
    store.close()
    steps, rates, output = export(store)
    assert "6 of 6" in output
    records = {record.step_id: record for record in read_annotations(steps)}
    assert records["s2"].next_step_plan == "put the board down"
    assert not any(record.unverified for record in records.values())
    before = {record.step_id: record for record in read_annotations(source / "steps.jsonl")}
    assert {name: record.end_sec for name, record in records.items()} == {
        name: record.end_sec for name, record in before.items()
    }
    assert rates["candidates_rewritten_for_hindsight_next_step_plan"]["value"] == "16.7"
    assert rates["candidates_rewritten_for_hindsight_next_step_plan"]["paper"] == "13.7"
    labels, whole = (
        rates["labels_supported_before_the_cut"],
        rates["steps_with_all_labels_supported"],
    )
    assert (labels["count"], labels["of"], labels["paper"]) == ("18", "18", "94.3")
    assert (whole["count"], whole["of"], whole["paper"]) == ("6", "6", "n/a")
    assert rates["cuts_moved"]["count"] == "0"
    arguments = ["data", "prepare", "egointent", str(steps), "--videos", str(source / "videos")]
    assert CliRunner().invoke(app, arguments).exit_code == 0


def frames_at(client, path, source):
    """Return the numbers of the frames in the clip at this address."""
    clip = source / "clip.mp4"
    clip.write_bytes(client.get(path).content)
    return [
        read_number(frame) for frame in read_video_frames(clip, range(count_video_frames(clip)))
    ]


def clip_on(page):
    return re.search(r'<video src="([^"]+)"', page.text)[1]


def test_only_the_first_person_sees_frames_after_the_cut(source):
    write_annotations(source / "steps.jsonl", [raw_record(1, end_sec=1.0, outcome_sec=1.3)])
    store = start(source)
    times = frame_times(source / "videos" / "0a1b-2c.mp4")
    cut = times[24]
    with served(store) as address:
        first, lead = enter(address, store, "annotator-1"), enter(address, store, "lead")
        assert "clip continues after it" in first.page.text
        assert frames_at(first, clip_on(first.page), source) == list(range(15, 39))
        assert frames_at(lead, clip_on(lead.get("/item/0")), source) == list(range(15, 30))
        post(first, **unchanged(first.page.text) | {"end_sec": f"{cut:.6f}"})
        second = enter(address, store, "annotator-2")
        assert "clip continues after it" not in second.page.text
        assert frames_at(second, clip_on(second.page), source) == list(range(15, 24))
        assert frames_at(lead, clip_on(lead.get("/item/0")), source) == list(range(15, 24))
        # The numbers of another person's slots lead nowhere.
        assert second.get(clip_on(first.get("/label/1"))).status_code == 403
        assert second.get("/media/1/0").status_code == 403
        late = unchanged(second.page.text) | {"end_sec": "1.0"}
        assert post(second, **late).status_code == 422
        post(second, **unchanged(second.page.text))
    store.close()
    steps, rates, _ = export(store)
    (record,) = read_annotations(steps)
    assert record.end_sec == cut
    assert float(rates["median_adjustment_sec"]["value"]) == pytest.approx(1.0 - cut, abs=1e-3)


def test_no_clip_has_a_frame_at_or_after_the_cut(source):
    store = start(source)
    folder = media_folder(store.database.path)
    for item in store.items():
        (clip,) = FLOW.form(item.contents).media
        path = folder.file(clip)
        numbers = [
            read_number(frame) for frame in read_video_frames(path, range(count_video_frames(path)))
        ]
        record = item.hidden["record"]
        assert max(numbers) / FPS < record["end_sec"]
        assert (max(numbers) + 1) / FPS >= record["end_sec"] - 1e-9
        assert min(numbers) / FPS >= record["start_sec"] - 1e-9
    store.close()


def test_place_is_asked_only_with_candidates_or_without_a_place(source):
    unplaced = raw_record(3, scenario=None, environment=None, unverified=True)
    steps = [
        raw_record(1, unverified=True),
        raw_record(2, unverified=True, next_step_plan_candidates=["drive screw 2 in"]),
        unplaced,
    ]
    items = read_items(write_annotations(source / "steps.jsonl", steps), source / "videos")
    assert [item.id for item in items if "place" in item.contents] == ["s2", "s3"]
    goalstep = {key: value for key, value in raw_record(4).items() if key != "scenario"}
    changes = {
        "category": "make tea",
        "unverified": True,
        "next_step_plan_candidates": ["drive screw 4 in"],
    }
    (item,) = read_items(
        write_annotations(source / "steps.jsonl", [goalstep | changes]), source / "videos"
    )
    assert "place" not in item.contents


def test_lead_decides_where_the_reviewer_differs(source):
    write_annotations(source / "steps.jsonl", [raw_record(1)])
    store = start(source)
    label(
        store,
        lambda stage, values, page: (
            values | ({"global_intent": "build it"} if stage == "verify" else {})
        ),
    )
    assert "0 of 1" in export(store)[2]
    with visited(store, "lead") as lead:
        assert '/adjudicate/0"' in lead.page.text
        lead.page = lead.get("/adjudicate/0")
        post(lead, **unchanged(lead.page.text) | {"local_intent": "fasten the board"})
    (record,) = read_annotations(export(store)[0])
    # The form starts with the review.
    assert (record.local_intent, record.global_intent) == ("fasten the board", "build it")


def test_audit_counts_moved_cuts_of_finished_steps_by_anyone(source):
    write_annotations(source / "steps.jsonl", [raw_record(1), raw_record(2)])
    store = start(source)
    times = frame_times(source / "videos" / "0a1b-2c.mp4")
    early = {"end_sec": f"{times[20]:.6f}"}
    label(
        store,
        lambda stage, values, page: (
            values | early
            if stage == "verify" and "drive screw 1 in" in values["next_step_plan"]
            else values
        ),
    )
    rates = export(store)[1]
    assert [rates["cuts_moved"][key] for key in ("count", "of")] == ["0", "1"]
    with visited(store, "lead") as lead:
        lead.page = lead.get(re.search('href="([^"]+/adjudicate/[0-9]+)"', lead.page.text)[1])
        post(lead, **unchanged(lead.page.text) | early)
    rates = export(store)[1]
    assert [rates["cuts_moved"][key] for key in ("count", "of", "value")] == ["1", "2", "50.0"]
    moved = 0.9 - times[20]
    assert float(rates["median_adjustment_sec"]["value"]) == pytest.approx(moved, abs=1e-3)


def test_audit_counts_final_verdicts_on_labels(source):
    store = start(source)

    def change(stage, values, page):
        if stage == "verify" and "drive screw 2 in" in values["next_step_plan"]:
            return values | {"supported_local_intent": "no", "supported_next_step_plan": "no"}
        return values

    label(store, change)
    labels, steps = "labels_supported_before_the_cut", "steps_with_all_labels_supported"
    rates = export(store)[1]
    assert [rates[name]["count"] for name in (labels, steps)] == ["16", "5"]
    assert rates[labels]["value"] == "88.9"
    with visited(store, "lead") as lead:
        lead.page = lead.get(re.search('href="([^"]+/adjudicate/[0-9]+)"', lead.page.text)[1])
        post(lead, **unchanged(lead.page.text) | {"supported_next_step_plan": "no"})
    rates = export(store)[1]
    assert [(rates[name]["count"], rates[name]["of"]) for name in (labels, steps)] == [
        ("17", "18"),
        ("5", "6"),
    ]


def test_database_items_and_media_can_be_moved(source, tmp_path_factory):
    store = start(source)
    slot = store.assignments.next_slot("annotator-1")
    store.close()
    source = source.rename(tmp_path_factory.mktemp("elsewhere") / "moved")
    store = start(source)
    assert store.assignments.next_slot("annotator-1").id == slot.id
    (clip,) = FLOW.form(store.assignments.item(0).contents, (), 0).media
    assert media_folder(store.database.path).file(clip).is_relative_to(source)
    store.close()


@pytest.mark.parametrize(
    ("keys", "titles"),
    [
        ({}, ("Local intent", "Global intent", "Next step plan")),
        (
            {"global_intent": "procedural_intent", "next_step_plan": "next_step"},
            ("Local intent", "Procedural intent", "Next step"),
        ),
        (
            {
                "local_intent": "Local Intent",
                "global_intent": "Procedural Intent",
                "next_step_plan": "next-plan",
            },
            ("Local intent", "Procedural intent", "Next plan"),
        ),
    ],
)
def test_guide_and_page_use_the_label_names_of_the_record(source, keys, titles):
    record = {keys.get(name, name): value for name, value in raw_record(1).items()}
    write_annotations(source / "steps.jsonl", [record])
    store = start(source)
    with served(store) as address:
        page = enter(address, store, "annotator-1").page.text
    guide, _, form = page.partition("</details>")
    for title in titles:
        assert f"<p>{title}: " in guide
        assert f"<legend>{title}</legend>" in form
    for other in {
        "Global intent",
        "Procedural intent",
        "Next step plan",
        "Next-step plan",
        "Next step",
    } - {*titles}:
        assert f"{other}:" not in page
        assert f"<legend>{other}</legend>" not in page
    write_label_studio(FLOW, store.items(), media_folder(store.database.path), source / "studio")
    configuration = (source / "studio" / "config.xml").read_text(encoding="utf-8")
    assert all(f'"{title}: ' in configuration for title in titles)
    label(store, lambda stage, values, page: values)
    store.close()
    steps, *_ = export(store)
    (line,) = steps.read_text().splitlines()
    assert {*record} - {"unverified"} <= json.loads(line).keys()
    agreement = (steps.parent / "agreement.csv").read_text()
    audit = (steps.parent / "audit.csv").read_text()
    for title in titles:
        assert f"\n{title}: kept as it is," in agreement
        assert f"\n{title}: supported," in agreement
        name = title.lower().replace(" ", "_")
        assert f"\ncandidates_rewritten_for_hindsight_{name}," in audit
    assert agreement.count(": supported,") == audit.count("\ncandidates_rewritten") == 3
    assert re.search("rewritten_for_hindsight_.*,6.1,.*\n.*,13.7,", audit)


def test_invalid_values_are_refused(source):
    store = start(source)
    changes = (
        {"local_intent": "  "},
        {"end_sec": "nan"},
        {"end_sec": "9"},
        {"supported_local_intent": ""},
    )
    with visited(store) as client:
        initial = unchanged(client.page.text)
        assert [
            change for change in changes if post(client, **initial | change).status_code != 422
        ] == []
