"""Scores counted independently of the report, to compare the two for every benchmark."""

from statistics import fmean
from types import MappingProxyType

import pytest

from lmms_egoplan.stats.intervals import score_interval
from report.joined import near
from report.report_json import ends


class Counting:
    """A benchmark's answers.

    Each has a ``score``, which may be None, and a cluster under the key `CLUSTER`.

    TASK: task of a run whose name in the gallery contains no task.
    WITHOUT_SAMPLES: names of runs that have only scores.
    LABELLED: the run whose answers people have labelled.
    IS_LABELLED_ALONE: true if people's labels do not apply to the answers of other runs.
    HEADLINE: name and decimals of the main score.
    OFFICIAL: number of official questions by task. The key None is for all tasks without an entry.
    TABLE: key of the table in which runs are among the published rows.
    RECORD: key of the answer in the details of a logged sample.
    ID: key of the question's id in an answer.
    PAIRS: number of differences in ``report.json``.
    COMPARED: number of pairs in the table of comparisons.
    GROUPS: tested attributes, each with a function from an answer to its group, and the groups in
    order.
    ATTRIBUTES: all attributes of the slices.
    """

    TASK = ""
    HEADLINE = ("", 0)
    OFFICIAL = MappingProxyType({})
    TOP = 100
    TABLE = ""
    RECORD = ""
    ID = "id"
    CLUSTER = "video_id"
    WITHOUT_SAMPLES = ()
    LABELLED = ""
    IS_LABELLED_ALONE = False
    PAIRS = COMPARED = 1
    GROUPS = ()
    ATTRIBUTES = ()

    def runs(self):
        """Return folder, harness, model, tasks and more arguments of `write_run` for each run."""
        raise NotImplementedError

    def other_gold(self, doc):
        """Return the fields of a question that change with another gold answer."""
        pytest.skip("the harness logs no gold answers")

    def answers(self, folder):
        """Return the answers of each run with samples, by the run's name in the gallery."""
        raise NotImplementedError

    def known(self, answers):
        return [answer for answer in answers if answer["score"] is not None]

    def count(self, answers):
        return len(self.known(answers))

    def mean(self, answers):
        return (
            fmean(answer["score"] for answer in self.known(answers))
            if self.known(answers)
            else None
        )

    def mean_and_count(self, answers):
        return near(self.mean(answers)), self.count(answers)

    def difference(self, values, answers):
        """Return the mean difference of two runs over the answers for which both have a score."""
        return fmean(values)

    def coverage(self, answers, task):
        return self.count(answers) / self.OFFICIAL.get(task, self.OFFICIAL[None])

    def truncated(self, answers):
        known = [answer["truncated"] for answer in answers if answer.get("truncated") is not None]
        return fmean(known) if known else None

    def check_score(self, score, answers):
        """Check further fields of a run's main score."""
        self.check_ends(score, answers)

    def check_ends(self, group, answers):
        """Check the interval of these answers."""
        known = self.known(answers)
        scores, clusters = ([answer[key] for answer in known] for key in ("score", self.CLUSTER))
        assert ends(group) == near(score_interval(scores, clusters, self.TOP) or (None, None))

    def check_ends_of_slice(self, group, answers, section, attribute):
        self.check_ends(group, answers)

    def write_labels(self, folder, answers):
        """Write people's labels of a run's answers; return each group's answers by attribute."""
        pytest.skip("no report has labels of them")

    def check_pair(self, pair):
        """Check further fields of two compared runs."""
