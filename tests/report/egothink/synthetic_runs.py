"""Write three EgoThink runs, and check the report on them."""

import json
from statistics import fmean
from types import MappingProxyType

import pytest

from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from report.counting import Counting
from report.joined import rows
from report.report_json import ends

COUNT = 12
RUNS = {"a": "First-7B", "b": "Second-7B", "c": "Third-7B"}
CAPABILITIES = {
    "object": ["existence", "attribute", "affordance"],
    "activity": ["activity"],
    "localization": ["location", "spatial"],
    "reasoning": ["counting", "comparison", "situated"],
    "forecasting": ["forecasting"],
    "planning": ["navigation", "assistance"],
}
NAMES = [dimension.name for dimension in DIMENSIONS]


def records(written, run):
    """Read the answers of a run by dimension from its files."""
    records_by_dimension = {name: [] for name in NAMES}
    for path in sorted((written / run).rglob("*samples_egothink*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)["details"]["answer"]
            records_by_dimension[record["id"].split("/")[0]].append(record)
    return records_by_dimension


def score(answers):
    return 100 * fmean(answer["rating"] for answer in answers if answer["rating"] is not None)


def dimension_of(answer):
    return answer["id"].split("/")[0]


def capability_of(answer):
    return next(
        name for name, dimensions in CAPABILITIES.items() if dimension_of(answer) in dimensions
    )


class EgoThinkCounting(Counting):
    TASK = "egothink_bench"
    HEADLINE = ("average", 1)
    OFFICIAL = MappingProxyType({None: 700})
    TABLE = "egothink_table3"
    RECORD = "answer"
    CLUSTER = "id"
    LABELLED = "First-7B"
    PAIRS = COMPARED = 3
    GROUPS = (("capability", capability_of, [*CAPABILITIES]), ("dimension", dimension_of, NAMES))
    ATTRIBUTES = ("capability", "dimension")

    def runs(self):
        """Write three runs of all tasks.

        Two share answers but not judges; one judge skipped a third.
        """
        for folder_name, harness, mean, seed, judge in (
            ("a", "lmms-eval", 0.7, 1, {"judge": "gpt"}),
            ("b", "lmms-eval", 0.3, 2, {"judge": "gpt", "unjudged": 0.3}),
            ("c", "lm-eval", 0.6, 3, {"judge": "qwen"}),
        ):
            yield (
                folder_name,
                harness,
                f"org/{RUNS[folder_name]}",
                egothink_bench(COUNT, mean, seed, **judge),
                {},
            )

    def other_gold(self, doc):
        return {"answer": "Another."}

    def answers(self, folder):
        return {
            name: [
                answer | {"score": None if answer["rating"] is None else 100 * answer["rating"]}
                for group in records(folder, run).values()
                for answer in group
            ]
            for run, name in RUNS.items()
        }

    def mean(self, answers):
        return self.difference(
            [answer["score"] for answer in self.known(answers)], self.known(answers)
        )

    def difference(self, values, answers):
        """Return the plain mean over the dimensions."""
        of_dimension = {}
        for value, answer in zip(values, answers, strict=True):
            of_dimension.setdefault(dimension_of(answer), []).append(value)
        return fmean(map(fmean, of_dimension.values()))

    def check_ends(self, figures, answers):
        assert figures["low"] < figures["value"] < figures["high"]

    def check_ends_of_slice(self, figures, answers, section, attribute):
        assert (figures["low"] is None) == bool(figures["no_interval"])
        key = {"dimension": "egothink_dimensions", "capability": "egothink_capabilities"}.get(
            attribute
        )
        if key is not None:
            table = {(row["group"], row["model"]): row for row in rows(section, key)}
            row = table[figures["name"], figures["run"]]
            assert ends(figures) == pytest.approx((row["low"], row["high"]))

    def write_labels(self, folder, answers):
        groups = {"wrong": [], "partly right": [], "right": []}
        lines = []
        for number, answer in enumerate(answers):
            groups[[*groups][number % 3]].append(answer)
            label = {
                "id": answer["id"],
                "model": self.LABELLED,
                "answer": answer["answer"],
                "rating": number % 3 / 2,
            }
            lines.append(json.dumps(label) + "\n")
        (folder / "annotation.json").write_text(json.dumps({"benchmark": "egothink"}))
        (folder / "people.jsonl").write_text("".join(lines))
        return {"people's rating": groups}

    def check_pair(self, pair):
        assert ("judges" in pair["why"]) == ("Third-7B" in (pair["first"], pair["second"]))


COUNTING = EgoThinkCounting()
