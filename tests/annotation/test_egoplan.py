import json
import re
import signal
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest

from annotation.rating import study_of
from annotation.serving import enter, export, form_in, label_all, post, run, served, visited
from annotation.studies import open_store
from example_record import RECORD
from lmms_egoplan.annotation.egoplan import FLOW, read_items
from lmms_egoplan.annotation.flow import Label, Labelled
from lmms_egoplan.annotation.serve import Team, media_folder
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations
from lmms_egoplan.benchmarks.egoplan.verification import (
    AGREED,
    DISAGREE,
    LEAD_KEEPS,
    LEAD_REJECTS,
    LEAD_SKIPS,
    OPEN,
    OTHER,
    SERVED,
    read_checked,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import count_video_frames, frame_path, read_video_frames
from media.files import read_number, write_epic_folder, write_numbered_video
from patience import wait_until
from ports import free_port


def question(sample_id, source, video_id, observation, *past):
    return RECORD | {
        "sample_id": sample_id,
        "video_source": source,
        "video_id": video_id,
        "task_goal": f"goal {sample_id}",
        "current_observation_frame": observation,
        "note": "kept as it is",
        "task_progress_metadata": [
            {"narration_text": f"step {i}", "start_frame": start, "stop_frame": stop}
            for i, (start, stop) in enumerate(past)
        ],
    }


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Write six questions with their frames."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_epic_folder(tmp_path / "epic" / "P01" / "rgb_frames" / "P01_02", 1, 40)
    write_numbered_video(tmp_path / "ego4d" / "0a1b-2c.mp4", 30)
    questions = [
        question(number, "EpicKitchens", "P01_02", 10 + 5 * number, (2, 9), (8, 45))
        for number in range(1, 5)
    ]
    questions += [
        question(5, "EpicKitchens", "P01_02", 1),
        question(6, "Ego4D", "0a1b-2c", 20, (4, 12)),
    ]
    (tmp_path / "built.json").write_text(json.dumps({"EgoPlan_validation": questions}))
    return tmp_path


def start(folder, annotators=2, per_item=2, skip_missing=False, qualification=None):
    roots = {EPIC_KITCHENS: folder / "epic", EGO4D: folder / "ego4d"}
    items = folder / "built.json"
    db = folder / "labels.sqlite"
    team = Team(annotators, per_item, qualification)
    read = partial(read_items, items, roots, skip_missing=skip_missing)
    return open_store(FLOW, db, lambda _: read(), str(items), team, skip_missing=skip_missing)


def verify(store, choose):
    label_all(store, lambda person, page: choose(person, int(re.search(r"goal (\d+)", page)[1])))


def verify_alike(store):
    verify(store, lambda *_: {"choice": RECORD["golden_choice_idx"]})


def rejected(store):
    """Return the rejection reasons by question, and the output of the export."""
    output, out = export(store)
    rows = [line.split(",") for line in (out / "rejected.csv").read_text().splitlines()[1:]]
    return {int(row[0]): row[1] for row in rows}, output


def test_questions_are_kept_if_all_choose_the_recorded_answer(source):
    golden = RECORD["golden_choice_idx"]
    other = next(letter for letter in "ABCD" if letter != golden)
    store = start(source)

    def choose(person, goal):
        if goal == 1:
            return {"choice": other}
        if goal == 2:
            return {"choice": golden if person == "annotator-1" else other}
        if goal == 3 and person == "annotator-2":
            return {"choice": "skip", "reason": "unclear"}
        return {"choice": golden, "reason": "unclear"}

    verify(store, choose)
    store.close()
    reasons, output = rejected(store)
    assert reasons == {1: OTHER, 2: DISAGREE, 3: "skipped: unclear"}
    assert "3 of 6" in output
    verified = source / "out" / "EgoPlan_validation.json"
    assert {record.sample_id for record in read_annotations(verified, "val")} == {4, 5, 6}
    assert all(
        record["note"] == "kept as it is"
        for record in json.loads(verified.read_text())["EgoPlan_validation"]
    )
    media = ("--epic-kitchens", source / "epic", "--ego4d", source / "ego4d")
    assert run("data", "prepare", "egoplan", verified, "--split", "val", *media)[0] == 0


def test_the_lead_keeps_and_rejects_questions(source):
    golden = RECORD["golden_choice_idx"]
    other = next(letter for letter in "ABCD" if letter != golden)
    store = start(source)
    for person in ("annotator-1", "annotator-2"):
        while slot := store.assignments.next_slot(person):
            choice = golden if int(slot.item.id) > 4 or person == "annotator-1" else other
            store.save(slot, f"form {slot.id}", {"choice": choice})
    decisions = {
        1: {"choice": golden},
        2: {"choice": other},
        3: {"choice": "skip", "reason": "unclear"},
    }
    with served(store) as address:
        lead = enter(address, store, "lead")
        for number, values in decisions.items():
            lead.page = lead.get(f"/adjudicate/{store.positions()[str(number)]}")
            assert "Recorded answer" in lead.page.text
            assert post(lead, **values).status_code == 200
    store.close()
    reasons, output = rejected(store)
    assert reasons == {2: LEAD_REJECTS, 3: f"{LEAD_SKIPS}: unclear", 4: DISAGREE}
    assert "3 of 6" in output
    assert re.search(r"kept by the lead's decision; .*: 1$", output, re.MULTILINE)
    rows = (source / "out" / "rejected.csv").read_text()
    assert f"lead:{other}" in rows
    checked = read_checked([source / "out"])
    assert {number: reason for (number, _), reason in checked.items()} == {
        1: LEAD_KEEPS, 2: LEAD_REJECTS, 3: LEAD_SKIPS, 4: DISAGREE, 5: AGREED, 6: AGREED,
    }  # fmt: skip
    # A question that was kept by the lead's decision can be verified again.
    roots = {EPIC_KITCHENS: source / "epic", EGO4D: source / "ego4d"}
    items = read_items(source / "out" / "EgoPlan_validation.json", roots)
    labels = {
        item.id: [Label(item.id, "verify", "Ann", {"choice": golden}, "", None, "")]
        for item in items
    }
    again = FLOW.export(
        Labelled(study_of(FLOW, 1, 1), items, labels, ["Ann"], ["Ann"], frozenset())
    ).files["EgoPlan_validation.json"]
    (source / "again").mkdir()
    (source / "again" / "EgoPlan_validation.json").write_text(again.text)
    assert {*read_checked([source / "again"]).values()} == {AGREED}


def test_a_senior_sees_counts_and_first_the_rows_that_differ(source):
    golden = RECORD["golden_choice_idx"]
    other = next(letter for letter in "ABCD" if letter != golden)
    store = start(source, qualification=4)
    wrong = sorted(int(item.id) for item in store.items()[:4])[2]
    with served(store) as address:
        client = enter(address, store, "annotator-1")
        post(client, "/skip/", reason="too dark")
        skipped = store.labelled().skips[0].item
        while 'id="label"' in client.page.text:
            number = int(re.search(r"goal (\d+)", client.page.text)[1])
            post(client, choice=other if number == wrong else golden)
        senior = enter(address, store, "senior-1")
        assert re.search(r"<strong>[23] of 3 agree with the record", senior.page.text)
        assert "Skipped: 1." in senior.page.text
        marks = re.findall(r">(agrees|differs|none)<", senior.page.text)
        number_wrong = int(skipped != str(wrong))
        assert marks == ["differs"] * number_wrong + ["agrees"] * (3 - number_wrong) + ["none"]
        assert post(senior, "/qualify", verdict="pass").status_code == 200
    store.close()


def test_clip_ends_exactly_at_the_observation(source):
    store = start(source)
    folder = media_folder(store.database.path)
    for item in store.items():
        form = FLOW.form(item.contents)
        number = int(item.id)
        observation = {5: 1, 6: 20}.get(number, 10 + 5 * number)
        assert len(form.media) == (1 if number == 5 else 2)
        assert read_number(folder_image(folder.file(form.media[-1]))) == observation
        if number != 5:
            path = folder.file(form.media[0])
            frames = [
                read_number(frame)
                for frame in read_video_frames(path, range(count_video_frames(path)))
            ]
            assert frames[-1] == max(frames) == observation
            assert frames[0] >= {6: 4}.get(number, 2)
    store.close()


def folder_image(path):
    from PIL import Image

    return Image.open(path).convert("RGB")


def test_server_sends_clips_in_ranges_but_no_answer(source):
    store = start(source)
    with visited(store) as client:
        while "<video" not in client.page.text:
            post(client, choice="A")
        assert "golden" not in client.page.text
        clip = re.search(r'<video src="([^"]+)"', client.page.text)[1]
        answer = client.get(clip, headers={"Range": "bytes=0-99"})
        assert (answer.status_code, len(answer.content), answer.headers["content-type"]) == (
            206,
            100,
            "video/mp4",
        )


def test_missing_video_returns_404(source):
    store = start(source)
    (source / "ego4d" / "0a1b-2c.mp4").unlink()
    with visited(store, "lead") as lead:
        answer = lead.get(f"/item/{store.positions()['6']}/0")
        assert answer.status_code == 404
        assert str(source) not in answer.text


def test_order_of_choices_is_personal_and_stable(source):
    store = start(source, annotators=6, per_item=6)
    orders = Counter()
    with served(store) as address:
        for progress in store.progress():
            client = enter(address, store, progress.person)
            order = tuple(re.findall(r'name="choice" value="([A-D])"', client.page.text))
            assert sorted(order) == ["A", "B", "C", "D"]
            assert order == tuple(
                re.findall(r'name="choice" value="([A-D])"', client.get("/").text)
            )
            orders[order] += 1
    assert len(orders) > 1
    store.close()


def test_skip_needs_a_reason(source):
    store = start(source)
    with visited(store) as client:
        assert post(client, choice="skip").status_code == 422
        assert form_in(client.page.text)[0]
        assert post(client, choice="skip", reason="ambiguous").status_code == 200


def test_qualification_questions_and_labels_of_failed_annotators_do_not_count(source):
    store = start(source, qualification=2)
    verify_alike(store)
    for person in ("annotator-1", "annotator-2"):
        for senior in ("senior-1", "senior-2"):
            store.judge_qualification(person, senior, passed=True)
    verify_alike(store)
    reasons, output = rejected(store)
    assert [*reasons.values()] == [SERVED, SERVED]
    assert "4 of 6" in output
    store.judge_qualification("annotator-2", "senior-1", "seen later", passed=False)
    assert "0 of 6" in rejected(store)[1]
    store.close()


def test_database_items_and_media_can_be_moved(source, tmp_path_factory):
    start(source).close()
    source = source.rename(tmp_path_factory.mktemp("elsewhere") / "moved")
    store = start(source)
    for media in FLOW.form(store.assignments.item(0).contents, (), 0).media:
        assert media_folder(store.database.path).file(media).is_relative_to(source)
    store.close()


def test_skip_missing_skips_items_without_media(source, log):
    video = source / "ego4d" / "0a1b-2c.mp4"
    frame = frame_path(source / "epic" / "P01" / "rgb_frames" / "P01_02", 30)
    video.rename(source / "away.mp4")
    with pytest.raises(LmmsEgoplanError, match=r"0a1b-2c\.mp4(.|\n)*--skip-missing"):
        start(source)
    start(source, skip_missing=True).close()
    assert any("0a1b-2c.mp4" in line for line in log)
    (source / "away.mp4").rename(video)
    frame.unlink()
    with pytest.raises(LmmsEgoplanError, match="--skip-missing"):
        start(source)
    store = start(source, skip_missing=True)
    assert {item.id for item in store.items()} == {"1", "2", "3", "4", "5"}
    with served(store) as address:
        for name in ("annotator-1", "annotator-2"):
            client, kinds = enter(address, store, name), Counter()
            while 'id="label"' in client.page.text:
                pictures = re.findall(r'src="([^"]+/media/[^"]+)"', client.page.text)
                is_seen = all(client.get(picture).status_code == 200 for picture in pictures)
                kinds[is_seen] += 1
                sent = (
                    {"choice": RECORD["golden_choice_idx"]}
                    if is_seen
                    else {"reason": "cannot be seen"}
                )
                assert post(client, "/label/" if is_seen else "/skip/", **sent).status_code == 200
            assert (kinds[True], kinds[False]) == (4, 1)
    store.close()
    reasons, output = rejected(store)
    assert (reasons, "4 of 5" in output) == ({4: OPEN}, True)
    assert len((source / "out" / "skipped.jsonl").read_text().splitlines()) == 2


def command(source, *options):
    items, db = source / "built.json", source / "labels.sqlite"
    roots = ["--epic-kitchens", source / "epic", "--ego4d", source / "ego4d"]
    return [str(word) for word in ("annotate", "egoplan", items, "--db", db, *roots, *options)]


@pytest.mark.parametrize("number", ["0", "3"])
def test_qualification_is_fixed(source, number):
    start(source, qualification=2).close()
    code, output = run(*command(source, "--qualification", number))
    assert code == 1
    assert all(fact in output for fact in (f"--qualification {number}", "2"))


@pytest.mark.nightly
def test_cut_creates_all_clips_before_the_page_opens(source):
    frame = frame_path(source / "epic" / "P01" / "rgb_frames" / "P01_02", 30)
    frame.write_bytes(frame.read_bytes()[:50])
    options = [
        "--qualification",
        0,
        "--annotators",
        2,
        "--cut",
        "--height",
        32,
        "--port",
        free_port(),
    ]
    words = [sys.executable, "-m", "lmms_egoplan", *command(source, *options)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        lines = []
        while "labels.sqlite" not in "".join(lines):
            lines.append(server.stdout.readline())
        files = list((source / "labels.sqlite.media").iterdir())
        server.send_signal(signal.SIGINT)
    assert sum("/enter/" in line for line in lines) == 3
    # Five questions have a clip. One has a damaged observation and a damaged clip.
    assert {"11", "2"} <= {*re.findall(r"\d+", lines[0])}
    assert frame.name in lines[1]
    assert len(files) == 9


def test_skip_missing_still_refuses_other_items(source):
    start(source).close()
    built = json.loads((source / "built.json").read_text())
    built["EgoPlan_validation"][2]["task_goal"] = "another goal"
    (source / "built.json").write_text(json.dumps(built))
    with pytest.raises(LmmsEgoplanError, match=r"labels\.sqlite"):
        start(source, skip_missing=True)
    for index, question in enumerate(built["EgoPlan_validation"]):
        question["sample_id"] += 100 + index
    (source / "built.json").write_text(json.dumps(built))
    with pytest.raises(LmmsEgoplanError, match=r"labels\.sqlite"):
        start(source, skip_missing=True)


def test_next_clip_is_created_in_advance(source):
    store = start(source)
    with visited(store):
        item, _, _ = store.assignments.upcoming("annotator-1")
        assert item.id != store.assignments.next_slot("annotator-1").item.id
        wait_until(lambda: len(list(media_folder(store.database.path)._folder.glob("*.mp4"))) == 1)
        (path,) = media_folder(store.database.path)._folder.glob("*.mp4")
        (clip, _) = FLOW.form(item.contents).media
        assert media_folder(store.database.path).file(clip) == path
