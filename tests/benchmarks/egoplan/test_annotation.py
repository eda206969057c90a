import json
import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from annotation.serving import enter, form_in, post, served
from example_record import RECORD
from lmms_egoplan.annotation.serve import media_folder, open_store
from lmms_egoplan.benchmarks.egoplan.annotation import DISAGREE, FLOW, OTHER, SERVED, read_items
from lmms_egoplan.benchmarks.egoplan.records import read_annotations
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import count_video_frames, read_video_frames
from lmms_egoplan.next_action.records import EGO4D, EPIC_KITCHENS
from media.files import read_number, write_epic_folder, write_numbered_video
from patience import wait_until


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
    """Six questions with their frames."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_epic_folder(tmp_path / "epic" / "P01" / "rgb_frames" / "P01_02", 1, 40)
    write_numbered_video(tmp_path / "ego4d" / "0a1b-2c.mp4", 30)
    questions = [question(number, "EpicKitchens", "P01_02", 10 + 5 * number, (2, 9), (8, 45)) for number in range(1, 5)]
    questions += [question(5, "EpicKitchens", "P01_02", 1), question(6, "Ego4D", "0a1b-2c", 20, (4, 12))]
    (tmp_path / "built.json").write_text(json.dumps({"EgoPlan_validation": questions}))
    return tmp_path


def start(folder, annotators=2, per_item=2, **settings):
    roots = {EPIC_KITCHENS: folder / "epic", EGO4D: folder / "ego4d"}
    items = folder / "built.json"
    db = folder / "labels.sqlite"
    return open_store(FLOW, db, lambda _: read_items(items, roots), str(items), annotators, per_item, **settings)


def verify(store, choose):
    with served(store, FLOW) as address:
        for known in store.progress():
            client = enter(address, store, known.person)
            while 'id="label"' in client.page.text:
                goal = re.search(r"goal (\d+)", client.page.text)[1]
                assert post(client, **choose(known.person, int(goal))).status_code == 200


def export(store):
    done = CliRunner().invoke(
        app, ["annotate", "export", "--db", str(store.path), "--out", str(store.path.parent / "out")]
    )
    assert done.exit_code == 0, done.output
    rows = [line.split(",") for line in (store.path.parent / "out" / "rejected.csv").read_text().splitlines()[1:]]
    return {int(row[0]): row[1] for row in rows}, done.output


def test_kept_are_questions_on_which_all_agree_with_the_record(source):
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
    rejected, output = export(store)
    assert rejected == {1: OTHER, 2: DISAGREE, 3: "skipped: unclear"}
    assert "Questions kept: 3 of 6" in output
    verified = source / "out" / "EgoPlan_validation.json"
    assert {record.sample_id for record in read_annotations(verified, "val")} == {4, 5, 6}
    assert all(record["note"] == "kept as it is" for record in json.loads(verified.read_text())["EgoPlan_validation"])
    command = ["data", "prepare", "egoplan", str(verified), "--split", "val"]
    done = CliRunner().invoke(
        app, [*command, "--epic-kitchens", str(source / "epic"), "--ego4d", str(source / "ego4d")]
    )
    assert done.exit_code == 0, done.output


def test_the_clip_ends_exactly_at_the_observation(source):
    store = start(source)
    folder = media_folder(store.path)
    for item in store.items():
        form = FLOW.form(item.shown, (), 0)
        number = int(item.id)
        observation = {5: 1, 6: 20}.get(number, 10 + 5 * number)
        assert len(form.media) == (1 if number == 5 else 2)
        assert read_number(folder_image(folder.file(form.media[-1]))) == observation
        if number != 5:
            path = folder.file(form.media[0])
            frames = [read_number(frame) for frame in read_video_frames(path, range(count_video_frames(path)))]
            assert frames[-1] == max(frames) == observation
            assert frames[0] >= {6: 4}.get(number, 2)
    store.close()


def folder_image(path):
    from PIL import Image

    return Image.open(path).convert("RGB")


def test_the_server_sends_clips_in_ranges_and_no_answer(source):
    store = start(source)
    with served(store, FLOW) as address:
        client = enter(address, store, "annotator-1")
        while "<video" not in client.page.text:
            post(client, choice="A")
        assert "golden" not in client.page.text
        clip = re.search(r'<video src="([^"]+)"', client.page.text)[1]
        answer = client.get(clip, headers={"Range": "bytes=0-99"})
        assert (answer.status_code, len(answer.content), answer.headers["content-type"]) == (206, 100, "video/mp4")
    store.close()


def test_a_video_that_is_gone_is_told_without_its_path(source):
    store = start(source)
    (source / "ego4d" / "0a1b-2c.mp4").unlink()
    with served(store, FLOW) as address:
        lead = enter(address, store, "lead")
        answer = lead.get(f"/item/{store.positions()['6']}/0")
        assert (answer.status_code, "cannot be shown" in answer.text) == (404, True)
        assert str(source) not in answer.text
    store.close()


def test_the_order_of_choices_is_the_annotators_own_and_stays(source):
    store = start(source, annotators=6, per_item=6)
    orders = Counter()
    with served(store, FLOW) as address:
        for known in store.progress():
            client = enter(address, store, known.person)
            order = tuple(re.findall(r'name="choice" value="([A-D])"', client.page.text))
            assert sorted(order) == ["A", "B", "C", "D"]
            assert order == tuple(re.findall(r'name="choice" value="([A-D])"', client.get("/").text))
            orders[order] += 1
    assert len(orders) > 1
    store.close()


def test_a_skip_needs_its_reason(source):
    store = start(source)
    with served(store, FLOW) as address:
        client = enter(address, store, "annotator-1")
        assert post(client, choice="skip").status_code == 422
        assert form_in(client.page.text)[0]
        assert post(client, choice="skip", reason="ambiguous").status_code == 200
    store.close()


def test_questions_of_the_qualification_are_not_kept(source):
    store = start(source, qualification=2, seniors=2)
    verify(store, lambda person, goal: {"choice": RECORD["golden_choice_idx"]})
    for person in ("annotator-1", "annotator-2"):
        for senior in ("senior-1", "senior-2"):
            store.judge_qualification(person, senior, True, "")
    verify(store, lambda person, goal: {"choice": RECORD["golden_choice_idx"]})
    store.close()
    rejected, output = export(store)
    assert [*rejected.values()] == [SERVED, SERVED]
    assert "Questions kept: 4 of 6" in output


def test_labels_of_those_who_did_not_pass_do_not_count(source):
    store = start(source, qualification=2, seniors=2)
    verify(store, lambda person, goal: {"choice": RECORD["golden_choice_idx"]})
    for senior in ("senior-1", "senior-2"):
        store.judge_qualification("annotator-1", senior, True, "")
        store.judge_qualification("annotator-2", senior, True, "")
    verify(store, lambda person, goal: {"choice": RECORD["golden_choice_idx"]})
    store.judge_qualification("annotator-2", "senior-1", False, "seen later")
    store.close()
    assert "Questions kept: 0 of 6" in export(store)[1]


def test_all_of_it_can_be_moved(source, tmp_path_factory):
    start(source).close()
    source = source.rename(tmp_path_factory.mktemp("elsewhere") / "moved")
    store = start(source)
    for media in FLOW.form(store.item(0).shown, (), 0).media:
        assert media_folder(store.path).file(media).is_relative_to(source)
    store.close()


def test_missing_frames_are_told(source):
    (source / "ego4d" / "0a1b-2c.mp4").unlink()
    with pytest.raises(LmmsEgoplanError, match=r"0a1b-2c\.mp4"):
        start(source)


def test_the_next_clip_is_cut_ahead(source):
    store = start(source)
    with served(store, FLOW) as address:
        enter(address, store, "annotator-1")
        item, _ = store.upcoming("annotator-1")
        assert item.id != store.next_slot("annotator-1").item.id
        wait_until(lambda: len(list(media_folder(store.path)._folder.glob("*.mp4"))) == 1)
        (made,) = media_folder(store.path)._folder.glob("*.mp4")
        (clip, _) = FLOW.form(item.shown, (), 0).media
        assert media_folder(store.path).file(clip) == made
    store.close()
