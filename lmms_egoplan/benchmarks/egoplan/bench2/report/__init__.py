"""EgoPlan-Bench2's part of reports: accuracies by domain and scenario, and the questions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench2.metrics import DOMAIN_METRIC
from lmms_egoplan.benchmarks.egoplan.bench2.records import DOMAINS
from lmms_egoplan.benchmarks.egoplan.bench2.report.answers import OFFICIAL, Series, read_series
from lmms_egoplan.benchmarks.egoplan.bench2.report.tables import all_tables, note
from lmms_egoplan.benchmarks.egoplan.bench2.splits import PREPARED, SPLIT
from lmms_egoplan.benchmarks.egoplan.bench2.visuals import uniform_images
from lmms_egoplan.benchmarks.egoplan.report import ChoiceReport
from lmms_egoplan.benchmarks.egoplan.report.answers import grouped
from lmms_egoplan.report.document import Table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Key


class EgoPlanBench2Report(ChoiceReport[Series]):
    """EgoPlan-Bench2's part of a report."""

    NAME = "egoplan_bench2"
    TITLE = "EgoPlan-Bench2"
    LEAD = note("lead")
    PREPARED = PREPARED
    SPLIT = SPLIT
    OFFICIAL = OFFICIAL
    OFFICIAL_NAME = "EgoPlan-Bench2"
    PARTS = tuple(DOMAIN_METRIC.values())
    RANKED = note("ranked")
    SHOWN = staticmethod(uniform_images)

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """The tasks, ``egoplan_bench2`` first."""
        return read_series(runs)

    def group_order(self, attribute: str) -> Sequence[str]:
        """Domains in the paper's order."""
        return DOMAINS if attribute == "domain" else ()

    def tables(self) -> Iterator[Table | None]:
        """All scores, by scenario, and run against run."""
        scenarios = {key: doc["scenario"] for key, doc in self.docs[0].items()}
        return all_tables(self.tasks, grouped(self.tasks, scenarios, sorted({*scenarios.values()} - {""})))

    def facts(self, key: Key, doc: Mapping[str, Any] | None, domain: str | None) -> dict[str, str]:
        """Domain, and scenario of a question that is at hand."""
        domain = doc["domain"] if doc else domain
        facts = {"domain": domain} if domain else {}
        return facts | ({"scenario": doc["scenario"]} if doc else {})
