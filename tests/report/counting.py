"""Answers counted by other means than the report's, for the tests that compare the two in every benchmark."""

from statistics import fmean
from types import MappingProxyType

import pytest

from lmms_egoplan.report.statistics import bootstrap_interval
from report.joined import near
from report.report_json import ends


class Counting:
    """A benchmark's answers. Each has a ``score``, which may be None, and a cluster under the key `CLUSTER`.

    TASK: that of a run whose name in the gallery names none.
    WITHOUT_SAMPLES: names of runs that have only scores.
    LABELLED: the run whose answers people have labelled; IS_LABELLED_ALONE if the others have other answers.
    HEADLINE: the main score's name and decimals.
    OFFICIAL: how many official questions a task has; None for the whole benchmark's.
    TABLE: the table in which runs are among the published rows.
    RECORD: what a harness logs of an answer; ID: the key of its question.
    PAIRS: how many pairs of runs in one task are compared; COMPARED: of runs and tasks.
    GROUPS: attributes that are tested, each with the function that finds an answer's group, and the groups in order.
    ATTRIBUTES: all attributes of the slices.
    """

    TASK = ""
    HEADLINE = ("", 0)
    OFFICIAL = MappingProxyType({})
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
        """Give a folder, the harness, the model, its tasks and other arguments of `write_run` for each run."""
        raise NotImplementedError

    def other_gold(self, doc):
        """Give what another gold answer changes in a question."""
        pytest.skip("the harness logs no gold answers")

    def answers(self, folder):
        """Answers of each run with samples, by the run's name in the gallery."""
        raise NotImplementedError

    def known(self, answers):
        return [answer for answer in answers if answer["score"] is not None]

    def count(self, answers):
        return len(self.known(answers))

    def mean(self, answers):
        return fmean(answer["score"] for answer in self.known(answers)) if self.known(answers) else None

    def difference(self, values, answers):
        """Return the mean difference of two runs over the answers for which both have a score."""
        return fmean(values)

    def coverage(self, answers, task):
        return self.count(answers) / self.OFFICIAL.get(task, self.OFFICIAL[None])

    def truncated(self, answers):
        known = [answer["truncated"] for answer in answers if answer.get("truncated") is not None]
        return fmean(known) if known else None

    def check_score(self, shown, answers):
        """Assert what else a run's main score says."""
        self.check_ends(shown, answers)

    def check_ends(self, shown, answers):
        """Assert that an interval is that of these answers."""
        known = self.known(answers)
        scores, clusters = ([answer[key] for answer in known] for key in ("score", self.CLUSTER))
        assert ends(shown) == near(bootstrap_interval(scores, clusters) or (None, None))

    def check_ends_of_slice(self, shown, answers, section, attribute):
        self.check_ends(shown, answers)

    def write_labels(self, folder, answers):
        """Write what people said of one run's answers; give those of each group by attribute."""
        pytest.skip("no report has labels of them")

    def check_pair(self, pair):
        """Assert what else is known of two runs that are compared."""
