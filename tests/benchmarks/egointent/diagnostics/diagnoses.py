"""Diagnoses as a judge's verdicts make them."""

from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import SCORES, askable
from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import Diagnosis
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS


def diagnosis_of(scores, found=FIELDS, number=1):
    rated = dict(zip(SCORES, scores, strict=True))
    judges = {name: None if score is None or name not in askable(found) else "sees" for name, score in rated.items()}
    nothing = dict.fromkeys(SCORES)
    return Diagnosis(f"s{number}", dict.fromkeys(found, "text"), rated, nothing, judges, nothing, [], False, 6, 6)
