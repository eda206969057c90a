import csv
import json
import math
import random
import re
from functools import cache
from io import BytesIO
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import pytest
from PIL import Image

from construction.egoplan.language_model import goals_of, rows_of
from construction.egoplan.small import epic_row, some_videos, write_epic
from lmms_egoplan.benchmarks.egoplan.prepare import PAPER_COUNTS
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.wording import stems
from lmms_egoplan.construction.egoplan.build import Narrations, build
from lmms_egoplan.construction.egoplan.goals import OVERALL, SUBGOAL, Goal, goal_prompt
from lmms_egoplan.construction.egoplan.narrations import (
    Action,
    Video,
    hundredths,
    narration_rows,
    read_epic_kitchens,
    timestamp,
)
from lmms_egoplan.construction.egoplan.questions import (
    evaluation_records,
    instruction_records,
    make_questions,
)
from lmms_egoplan.construction.egoplan.statistics import built_statistics
from lmms_egoplan.judging.usage import LlmUsage
from lmms_egoplan.report.egoplan.statistics import _free_position, statistics_files
from lmms_egoplan.text import csv_text
from shared_data import DATA

STEPS = (("take cup", "cup"), ("take tea bag", "tea bag"), ("pour water", "water"), ("stir", ""))


def questions(scene="P01"):
    actions = tuple(
        Action(text, 100 * n, 100 * n + 50, 60 * n, 60 * n + 30, text.split()[0], thing)
        for n, (text, thing) in enumerate(STEPS, 1)
    )
    video = Video(EPIC_KITCHENS, "P01_01", 60, actions, scene=scene)
    goals = [
        Goal(video, OVERALL, "make a cup of tea", actions),
        Goal(video, SUBGOAL, "make tea", actions),
    ]
    return make_questions(goals, 0)[0]


def table(text):
    return list(csv.reader(text.splitlines()))


def test_counts():
    """The expected counts are computed by hand.

    All eight questions have the four actions as choices.
    """
    stats = built_statistics(questions())
    assert stats.counts == (8, 2, 4, 3, 3, 1)
    assert stats.verbs == (
        ("take", 16, (("cup", 8), ("tea bag", 8))),
        ("pour", 8, (("water", 8),)),
        ("stir", 8, (("", 8),)),
    )
    assert stats.words == (("make", 2), ("tea", 2), ("cup", 1))


def test_unknown_scenes_are_empty():
    stats = built_statistics(questions(scene=None))
    assert stats.counts[-1] is None
    assert table(statistics_files({"built here": stats})["table_2.csv"])[1] == [
        "built here",
        "8",
        "2",
        "4",
        "3",
        "3",
        "",
    ]


def test_tables_and_pictures():
    files = statistics_files({"built here": built_statistics(questions())})
    rows = table(files["table_2.csv"])
    assert [row[0] for row in rows] == [
        "split",
        "built here",
        "EgoPlan-Val",
        "EgoPlan-Test",
        "EgoPlan-Bench",
    ]
    for split, row in (("val", rows[2]), ("test", rows[3])):
        assert [int(cell) for cell in row[1:3]] == [
            PAPER_COUNTS[split][name] for name in ("questions", "task_goals")
        ]
    assert files["table_2.md"].splitlines()[2] == "| built here | 8 | 2 | 4 | 3 | 3 | 1 |"
    assert table(files["figure_4.csv"])[1:3] == [
        ["take", "16", "cup", "8"],
        ["take", "16", "tea bag", "8"],
    ]
    assert table(files["figure_5.csv"])[1] == ["make", "2"]
    for name in ("figure_4.png", "figure_5.png"):
        with Image.open(BytesIO(files[name])) as picture:
            assert min(picture.size) > 200
            assert len(picture.convert("RGB").getcolors(1 << 24)) > 5


@pytest.mark.parametrize("count", [1, 40, 120])
def test_words_of_the_cloud_do_not_overlap(count):
    boxes = []
    for number in range(count):
        width, height = 30 + 10 * (number % 7), 10 + 3 * (number % 4)
        x_left, bottom = _free_position(width, height, boxes)
        assert math.isfinite(x_left)
        for box in boxes:
            assert (
                x_left + width < box[0]
                or box[2] < x_left
                or bottom + height < box[1]
                or box[3] < bottom
            )
        boxes.append((x_left, bottom, x_left + width, bottom + height))


EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
LINKS = {
    "on",
    "in",
    "into",
    "from",
    "to",
    "with",
    "of",
    "off",
    "up",
    "down",
    "out",
    "over",
    "under",
    "at",
    "for",
    "by",
}
LINKS |= {
    "onto",
    "back",
    "away",
    "near",
    "through",
    "insid",
    "behind",
    "between",
    "togeth",
    "about",
    "around",
    "besid",
}
TEXTS = [
    "take plate",
    "take plates",
    "put meat mix",
    "put mix meat",
    "Open the box.",
    "open box",
    "stir",
    "wash cup",
]
TEXTS += [
    "put cup on plate",
    "put plate on cup",
    "turn tap off",
    "turn off tap",
    "dry hands",
    "take lid",
]


def plain(text):
    return " ".join(
        word for word in re.findall(r"\w+", text.lower()) if word not in ("a", "an", "the")
    )


def sides(text):
    words = list(stems(text))
    if len(words) > 2 and words[-1] in LINKS:
        words.insert(1, words.pop())
    starts = [
        0,
        *(position for position, word in enumerate(words) if position > 1 and word in LINKS),
        len(words),
    ]
    return [words[start:stop] for start, stop in pairwise(starts)]


def is_near_equal(first, second):
    pairs = list(zip(sides(first), sides(second), strict=False))
    return len(sides(first)) == len(sides(second)) and all(
        len(side) == len(other_side) and other_side in map(list, permutations(side))
        for side, other_side in pairs
    )


def choices_of(record):
    return [record[f"choice_{letter}"] for letter in "abcd"]


def moment_of(record):
    return record["video_id"], record["current_observation_frame"], record["answer"]


def wrong(record):
    return [choice for choice in choices_of(record) if choice != record["answer"]]


def begins_with_answer(record, narrations, text):
    """Check if an action begins within 0.5 s of the answer, which begins 30 frames after the
    observation.
    """
    rows = [row for row in narrations if row["video_id"] == record["video_id"]]
    answers = [
        hundredths(row["start_timestamp"])
        for row in rows
        if row["narration"] == record["answer"]
        and int(row["start_frame"]) == record["current_observation_frame"] + 30
    ]
    return any(
        plain(row["narration"]) == plain(text)
        and abs(hundredths(row["start_timestamp"]) - answers[0]) <= 50
        for row in rows
    )


def expected(record, scores):
    best = [choice for choice, score in scores.items() if score == max(scores.values())]
    return 1 / len(best) if record["answer"] in best else 0


def reference(records, narrations):
    moments = list(map(moment_of, records))
    near = sum(
        any(is_near_equal(*pair) for pair in combinations(choices_of(record), 2))
        for record in records
    )
    concurrent = sum(
        any(begins_with_answer(record, narrations, text) for text in wrong(record))
        for record in records
    )
    names = (
        "always A",
        "most common action",
        "not done yet",
        "words of the goal",
        "longest choice",
    )
    points = {name: [] for name in names}
    for record in records:
        other_answers = [
            plain(other["answer"]) for other in records if other["video_id"] != record["video_id"]
        ]
        done = {plain(past["narration_text"]) for past in record["task_progress_metadata"]}
        goal = set(stems(record["task_goal"])) - LINKS - {"and", "then"}
        scores = {
            "always A": {text: text == record["choice_a"] for text in choices_of(record)},
            "most common action": {
                text: other_answers.count(plain(text)) for text in choices_of(record)
            },
            "not done yet": {text: plain(text) not in done for text in choices_of(record)},
            "words of the goal": {
                text: len(goal & set(stems(text))) for text in choices_of(record)
            },
            "longest choice": {text: len(text) for text in choices_of(record)},
        }
        for name, values in scores.items():
            points[name].append(expected(record, values))
    return {
        "near-equal": near,
        "concurrent": concurrent,
        "copies": sum(moments.count(moment) > 1 for moment in moments),
    }, {name: sum(values) / len(values) for name, values in points.items()}


class Output(NamedTuple):
    """The files of a build: questions, training samples, narrations, rejections and the summary."""

    records: list
    training: list
    rows: list
    rejections: list
    summary: dict


