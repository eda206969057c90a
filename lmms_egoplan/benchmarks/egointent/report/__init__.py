"""EgoIntent: what is done, why and what comes next, beside Table 3, by scenario, and step by step."""

from lmms_egoplan.benchmarks.egointent.report.items import items
from lmms_egoplan.benchmarks.egointent.report.section import section

__all__ = ["items", "section"]
