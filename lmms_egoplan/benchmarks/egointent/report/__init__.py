"""EgoIntent: what is done, why and what comes next, beside Table 3, by scenario, and step by step."""

from lmms_egoplan.benchmarks.egointent.report.compact import compact
from lmms_egoplan.benchmarks.egointent.report.items import items
from lmms_egoplan.benchmarks.egointent.report.section import section
from lmms_egoplan.report.benchmark import BenchmarkReport

__all__ = ["REPORT", "compact", "items", "section"]

REPORT = BenchmarkReport(section, items, compact)
