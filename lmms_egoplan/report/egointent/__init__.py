"""EgoIntent: what is done, why and what comes next, beside Table 3, by scenario, and step by step."""

from lmms_egoplan.report.egointent.items import items
from lmms_egoplan.report.egointent.section import section

__all__ = ["items", "section"]
