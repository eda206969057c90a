"""Read the golden set of verdicts with every reader, and check the counts in docs/judges.md."""

import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import yaml

from lmms_egoplan.benchmarks.egointent import judge_protocol as egointent
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egothink import judge_protocol as egothink
from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.judging.text import read_rating

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ROWS = yaml.load(Path(__file__).with_name("golden_verdicts.yaml").read_text(encoding="utf-8"), _LOADER)
BY_BENCHMARK = {name: [row for row in ROWS if row["benchmark"] == name] for name in ("egothink", "egointent")}
PUBLISHED = ("authors", "lmms-eval-0.7.3")
JUDGES_PAGE = Path(__file__).parents[2] / "docs" / "judges.md"


def first_match(verdict):
    """Read a verdict as the published pipelines do."""
    match = re.search(r"\[\[(\d+\.?\d*)\]\]", verdict) or re.search(r"\[(\d+\.?\d*)\]", verdict)
    return float(match[1]) if match and float(match[1]) in egothink.LEVELS else None


def field_rating(field, verdict):
    return egointent.read_ratings(verdict).get(field)


def by_field(rating):
    return rating if isinstance(rating, dict) else {"": rating}


def reading(row):
    reply = row["reply"], row["finish"]
    if row["benchmark"] == "egothink":
        return read_rating(egothink.SCALE, *reply)
    if not isinstance(row["rating"], dict):
        return read_rating(egointent.SCALE, *reply)
    scales = {field: RatingScale(partial(field_rating, field), best=100) for field in FIELDS}
    return {field: read_rating(scale, *reply) for field, scale in scales.items()}


def test_the_set_is_large_and_diverse():
    assert len(ROWS) >= 500
    kinds = Counter(row["kind"] for row in ROWS)
    assert kinds["refusal"] >= 60
    assert kinds["cut off"] >= 60
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert len({row["reply"] for row in ROWS}) >= 500
    assert len({(row["benchmark"], row["reply"], row["finish"]) for row in ROWS}) == len(ROWS)
    templates = Counter(re.sub(r"\d*\.?\d+", "#", row["reply"]) for row in ROWS)
    assert sum(count for count in templates.values() if count > 1) <= 0.4 * len(ROWS)


def test_ratings_are_on_the_scale():
    for row in ROWS:
        if isinstance(row["rating"], dict):
            assert (row["benchmark"], tuple(row["rating"])) == ("egointent", FIELDS), row["id"]
        for rating in filter(None, by_field(row["rating"]).values()):
            assert rating in egothink.LEVELS if row["benchmark"] == "egothink" else 0 <= rating <= 100, row["id"]
        for name in PUBLISHED:
            assert (name in row) == (row["benchmark"] == "egothink"), row["id"]


def test_no_rating_is_expected_that_a_person_would_not_read():
    for row in (row for row in ROWS if "reads" in row):
        expected, right = (by_field(row[name]) for name in ("reads", "rating"))
        assert expected != right, row["id"]
        assert all(rating in (None, right[field]) for field, rating in expected.items()), row["id"]


@pytest.mark.parametrize("benchmark", BY_BENCHMARK)
def test_the_benchmarks_reader(benchmark):
    readings = {row["id"]: (reading(row), row.get("reads", row["rating"])) for row in BY_BENCHMARK[benchmark]}
    assert {name: pair for name, pair in readings.items() if pair[0] != pair[1]} == {}


def test_verdicts_on_several_fields_get_the_mean_of_complete_ratings():
    scale = egointent.scale_of(FIELDS)
    several = [row for row in ROWS if isinstance(row["rating"], dict)]
    means = {row["id"]: read_rating(scale, row["reply"], row["finish"]) for row in several}
    for row in several:
        ratings = list(row.get("reads", row["rating"]).values())
        assert means[row["id"]] == (None if None in ratings else pytest.approx(sum(ratings) / 3)), row["id"]


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("is_variant", [False, True], ids=["independent", "variant"])
def test_the_published_pipelines_readers(name, is_variant):
    scale = egothink.PROTOCOLS[name].scale if is_variant else RatingScale(first_match, best=1)
    rows = BY_BENCHMARK["egothink"]
    readings = {row["id"]: (read_rating(scale, row["reply"], row["finish"]), row[name]) for row in rows}
    assert {row: pair for row, pair in readings.items() if pair[0] != pair[1]} == {}


def test_the_page_has_the_current_counts():
    assert counts_table() in JUDGES_PAGE.read_text(encoding="utf-8"), f"expected in docs/judges.md:\n{counts_table()}"


def counts_table():
    """Count the readings of EgoThink's verdicts that differ from the right one, by kind."""
    columns = [
        "kind of verdict",
        "replies",
        "EgoThink here: none read",
        "published: wrong rating",
        "published: none read",
    ]
    lines = [f"| {' | '.join(columns)} |", "|---|---|---|---|---|"]
    counts = {}
    for row in BY_BENCHMARK["egothink"]:
        right, published = row["rating"], row[PUBLISHED[0]]
        differences = (
            row.get("reads", right) != right,
            published not in (None, right),
            published is None and right is not None,
        )
        counts.setdefault(row["kind"], Counter()).update(dict(enumerate((True, *differences))))
    groups = {}
    for kind, count in counts.items():
        groups.setdefault(kind if count[2] else "all others", Counter()).update(count)
    for kind, count in sorted(groups.items(), key=lambda group: (group[0] == "all others", -group[1][2], group[0])):
        lines.append(f"| {' | '.join([kind, *(str(count[index]) for index in range(4))])} |")
    total = sum(groups.values(), Counter())
    lines.append(f"| **total** | {' | '.join(str(total[index]) for index in range(4))} |")
    return "\n".join(lines)
