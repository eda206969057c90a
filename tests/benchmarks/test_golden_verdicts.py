"""Read the golden set of verdicts with every reader."""

import re
from pathlib import Path

import pytest
import yaml

from lmms_egoplan.benchmarks.egointent import judge_protocol as egointent
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.egothink import judge_protocol as egothink
from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.judging.text import is_ended, read_rating, without_thinking

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ROWS = yaml.load(
    Path(__file__).with_name("golden_verdicts.yaml").read_text(encoding="utf-8"), _LOADER
)
BY_BENCHMARK = {
    name: [row for row in ROWS if row["benchmark"] == name] for name in ("egothink", "egointent")
}
PUBLISHED = ("authors", "lmms-eval-0.7.3")


def first_match(verdict):
    """Read a verdict as the published pipelines do."""
    match = re.search(r"\[\[(\d+\.?\d*)\]\]", verdict) or re.search(r"\[(\d+\.?\d*)\]", verdict)
    return float(match[1]) if match and float(match[1]) <= 1 else None


def reading(row):
    reply = row["reply"], row["finish"]
    if row["benchmark"] == "egothink":
        return read_rating(egothink.SCALE, *reply)
    if not isinstance(row["rating"], dict):
        return read_rating(egointent.SCALE, *reply)
    has_ended = read_rating(egointent.scale_of(FIELDS), *reply) is not None or (
        reply[1] is not None and is_ended(reply[1])
    )
    ratings = egointent.read_ratings(without_thinking(row["reply"]) or "") if has_ended else {}
    return {field: ratings.get(field) for field in FIELDS}


@pytest.mark.parametrize("benchmark", BY_BENCHMARK)
def test_the_benchmarks_reader(benchmark):
    readings = {
        row["id"]: (reading(row), row.get("reads", row["rating"]))
        for row in BY_BENCHMARK[benchmark]
    }
    assert {name: pair for name, pair in readings.items() if pair[0] != pair[1]} == {}


def test_verdicts_on_several_fields_get_the_mean_of_complete_ratings():
    scale = egointent.scale_of(FIELDS)
    several = [row for row in ROWS if isinstance(row["rating"], dict)]
    means = {row["id"]: read_rating(scale, row["reply"], row["finish"]) for row in several}
    for row in several:
        ratings = list(row.get("reads", row["rating"]).values())
        assert means[row["id"]] == (None if None in ratings else pytest.approx(sum(ratings) / 3)), (
            row["id"]
        )


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("is_variant", [False, True], ids=["independent", "variant"])
def test_the_published_pipelines_readers(name, is_variant):
    scale = egothink.PROTOCOLS[name].scale if is_variant else RatingScale(first_match, best=1)
    rows = BY_BENCHMARK["egothink"]
    readings = {
        row["id"]: (read_rating(scale, row["reply"], row["finish"]), row[name]) for row in rows
    }
    assert {row: pair for row, pair in readings.items() if pair[0] != pair[1]} == {}
