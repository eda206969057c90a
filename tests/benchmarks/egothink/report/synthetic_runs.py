"""Three runs of EgoThink, what their files hold, and what the report shows of them."""

import json
from contextlib import contextmanager
from statistics import fmean

import pytest

from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from report.prepared import prepare_data
from report.synthetic import write_run

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


def write_runs(out):
    """Three runs of all twelve, of which two have the same answers and other judges; one judge left out a third."""
    write_run(out / "a", "lmms-eval", "org/First-7B", egothink_bench(COUNT, 0.7, 1, judge="gpt"))
    write_run(out / "b", "lmms-eval", "org/Second-7B", egothink_bench(COUNT, 0.3, 2, judge="gpt", unjudged=0.3))
    write_run(out / "c", "lm-eval", "org/Third-7B", egothink_bench(COUNT, 0.6, 3, judge="qwen"))
    return out


@contextmanager
def prepared_data(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(root))
        prepare_data(root, egothink=COUNT)
        yield root


def records(written, run):
    """The answers of a run by dimension, straight from its files."""
    found = {name: [] for name in NAMES}
    for path in sorted((written / run).rglob("*samples_egothink*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)["score"]
            found[record["id"].split("/")[0]].append(record)
    return found


def score(answers):
    return 100 * fmean(answer["rating"] for answer in answers if answer["rating"] is not None)
