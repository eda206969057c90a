"""Three runs of EgoIntent, what their files hold, and what the report shows of them."""

import json
from contextlib import contextmanager
from statistics import fmean

import pytest

from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from report.prepared import prepare_data
from report.synthetic import write_run

COUNT = 60
SCORES = ("overall", *FIELDS, "indoor", "outdoor")
NAMES = {"a": "First-7B", "b": "Second-7B", "c": "Third-7B"}


def write_runs(out):
    """The second run's judge left out a fifth, the third is of lm-eval and has another judge."""
    write_run(out / "a", "lmms-eval", "org/First-7B", {"egointent": egointent_answers(COUNT, 70, 1)})
    second = egointent_answers(COUNT, 40, 2, missing=0.2, unjudged=0.2)
    write_run(out / "b", "lmms-eval", "org/Second-7B", {"egointent": second})
    third = egointent_answers(COUNT, 55, 3, judge="other")
    write_run(out / "c", "lm-eval", "org/Third-7B", {"egointent": third})
    return out


@contextmanager
def prepared_data(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(root))
        prepare_data(root, egointent=COUNT)
        yield root


def records(written, run):
    """The steps of a run, straight from its file."""
    (path,) = (written / run).rglob("*samples_egointent*.jsonl")
    return [json.loads(line)["overall"] for line in path.read_text().splitlines()]


def score(steps, name):
    """A field that is missing scores 0; of the others, those that are judged stand for those that are not."""
    if name in ("indoor", "outdoor"):
        return score([step for step in steps if step["environment"] == name], "overall")
    if name == "overall":
        return fmean(score(steps, field) for field in FIELDS)
    found = [step["ratings"][name] for step in steps if name in step["fields"]]
    return len(found) / len(steps) * fmean(rating for rating in found if rating is not None)
