"""EgoPlan: accuracies beside Tables 1 and 3, by past actions and by goal-answer similarity, and the questions."""

from lmms_egoplan.benchmarks.egoplan.report.compact import compact
from lmms_egoplan.benchmarks.egoplan.report.items import items
from lmms_egoplan.benchmarks.egoplan.report.section import section
from lmms_egoplan.report.benchmark import BenchmarkReport

__all__ = ["REPORT", "compact", "items", "section"]

REPORT = BenchmarkReport(section, items, compact)
