"""ActPlan-1K: plans beside the published scores, by setting, length and type of activity, and plan by plan."""

from lmms_egoplan.benchmarks.actplan.report.compact import compact
from lmms_egoplan.benchmarks.actplan.report.items import items
from lmms_egoplan.benchmarks.actplan.report.section import section
from lmms_egoplan.report.benchmark import BenchmarkReport

__all__ = ["REPORT", "compact", "items", "section"]

REPORT = BenchmarkReport(section, items, compact)