def built_from(folder, narrations, drop=()):
    """Build questions with goals made by rule."""
    videos, _ = read_epic_kitchens(narrations)
    goals = {video.video_id: goals_of(rows_of(goal_prompt(video))) for video in videos}
    (folder / "goals.json").write_text(json.dumps(goals))
    source, usage = Narrations(narrations, "epic-kitchens"), LlmUsage()
    built = build(source, folder / "goals.json", instruction_data=True, drop=drop, usage=usage)
    return Output(
        list(evaluation_records(built.questions)),
        list(instruction_records(built.questions)),
        list(csv.DictReader(csv_text(narration_rows(built.videos)).splitlines())),
        built.rejections,
        built.summary,
    )


def invent(path, seed):
    """Write videos of random actions, many of them simultaneous or near-equal."""
    generator = random.Random(seed)
    rows = []
    for video_id in ("P01_01", "P01_02", "P02_03"):
        start = 100
        for _ in range(40):
            start += generator.choice([0, 20, 50, 51, 300])
            times = {"start_timestamp": timestamp(start), "stop_timestamp": timestamp(start + 200)}
            frames = {"start_frame": start * 60 // 100, "stop_frame": (start + 200) * 60 // 100}
            rows.append(epic_row(video_id, narration=generator.choice(TEXTS), **times, **frames))
    return write_epic(path, rows)


nightly = pytest.mark.nightly
SEEDS = [0, pytest.param(1, marks=nightly), pytest.param(2, marks=nightly)]


@pytest.fixture(scope="module")
def invented(tmp_path_factory):
    """Return a function from a seed to invented narrations, and to the questions that are built
    from all of them.
    """

    @cache
    def invented(seed):
        folder = tmp_path_factory.mktemp("invented")
        narrations = invent(folder / "invented.csv", seed)
        return narrations, built_from(folder, narrations)

    return invented


def check_counts_and_baselines(output):
    """Compare a summary with the slow reference, and return the reference's counts of kinds."""
    counts, accuracies = reference(output.records, output.rows)
    summary = output.summary
    assert {kind: summary["kinds_to_drop"][kind] for kind in counts} == counts
    baselines = summary["accuracy_without_video"]
    assert (baselines["n"], baselines["chance"]) == (len(output.records), 0.25)
    assert {name: baselines[name] for name in accuracies} == pytest.approx(accuracies, abs=1e-4)
    return counts


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_and_baselines_match_a_slow_reference(invented, seed):
    assert min(check_counts_and_baselines(invented(seed)[1]).values()) > 0


@pytest.mark.nightly
@pytest.mark.skipif(not EPIC.exists(), reason=f"needs {EPIC}")
def test_counts_and_baselines_of_real_narrations_match_a_slow_reference(tmp_path):
    check_counts_and_baselines(built_from(tmp_path, some_videos(tmp_path, EPIC, 6)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["near-equal", "concurrent", "copies"])
def test_only_dropped_kinds_are_absent(tmp_path, invented, seed, kind):
    narrations, output = invented(seed)
    fewer = built_from(tmp_path, narrations, [kind])
    before, after, rows = output.records, fewer.records, output.rows
    assert fewer.summary["kinds_to_drop"][kind] == 0 == reference(after, rows)[0][kind]
    assert fewer.summary["dropped"] == [kind]
    moments_before, moments_after = list(map(moment_of, before)), list(map(moment_of, after))
    if kind == "copies":
        assert sorted(moments_after) == sorted(set(moments_before))
        return
    assert set(moments_after) <= set(moments_before)
    for record in fewer.training:
        for number, text in enumerate(record["negative_answers"]):
            earlier_texts = [record["answer"], *record["negative_answers"][:number]]
            assert kind != "near-equal" or not any(
                is_near_equal(text, earlier) for earlier in earlier_texts
            )
            assert kind != "concurrent" or not begins_with_answer(record, rows, text)
    # Questions without such an action have the same choices as before.
    unnumbered_after = [record | {"sample_id": 0} for record in after]
    assert sum(record | {"sample_id": 0} in unnumbered_after for record in before) > 0.1 * len(
        before
    )
    assert any(rejection.step == "choice" for rejection in fewer.rejections)
