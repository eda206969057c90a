"""EgoPlan-Bench2's part of reports: accuracies by domain and scenario, and the questions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egoplan_bench2.metrics import DOMAIN_METRIC
from lmms_egoplan.benchmarks.egoplan_bench2.records import DOMAINS
from lmms_egoplan.benchmarks.egoplan_bench2.report.answers import OFFICIAL, Series, read_series
from lmms_egoplan.benchmarks.egoplan_bench2.report.tables import all_tables, note
from lmms_egoplan.benchmarks.egoplan_bench2.splits import PREPARED, SPLIT
from lmms_egoplan.benchmarks.egoplan_bench2.visuals import uniform_images
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.next_action.report import ChoiceReport, choice_measures
from lmms_egoplan.report.compact_tables import compact_table, score_notes
from lmms_egoplan.report.document import Table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Key

_SCENARIO = "scenario"


class EgoPlanBench2Report(ChoiceReport[Series]):
    """EgoPlan-Bench2's part of a report."""

    NAME = "egoplan_bench2"
    TITLE = "EgoPlan-Bench2"
    LEAD = note("lead")
    PREPARED = PREPARED
    SPLIT = SPLIT
    OFFICIAL = OFFICIAL
    OFFICIAL_NAME = "EgoPlan-Bench2"

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """The tasks, ``egoplan_bench2`` first."""
        return read_series(runs)

    def group_order(self, attribute: str) -> Sequence[str]:
        """Domains in the paper's order."""
        return DOMAINS if attribute == "domain" else ()

    def tables(self) -> Iterator[Table | None]:
        """All scores, by scenario, and run against run."""
        return all_tables(self.tasks, lambda key: self.questions[key]["facts"].get(_SCENARIO))

    def compact_table(self) -> Table:
        """Accuracies in per cent."""
        notes = ([note("ranked")] if any(task.is_ranked for task in self.tasks) else []) + score_notes(self.tasks)
        title, measures = "EgoPlan-Bench2: accuracy in per cent", partial(choice_measures, parts=DOMAIN_METRIC.values())
        return compact_table("egoplan_bench2_compact", title, self.tasks, measures, notes)

    def facts(self, key: Key, doc: Mapping[str, Any] | None, domain: str | None) -> dict[str, str]:
        """Domain, and scenario of a question that is at hand."""
        domain = doc["domain"] if doc else domain
        facts = {"domain": domain} if domain else {}
        return facts | ({_SCENARIO: doc["scenario"]} if doc else {})

    def images(self, doc: Mapping[str, Any]) -> Callable[[], VisualInput]:
        """Evenly spaced frames."""
        return partial(uniform_images, doc)
