"""EgoThink: twelve dimensions and six capabilities, who judged them, and what was asked and answered."""

from lmms_egoplan.benchmarks.egothink.report.compact import compact
from lmms_egoplan.benchmarks.egothink.report.items import items
from lmms_egoplan.benchmarks.egothink.report.noise import judge_noise
from lmms_egoplan.benchmarks.egothink.report.section import section
from lmms_egoplan.report.benchmark import BenchmarkReport

__all__ = ["REPORT", "compact", "items", "judge_noise", "section"]

REPORT = BenchmarkReport(section, items, compact, lambda inputs: judge_noise(inputs.judged))
