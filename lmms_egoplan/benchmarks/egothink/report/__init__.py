"""EgoThink: twelve dimensions and six capabilities, who judged them, and what was asked and answered."""

from lmms_egoplan.benchmarks.egothink.report.items import items
from lmms_egoplan.benchmarks.egothink.report.noise import judge_noise
from lmms_egoplan.benchmarks.egothink.report.section import section

__all__ = ["items", "judge_noise", "section"]
