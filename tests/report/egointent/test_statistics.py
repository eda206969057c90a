"""Test the counts of EgoIntent's figures with slow references, and that figures need no colour."""

import csv
import random
from io import BytesIO

import numpy as np
from PIL import Image

from benchmarks.egointent.source import raw_record
from lmms_egoplan.benchmarks.egointent.records import Record
from lmms_egoplan.report.egointent.statistics import (
    draw_counts,
    draw_durations,
    duration_bins,
    statistics_files,
    step_counts,
)

PLACES = ("indoor", "outdoor", None)


def steps(count):
    chance = random.Random(count)
    lengths = [chance.choice([0.5, 1.0, 3.3, 9.99, 10.0, 10.01, 40]) for _ in range(count)]
    names = ("cooking", "painting", "gardening")
    records = []
    for number, length in enumerate(lengths):
        scenario = chance.choice(names)
        environment = chance.choice(PLACES)
        record = Record(**raw_record(number, scenario=scenario, environment=environment))
        # 2.2 - 1.7 is above 0.5.
        times = {"start_sec": 1.7, "end_sec": round(1.7 + length, 2)}
        records.append(record.model_copy(update=times))
    return records


def test_files_have_the_counts():
    count = 60
    records = steps(count)
    files = statistics_files(records)
    tables = {
        name: list(csv.reader(text.splitlines()))
        for name, text in files.items()
        if name.endswith("csv")
    }
    assert [*tables] == ["figure_3.csv", "figure_4.csv", "figure_6.csv"]
    for table, group_of in (
        (tables["figure_3.csv"], lambda step: step.environment or "unknown"),
        (tables["figure_4.csv"], lambda step: step.scenario),
    ):
        totals = [sum(map(int, row[1:])) for row in table[1:]]
        assert totals == sorted(totals, reverse=True)
        assert sum(totals) == count
        for name, *cells in table[1:]:
            of_group = [step.environment for step in records if group_of(step) == name]
            assert [int(cell) for cell in cells] == [*map(of_group.count, PLACES)]
    for low, high, number in tables["figure_6.csv"][1:]:
        inside = [
            low
            for step in records
            if float(low) < round(step.end_sec - 1.7, 2) <= float(high or "inf")
        ]
        assert int(number) == len(inside)
    for name in ("figure_3.png", "figure_4.png", "figure_6.png"):
        with Image.open(BytesIO(files[name])) as picture:
            assert min(picture.size) > 150


def test_a_category_replaces_the_scenario_of_goalstep_steps():
    record = Record(**raw_record(1, scenario=None, category="make tea", environment=None))
    files = statistics_files([record])
    assert "make tea,0,0,1" in files["figure_4.csv"]
    assert "unknown,0,0,1" in files["figure_3.csv"]
    assert sum(int(row[2]) for row in csv.reader(files["figure_6.csv"].splitlines()[1:])) == 1


def test_hatches_and_lines_distinguish_the_parts():
    settings = ["indoor", "outdoor", "unknown"] * 4
    (axes,) = draw_counts(step_counts(["a", "b"] * 6, settings), "Steps").axes
    assert len({patch.get_hatch() for patch in axes.patches}) == 3
    (axes,) = draw_durations([0.3, 1.2, 12.0]).axes
    assert len({line.get_linestyle() for line in axes.get_lines()}) == 3
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert "above 10 s: 1 (paper: 183)" in labels
    assert "median duration (s): 1.2 (paper: 1.87)" in labels
    assert sum(bar.get_height() for bar in axes.patches) == 3


def test_bins_equal_numpys_up_to_their_ends():
    durations = np.random.default_rng(0).lognormal(0.6, 1, 500)
    edges = [*np.arange(0, 10.5, 0.5), np.inf]
    assert duration_bins(durations) == np.histogram(durations, edges)[0].tolist()
