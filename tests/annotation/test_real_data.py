"""Label published data, from reading items to the commands that read the export."""

import json
import math
import re
from html import unescape

import pytest

from annotation import serving
from annotation.studies import open_store
from lmms_egoplan.annotation.egointent import FLOW as STEPS
from lmms_egoplan.annotation.egointent import read_items as read_steps
from lmms_egoplan.annotation.egoplan import FLOW as QUESTIONS
from lmms_egoplan.annotation.egoplan import read_items as read_questions
from lmms_egoplan.annotation.egothink import FLOW as ANSWERS
from lmms_egoplan.annotation.egothink import read_items as read_answers
from lmms_egoplan.annotation.serve import Team, media_folder
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.egointent.records import read_annotations
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.media.frames import count_video_frames, read_video_frames
from media.files import read_number, write_numbered_video
from shared_data import DATA

GOALSTEP = DATA / "ego4d-goalstep" / "goalstep_valid_public.json"
EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
# The Goal-Step video with the most steps per minute.
VIDEO = "54337e20"


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))


def needs(path):
    if not path.exists():
        pytest.skip(f"needs the published data in {path}")
    return path


def run(*arguments):
    code, output = serving.run(*arguments)
    assert code == 0, output
    return output


def label(store, values_of):
    """Label all items as all annotators. `values_of` maps item and page to the values."""

    def of(name, page):
        number = int(re.search('/label/([0-9]+)"', page)[1])
        return values_of(store.assignments.slot(number, name).item, page)

    serving.label_all(store, of)
    store.close()


@pytest.mark.nightly
def test_all_egothink_answers(tmp_path):
    run("data", "prepare", "egothink", needs(DATA / "egothink"))
    rows = [
        row
        for dimension in DIMENSIONS
        for row in EGOTHINK.load(dimension.name).remove_columns("image")
    ]
    assert len(rows) == 700
    answers = tmp_path / "model.jsonl"
    lines = [
        # Every other answer belongs to the next question.
        {
            "id": row["id"],
            "answer": rows[(index + index % 2) % 700]["answer"],
            "rating": 1.0 - index % 2,
            "judge": "j",
        }
        for index, row in enumerate(rows)
    ]
    answers.write_text(
        "".join(json.dumps(line | {"judgement": f"[[{line['rating']}]]"}) + "\n" for line in lines)
    )
    db = tmp_path / "labels.sqlite"
    store = open_store(
        ANSWERS, db, lambda folder: read_answers([answers], folder, [answers]), "items", Team(1, 1)
    )

    def rate(_, page):
        _, reference, answer = (
            unescape(text)
            for text in re.findall(r'<p class="prose" dir="auto">(.*?)</p>', page, re.S)
        )
        return {"rating": "1" if answer == reference else "0"}

    label(store, rate)
    assert "700 of 700" in run("annotate", "export", db, "--out", tmp_path / "out")
    for name in ("annotators", "ratings", "pooled"):
        output = run(
            "agreement", "egothink", answers, "--human", tmp_path / "out" / f"model-{name}.csv"
        )
        assert output.count("700") >= 2
    run("report", tmp_path / "out", "--out", tmp_path / "report")
    assert "People, model" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.nightly
def test_goalstep_steps(tmp_path):
    content = json.loads(needs(GOALSTEP).read_text())
    (video,) = (video for video in content["videos"] if video["video_uid"].startswith(VIDEO))
    fps, videos = 6, tmp_path / "videos"
    write_numbered_video(
        videos / f"{video['video_uid']}.mp4", math.ceil(fps * video["end_time"]), fps=fps
    )
    run(
        "data",
        "build",
        "egointent",
        GOALSTEP,
        "--videos",
        videos,
        "--out",
        tmp_path / "steps.jsonl",
    )
    steps, db = tmp_path / "steps.jsonl", tmp_path / "labels.sqlite"
    store = open_store(STEPS, db, lambda _: read_steps(steps, videos), "steps", Team(2))
    before = {record.step_id: record for record in read_annotations(steps)}
    assert len(before) > 10
    for item in store.items():
        (clip,) = STEPS.form(item.contents).media
        path = media_folder(db).file(clip)
        (last,) = read_video_frames(path, [count_video_frames(path) - 1])
        assert read_number(last) / fps < before[item.id].end_sec <= (read_number(last) + 1) / fps

    def revise(_, page):
        values = dict(re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', page))
        values = {name: unescape(text) for name, text in values.items()}
        values |= {
            "end_sec": re.search(r'name="end_sec" [^>]*?value="([^"]+)"', page)[1],
            "boundary": "yes",
        }
        return values | {f"supported_{field}": "yes" for field in FIELDS}

    label(store, revise)
    assert f"{len(before)} of {len(before)}" in run(
        "annotate", "export", db, "--out", tmp_path / "out"
    )
    after = {
        record.step_id: record for record in read_annotations(tmp_path / "out" / "steps.jsonl")
    }
    assert after == {
        name: record.model_copy(update={"unverified": False}) for name, record in before.items()
    }
    run("data", "prepare", "egointent", tmp_path / "out" / "steps.jsonl", "--videos", videos)


@pytest.mark.nightly
def test_questions_from_real_narrations(tmp_path):
    """Label questions whose goals are windows of EPIC-KITCHENS' narrations.

    The videos are rendered.
    """
    from benchmarks.egoplan.derived_questions import render_media
    from lmms_egoplan.construction.egoplan.goals import SUBGOAL, Goal
    from lmms_egoplan.construction.egoplan.narrations import read_epic_kitchens
    from lmms_egoplan.construction.egoplan.questions import evaluation_records, make_questions

    needs(DATA / "egothink" / "Activity" / "images")
    goals = [
        Goal(
            video,
            SUBGOAL,
            f"deal with {video.actions[start].object}",
            video.actions[start : start + 8],
        )
        for video in read_epic_kitchens(needs(EPIC))[0][:3]
        for start in range(0, len(video.actions) - 8, 8)
    ]
    records = list(evaluation_records(make_questions(goals, 0)[0][:12]))
    media = render_media(
        [record | {"sample_id": number} for number, record in enumerate(records)],
        tmp_path / "media",
    )
    roots, db = {EPIC_KITCHENS: media.epic_kitchens, EGO4D: None}, tmp_path / "labels.sqlite"
    store = open_store(
        QUESTIONS, db, lambda _: read_questions(media.annotations, roots), "questions", Team(2, 2)
    )
    for item in store.items():
        for part in QUESTIONS.form(item.contents).media:
            assert media_folder(db).file(part).stat().st_size
    label(store, lambda item, page: {"choice": item.hidden["golden"]})
    assert "12 of 12" in run("annotate", "export", db, "--out", tmp_path / "out")
    verified = tmp_path / "out" / "EgoPlan_validation.json"
    run(
        "data",
        "prepare",
        "egoplan",
        verified,
        "--split",
        "val",
        "--epic-kitchens",
        media.epic_kitchens,
    )
