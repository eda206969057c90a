"""Test the training demo: its rendered sets, and learning by a tiny model."""

import random
import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations
from lmms_egoplan.cli import app
from lmms_egoplan.training.egoplan import captions, demo, rendered
from lmms_egoplan.training.egoplan.data import find_frames, read_instructions
from lmms_egoplan.training.egoplan.worlds import procedures, vary


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendered")
    rendered.write_tuning_data(folder, seed=1)
    rendered.write_questions(folder, seed=1)
    return folder


@pytest.mark.nightly
def test_sets_have_the_published_format_and_all_frames(sets):
    from lmms_egoplan.training.instructions import read_instructions as read_captions

    records = read_instructions(sets / rendered.TUNING_DATA)
    assert {record.video_source for record in records} == {EPIC_KITCHENS}
    roots = {EPIC_KITCHENS: sets / "epic-kitchens", EGO4D: sets / "ego4d"}
    assert len(find_frames(records, roots, 4, "set")) == len(records) == 300
    assert len(read_captions(sets / rendered.CAPTIONS)) == 60


@pytest.mark.nightly
def test_words_alone_do_not_reveal_the_answer(sets):
    """All steps of a goal are equally often the answer, in the tuning data and in the questions."""
    for records in (
        read_instructions(sets / rendered.TUNING_DATA),
        read_annotations(sets / rendered.ANNOTATIONS, "val"),
    ):
        counts = Counter((record.task_goal, record.answer) for record in records)
        assert len(counts) == 30
        assert len(set(counts.values())) == 1


@pytest.mark.nightly
def test_questions_are_about_other_worlds(sets):
    tuned = {record.video_id for record in read_instructions(sets / rendered.TUNING_DATA)}
    asked = Counter(
        (record.video_source, record.video_id)
        for record in read_annotations(sets / rendered.ANNOTATIONS, "val")
    )
    assert not tuned & {video_id for _, video_id in asked}
    assert len({video_id for _, video_id in asked}) == len(asked) == 36
    assert Counter(source for source, _ in asked) == {EPIC_KITCHENS: 24, EGO4D: 12}


def test_worlds_depend_only_on_the_seed():
    procedure = next(iter(procedures()))
    one, same, other = (
        vary(procedure, random.Random(seed)).frame(50).tobytes() for seed in (1, 1, 2)
    )
    assert one == same != other


def test_captions_name_the_step_before_the_last_frame():
    drawn = [captions.draw(random.Random(seed), num_frames=4) for seed in range(20)]
    steps = {procedure.goal: procedure.steps for procedure in procedures()}
    for caption in drawn:
        assert caption.text == captions.NOTHING or caption.text in steps[caption.goal][:-1]
        assert len(caption.frames) == (1 if caption.text == captions.NOTHING else 4)
    assert len({caption.text for caption in drawn}) > 10


@pytest.mark.nightly
def test_tiny_model_learns_to_plan(tmp_path, monkeypatch):
    """With half of the demo's updates."""
    monkeypatch.setattr(demo, "_CAPTION_UPDATES", [350, 125])
    monkeypatch.setitem(demo._SETTINGS, "steps", 110)
    result = CliRunner().invoke(
        app, ["train", "demo", "--out", str(tmp_path / "demo")], env={"COLUMNS": "120"}
    )
    assert result.exit_code == 0, result.output
    accuracies = dict(re.findall(r"│ ([a-z, ]+?) +│.*?│ +([0-9.]+) +│\n", result.stdout))
    before, tuned, blind = (
        float(accuracies[name]) for name in ("before tuning", "tuned", "tuned, without the video")
    )
    assert tuned > max(before, blind, 25) + 10
    assert (tmp_path / "demo" / "report" / "tables" / "egoplan_rendered.csv").is_file()
    assert (tmp_path / "demo" / "egoplan" / rendered.TUNING_DATA).is_file()
