"""Check that derived questions look like EgoPlan's, and that their rendered media can be prepared."""

import pytest

from benchmarks.egoplan.derived_questions import DATA, available, derive, render_media
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.splits import EGOPLAN

pytestmark = pytest.mark.skipif(not available(), reason=f"needs the public annotations in {DATA}")

COUNT = 220


@pytest.fixture(scope="module")
def records():
    return derive(COUNT)


def test_same_records_every_time(records):
    assert derive(COUNT) == records


def test_records_cover_both_sources(records):
    sources = [record["video_source"] for record in records]
    assert sources.count(EGO4D) == sources.count(EPIC_KITCHENS) == COUNT // 2


def test_wrong_choices_are_other_steps(records):
    for record in records:
        choices = {record[f"choice_{letter}"] for letter in "abcd"}
        assert len(choices) == 4
        assert record["answer"] == record[f"choice_{record['golden_choice_idx'].lower()}"]


def test_gold_letters_are_spread(records):
    letters = [record["golden_choice_idx"] for record in records]
    assert all(letters.count(letter) > COUNT // 8 for letter in "ABCD")


def test_rendered_media_can_be_prepared_and_read(records, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    rendered = render_media(records, tmp_path / "media")
    summary = prepare_egoplan(
        rendered.annotations, "val", Media({"EpicKitchens": rendered.epic_kitchens, "Ego4D": rendered.ego4d})
    )
    assert summary["questions"] == summary["split_size"] == COUNT
    dataset = EGOPLAN.load("val")
    for row in (*dataset.select(range(0, COUNT, 20)), dataset[COUNT - 1]):
        assert len(visuals.EGOPLAN.visual_input(row, {"media": "frames", "num_frames": 8})) <= 8
        settings = {"media": "clips", "num_clips": 4, "frames_per_clip": 8}
        *clips, observation = visuals.EGOPLAN.visual_input(row, settings)
        assert len(clips) == min(4, len(row["past_actions"]))
        assert observation.size == (64, 48)
