"""Provide three runs of EgoIntent, the contents of their files, and the values that the report
should show.
"""

import json
from operator import itemgetter
from statistics import fmean

import pytest

from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from report.counting import Counting
from report.joined import rows
from report.report_json import ends
from stats.slow_wilson import slow_wilson

COUNT = 60
SCORES = ("overall", *FIELDS, "indoor", "outdoor")
NAMES = {"a": "First-7B", "b": "Second-7B", "c": "Third-7B"}


def records(written, run):
    """The steps of a run, straight from its file."""
    (path,) = (written / run).rglob("*samples_egointent*.jsonl")
    return [json.loads(line)["details"]["step"] for line in path.read_text().splitlines()]


def score(steps, name):
    """Score a field slowly: missing fields score 0, and unjudged fields count as the mean of the
    judged ones.
    """
    if name in ("indoor", "outdoor"):
        return score([step for step in steps if step["environment"] == name], "overall")
    if name == "overall":
        return fmean(score(steps, field) for field in FIELDS)
    ratings = [step["ratings"][name] for step in steps if name in step["fields"]]
    return len(ratings) / len(steps) * fmean(rating for rating in ratings if rating is not None)


class EgoIntentCounting(Counting):
    """A step's score is the mean of its ratings.

    The main score covers all steps, even if some ratings are missing.
    """

    TASK = "egointent"
    HEADLINE = ("overall", 2)
    TABLE = "egointent_table3"
    RECORD = "step"
    ID = "step_id"
    PAIRS = COMPARED = 3
    GROUPS = (
        ("scenario", itemgetter("scenario"), ()),
        ("environment", itemgetter("environment"), ()),
    )
    ATTRIBUTES = ("scenario", "environment")

    def runs(self):
        """Return three runs: the second judge rated four fifths; the third run is from lm-eval with
        another judge.
        """
        for key, harness, mean, seed, judge in (
            ("a", "lmms-eval", 70, 1, {}),
            ("b", "lmms-eval", 40, 2, {"missing": 0.2, "unjudged": 0.2}),
            ("c", "lm-eval", 55, 3, {"judge": "other"}),
        ):
            tasks = {"egointent": egointent_answers(COUNT, mean, seed, **judge)}
            yield key, harness, f"org/{NAMES[key]}", tasks, {}

    def answers(self, folder):
        steps = {name: records(folder, run) for run, name in NAMES.items()}
        return {
            name: [step | {"score": _mean_of(step)} for step in run_steps]
            for name, run_steps in steps.items()
        }

    def count(self, answers):
        return len(answers)

    def mean(self, answers):
        return score(answers, "overall")

    def coverage(self, answers, task):
        unjudged = sum(rating is None for step in answers for rating in step["ratings"].values())
        return len(answers) / 3014 * (1 - unjudged / (3 * len(answers)))

    def check_ends(self, figures, answers):
        """Compare the interval with a slow version."""
        of_video = {}
        for step in answers:
            of_video.setdefault(step["video_id"], []).append(step)
        slow = slow_wilson([*of_video.values()], lambda steps: score(steps, "overall"), top=100)
        assert ends(figures) == pytest.approx(slow)

    def check_ends_of_slice(self, figures, answers, section, attribute):
        assert (figures["low"] is None) == (len({step["video_id"] for step in answers}) < 10)
        if attribute == "environment":
            table = {
                (row["score_of"].lower(), row["model"]): row
                for row in rows(section, "egointent_scores")
            }
            row = table[figures["name"], figures["run"]]
            assert (figures["value"], *ends(figures)) == pytest.approx(
                (row["score"], row["low"], row["high"])
            )

    def check_pair(self, pair):
        assert ("judges" in pair["why"]) == ("Third-7B" in (pair["first"], pair["second"]))


def _mean_of(step):
    ratings = [step["ratings"][field] for field in FIELDS]
    return None if None in ratings else fmean(ratings)


COUNTING = EgoIntentCounting()
