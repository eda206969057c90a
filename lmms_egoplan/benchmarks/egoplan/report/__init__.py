"""EgoPlan: accuracies beside Tables 1 and 3, by past actions and by goal-answer similarity, and the questions."""

from lmms_egoplan.benchmarks.egoplan.report.items import items
from lmms_egoplan.benchmarks.egoplan.report.section import section

__all__ = ["items", "section"]
