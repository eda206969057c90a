import csv
import math

import pytest
from PIL import Image

from lmms_egoplan.benchmarks.egoplan.prepare import PAPER_COUNTS
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.construction.egoplan.goals import OVERALL, SUBGOAL, Goal
from lmms_egoplan.construction.egoplan.narrations import Action, Video
from lmms_egoplan.construction.egoplan.questions import make_questions
from lmms_egoplan.construction.egoplan.statistics import _free_place, statistics, write_statistics

STEPS = (("take cup", "cup"), ("take tea bag", "tea bag"), ("pour water", "water"), ("stir", ""))


def questions(scene="P01"):
    actions = tuple(
        Action(text, 100 * n, 100 * n + 50, 60 * n, 60 * n + 30, text.split()[0], thing)
        for n, (text, thing) in enumerate(STEPS, 1)
    )
    video = Video(EPIC_KITCHENS, "P01_01", 60, actions, scene=scene)
    goals = [Goal(video, OVERALL, "make a cup of tea", actions), Goal(video, SUBGOAL, "make tea", actions)]
    return make_questions(goals, 0)[0]


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_counts_by_hand():
    """All eight questions have the four actions as choices."""
    found = statistics(questions())
    assert found.counts == (8, 2, 4, 3, 3, 1)
    assert found.verbs == (
        ("take", 16, (("cup", 8), ("tea bag", 8))),
        ("pour", 8, (("water", 8),)),
        ("stir", 8, (("", 8),)),
    )
    assert found.words == (("make", 2), ("tea", 2), ("cup", 1))


def test_scenes_that_nobody_tells_are_empty(tmp_path):
    found = statistics(questions(scene=None))
    assert found.counts[-1] is None
    write_statistics(found, tmp_path)
    assert table(tmp_path / "table_2.csv")[1] == ["built here", "8", "2", "4", "3", "3", ""]


def test_tables_and_pictures_are_written(tmp_path):
    write_statistics(statistics(questions()), tmp_path)
    rows = table(tmp_path / "table_2.csv")
    assert [row[0] for row in rows] == ["split", "built here", "EgoPlan-Val", "EgoPlan-Test", "EgoPlan-Bench"]
    for split, row in (("val", rows[2]), ("test", rows[3])):
        assert [int(cell) for cell in row[1:3]] == [PAPER_COUNTS[split][name] for name in ("questions", "task_goals")]
    assert (tmp_path / "table_2.md").read_text().splitlines()[2] == "| built here | 8 | 2 | 4 | 3 | 3 | 1 |"
    assert table(tmp_path / "figure_4.csv")[1:3] == [["take", "16", "cup", "8"], ["take", "16", "tea bag", "8"]]
    assert table(tmp_path / "figure_5.csv")[1] == ["make", "2"]
    for name in ("figure_4.png", "figure_5.png"):
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 200
            assert len(picture.convert("RGB").getcolors(1 << 24)) > 5


@pytest.mark.parametrize("count", [1, 40, 120])
def test_words_of_the_cloud_do_not_overlap(count):
    boxes = []
    for number in range(count):
        width, height = 30 + 10 * (number % 7), 10 + 3 * (number % 4)
        left, bottom = _free_place(width, height, boxes)
        assert math.isfinite(left)
        for box in boxes:
            assert left + width < box[0] or box[2] < left or bottom + height < box[1] or box[3] < bottom
        boxes.append((left, bottom, left + width, bottom + height))
